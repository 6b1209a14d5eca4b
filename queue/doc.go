// Package queue is floe's priority queues: leases, retries with back-off, delays, dead letters,
// deduplication.
//
//	node, _ := floe.Open(floe.Config{DataDir: "data"})
//	jobs := node.Queue("default")
//	_, err := jobs.Enqueue(ctx, "mail", []byte("to: ada"), queue.Priority(10), queue.Delay(time.Minute))
//	err = jobs.Consume(ctx, "mail", func(ctx context.Context, m queue.Message) error {
//		return send(ctx, m.Payload) // nil: the message is acked; an error: it is delivered again
//	}, queue.Concurrency(10))
//
// Consume is a loop over Dequeue, Extend, Ack and Nack, for who wants to write another:
//
//	messages, err := jobs.Dequeue(ctx, "mail", queue.Max(10), queue.Wait(20*time.Second))
//	for _, m := range messages {
//		_, err = jobs.Ack(ctx, "mail", m.Receipt) // a *ReceiptError: the lease had ended, the message is delivered again
//	}
//
// # Concepts
//
// A queue comes into being with its first message, or by Configure. Its messages have a priority
// from 0 to 255, lower being more urgent, and a Seq that counts them: the next one to be delivered
// is that of the least priority, and of those the one with the least Seq. A delivery is a lease: it
// ends with an Ack, which removes the message, with a Nack, or by itself. In the latter two cases
// the message takes its old place again, after a back-off, until it has been delivered MaxAttempts
// times: then it is a dead letter, which keeps payload, attempts and last error and is kept until
// somebody requeues or deletes it, or for Settings.DeadRetention. Messages.Get returns a message by
// its Seq in any state, and Messages.Delete deletes one that is not leased.
//
// # Guarantees
//
// When Enqueue returns nil, the message is committed as floe.Config.Durability says, and will be
// delivered at least once. A message that was acked is never delivered again. Attempts are counted,
// and leases kept, across crashes and changes of leaders. A receipt is good for one delivery: a
// consumer whose lease has ended gets a ReceiptError and takes nothing from the next one. Those who
// wait for messages get them in the order in which they came, as far as one of them per message is
// woken. All operations that write can be part of a transaction (floe.Node.Txn).
//
// # Limits
//
// Names are 1 to 255 bytes of UTF-8, payloads up to floe.Config.MaxValueSize (1 MiB by default),
// headers up to 64 KiB. 1,000 messages or 4 MiB go into one call. 1,000,000 messages may be leased
// at a time in each shard. How many messages and queues there are does not matter for the time that
// anything takes.
package queue
