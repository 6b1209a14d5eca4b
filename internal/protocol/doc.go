// Package protocol defines the messages between machines: the commands that one machine runs in
// another, and the reads of another machine's rows. The machine that receives a command executes
// it.
//
// Package action runs actions for other machines (run.go):
//
//	caller                        engine.MachineAction
//	KindInvoke, Invoke      -->   creates a run
//	KindCancel, Cancel      -->   cancels it
//	Notify.Command, End     <--   in the entry that ends the run
//
// Package stream delivers the records of a consumer group to a subscriber (subscription.go). A
// batch and its acknowledgement are one command:
//
//	subscriber                    home of the stream                other shards of the stream
//	KindSubscribe           -->   creates the group           -->   KindSubscribe
//	Subscriber.Command, Batch <-- takes a batch
//	KindBatchEnd, End       -->   has room for another one    -->   a grant
//
// A subscriber in another namespace does not know whether the stream's namespace is spread, so it
// sends KindRelaySubscription to that namespace's home.
//
// Duties read the streams, queues, keys and time series of their shard (read.go).
package protocol
