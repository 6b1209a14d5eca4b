package protocol

// Kinds of commands that other machines run with engine.Tx.Then or send to other shards. They are
// part of the format of the log. Each is a row among the commands of its machine.
const (
	// Of engine.MachineAction.
	KindInvoke uint8 = 1 // an Invoke
	KindCancel uint8 = 2 // a Cancel

	// Of engine.MachineKV.
	KindPutMany uint8 = 8 // bodies of puts, each behind its length (uvarint)

	// Of engine.MachineStream.
	KindRelaySubscription uint8 = 22 // a Subscription, in the home of the namespace
	KindSubscribe         uint8 = 23 // a Subscription, in a shard of the stream
	KindBatchEnd          uint8 = 25 // an End with a BatchToken; with StatusAgain the run continues
	KindAppendMany        uint8 = 28 // the body of an append, for partitions in any shards
)

// QuerySubscription is the kind of SubscriptionQuery, a query of engine.MachineStream.
const QuerySubscription uint8 = 11
