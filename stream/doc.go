// Package stream provides append-only streams: ordered, partitioned logs of records that can be
// read repeatedly, followed as they grow, and processed by consumer groups.
//
//	node, _ := floe.Open(floe.Config{DataDir: "data"})
//	store := node.Stream("default")
//	a, err := store.Append(ctx, "orders", stream.Message{Key: "customer-7", Payload: order})
//	for rec, err := range store.Follow(ctx, "orders", stream.After(a.ID)) {
//		...
//	}
//	err = store.Consume(ctx, "orders", "billing", func(ctx context.Context, d stream.Delivery) error {
//		return bill(ctx, d.Payload) // nil: the record is acknowledged; an error: it is delivered again
//	}, stream.Concurrency(10))
//
// Consume is a loop over ReadGroup, Extend, Ack and Nack. To write your own loop, start with:
//
//	ds, err := store.ReadGroup(ctx, "orders", "billing", "worker-1", stream.Wait(time.Minute))
//	n, err := store.Ack(ctx, "orders", "billing", stream.RefsOf(ds)...)
//
// # Concepts
//
// A stream has 1 to 1024 partitions. Each partition is a separate log. A message is appended to the
// requested partition, or to that of its key. If neither is given, the partitions take turns. A
// record has an Offset, which counts the records of its partition from 1 without gaps. It also has
// an ID: the time of the append and a sequence number. IDs increase within a partition even if a
// clock goes back, and are unique within a stream.
//
// Read and Follow return the records of all partitions in the order of their IDs, or those of one
// partition. Retention limits a stream by age, length or bytes and is enforced automatically; Trim
// removes more. A reader's position is an ID: readers leave no state behind.
//
// A consumer group shares the records among its consumers. A delivered record must be acknowledged
// in time, or it is redelivered to any consumer, after a pause that doubles each time. After too
// many deliveries it goes to the dead-letter stream, "orders.dlq". In a Shared group any consumer
// gets any record. An Exclusive group has one active consumer at a time. In a KeyShared group the
// records of a key go to one consumer at a time and in order. A key that is slow or fails does not
// block the others.
//
// # Guarantees
//
// When an append returns nil, all of its records are committed (see floe.Config.Durability) and
// visible to every reader at the returned positions, until they are trimmed. With Dedup an append
// can be repeated until its outcome is known, and takes effect once. IfLastID, and LastIDIs in a
// transaction (floe.Node.Txn), ensure that no other client has appended. Follow skips only records
// that are trimmed before it reads them, and returns none twice. The cost of a read depends on its
// result, not on its position in the stream.
//
// A group delivers each record at least once. Once an acknowledgement has returned, the record is
// not delivered again, even after failures. Cursors, pending records and their attempts are
// replicated. With AckOp in a transaction, the transaction takes effect once for each record.
//
// In a spread namespace the partitions of a stream are in several shards, unless its name has a
// {tag}. There AppendMany is atomic for each partition, and Dedup and IfLastID require that all
// messages are for one partition. IDs come from the clocks of several nodes, so a new record may
// get a smaller ID than one already read. Follow returns it; a reader that continues with After(id)
// may miss it.
//
// # Limits
//
// A payload is up to floe.Config.MaxValueSize (1 MiB by default), a key up to 4096 bytes, headers
// up to 64 KiB. AppendMany takes up to 10,000 messages and 4 MiB. Read returns up to 1,000 records
// and ends when they exceed 4 MiB. Dedup remembers the last 8 appends of a producer, for 24 hours.
// A stream has up to 10,000 groups. A group has up to 1,000 members and, in one shard, 100,000
// pending records. A stream that is deleted and recreated within a millisecond may reuse IDs.
package stream
