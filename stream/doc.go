// Package stream is floe's append-only streams: ordered, partitioned logs of records that can be
// read again and again, followed as they grow, and worked off by consumer groups.
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
// Consume is a loop over ReadGroup, Extend, Ack and Nack, for who wants to write another:
//
//	ds, err := store.ReadGroup(ctx, "orders", "billing", "worker-1", stream.Wait(time.Minute))
//	n, err := store.Ack(ctx, "orders", "billing", stream.RefsOf(ds)...)
//
// # Concepts
//
// A stream has 1 to 1024 partitions, each a log of its own. A message gets to the partition that is
// asked for, else to that of its key, else to one after the other. A record has an Offset, which
// counts the records of its partition from 1 without gaps, and an ID: the time at which it was
// appended and a sequence number. IDs increase within a partition also when a clock goes back, and
// no two records of a stream have the same.
//
// Read and Follow return the records of all partitions together, in the order of IDs, or those of
// one. What a stream keeps is bounded by age, by length or by bytes (Retention), enforced without
// being asked; Trim removes more. Where somebody has come to is an ID: readers leave nothing
// behind.
//
// A consumer group shares the records among its consumers. One that is delivered has to be
// acknowledged in time, or it is delivered again, after a pause that doubles each time, to whoever
// asks; when it was delivered too often it goes to the stream of dead letters, "orders.dlq". In a
// Shared group any consumer gets any record. An Exclusive one has one consumer at a time. In a
// KeyShared one the records of a key go to one consumer at a time and in order, and a key that is
// slow or fails holds up no other.
//
// # Guarantees
//
// When an append returns nil, all of its records are committed as floe.Config.Durability says and
// visible to every reader, at the places it returned, until they are trimmed. With Dedup an append
// can be repeated until its outcome is known, and happens once. IfLastID, and LastIDIs in a
// transaction (floe.Node.Txn), make sure that nobody else has appended. Follow leaves out nothing
// that is not trimmed before it comes to it, and returns nothing twice. The cost of a read is that
// of what it returns, wherever in the stream it begins.
//
// A group delivers each record at least once; one whose acknowledgement has returned is never
// delivered again, whatever fails. Cursors, what is pending and how often it was delivered are
// replicated. With AckOp in a transaction, what the transaction does is done once for each record.
//
// In a spread namespace the partitions of a stream are in several shards, unless its name has a
// {tag}. There AppendMany is atomic for each partition, Dedup and IfLastID are for messages of one
// partition, and the clocks of several nodes make the IDs: a record may get an ID before one that
// has been read. Follow returns it; who reads on with After(id) might not.
//
// # Limits
//
// A payload is up to floe.Config.MaxValueSize (1 MiB by default), a key up to 4096 bytes, headers
// up to 64 KiB. AppendMany takes up to 10,000 messages and 4 MiB, Read returns up to 1,000 records
// and ends when they exceed 4 MiB. Dedup knows the last 8 appends of a producer, for 24 hours. A
// stream has up to 10,000 groups, a group 1,000 members and, in one shard, 100,000 records that are
// not acknowledged. A stream that is deleted and made again within a millisecond may use its IDs
// again.
package stream
