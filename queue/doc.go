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
// Consume is a loop over Dequeue, Extend, Ack and Nack. To write your own loop:
//
//	messages, err := jobs.Dequeue(ctx, "mail", queue.Max(10), queue.Wait(20*time.Second))
//	for _, m := range messages {
//		_, err = jobs.Ack(ctx, "mail", m.Receipt) // a *ReceiptError: the lease had ended, the message is delivered again
//	}
//
// # Concepts
//
// A queue is created by its first message, or by Configure. Each message has a priority from 0 to
// 255, lower being more urgent, and a Seq, its number in the queue. Messages are delivered in order
// of priority, and by Seq within a priority. A delivery is a lease. It ends with an Ack, which
// removes the message, with a Nack, or when it expires. After a Nack or an expiry the message
// returns to its old place, after a back-off, until it has been delivered MaxAttempts times. Then
// it becomes a dead letter, with its payload, attempts and last error. A dead letter is kept until
// it is requeued or deleted, or for Settings.DeadRetention. Messages.Get returns a message by its
// Seq in any state, and Messages.Delete deletes one that is not leased.
//
// # Guarantees
//
// When Enqueue returns nil, the message is committed (see floe.Config.Durability) and will be
// delivered at least once. An acked message is never delivered again. Attempts and leases survive
// crashes and changes of leaders. A receipt is valid for one delivery: a consumer whose lease has
// ended gets a ReceiptError and does not affect the next delivery. Waiting consumers are woken in
// order of arrival, one for each message. All operations that write can be part of a transaction
// (floe.Node.Txn).
//
// # Limits
//
// Names are 1 to 255 bytes of UTF-8, payloads up to floe.Config.MaxValueSize (1 MiB by default),
// headers up to 64 KiB. A call takes up to 1,000 messages or 4 MiB. Each shard can have up to
// 1,000,000 leased messages. No operation takes longer because there are many messages or queues.
package queue
