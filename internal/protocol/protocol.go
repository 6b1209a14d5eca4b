// Package protocol holds what machines ask of each other: the commands that one machine runs in
// another, and the reads of another machine's rows. It only defines the messages; the machine that
// receives a command carries it out.
//
// Package action runs actions for other machines (run.go):
//
//	caller                        engine.MachineAction
//	KindInvoke, Invoke      -->   creates a run
//	KindCancel, Cancel      -->   cancels it
//	Notify.Command, End     <--   in the entry that ends the run
//
// Package stream delivers the records of a consumer group to a subscriber (subscription.go). A batch
// and its acknowledgement are one command:
//
//	subscriber                    home of the stream                other shards of the stream
//	KindSubscribe           -->   creates the group           -->   KindSubscribe
//	Subscriber.Command, Batch <-- takes a batch
//	KindBatchEnd, End       -->   has room for another one    -->   a grant
//
// A subscriber in another namespace does not know whether that of the stream is spread. It sends
// KindRelaySubscription to the namespace's home.
//
// Duties read streams, queues, keys and time series of their shard (read.go).
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
