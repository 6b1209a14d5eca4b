// Package stream is floe's append-only streams: partitioned logs of records with readers, followers and consumer groups.
//
//	node, _ := floe.Open(floe.Config{DataDir: "data"})
//	streams := node.Stream("default")
//	a, err := streams.Append(ctx, "orders", stream.Message{Key: "42", Payload: []byte(`{"item":"book"}`)})
//	recs, err := streams.Read(ctx, "orders", stream.From(a.ID))
//
//	ds, err := streams.ReadGroup(ctx, "orders", "billing", "worker-1", stream.Wait(time.Minute))
//	n, err := streams.Ack(ctx, "orders", "billing", stream.RefsOf(ds)...)
//
// # Concepts
//
// A stream has 1 to 1024 partitions; a record's is that of its key, so records of a key stay in order. Its ID says when it was appended and only
// increases; its offset counts the records of its partition. Records stay until retention, by age or length, or Trim removes them.
//
// A consumer group shares the records among its consumers. One that is delivered has to be acknowledged in time, or it is delivered again, after a pause
// that doubles each time, to whoever asks; when it was delivered too often it goes to the stream of dead letters, "orders.dlq". In a Shared group
// any consumer gets any record. An Exclusive one has one consumer at a time. In a KeyShared one the records of a key go to one consumer at a time and
// in order, and a key that is slow or fails holds up no other.
//
// # Guarantees
//
// When an append returns nil, its records are committed as floe.Config.Durability says and visible to every reader, with IDs and offsets that never change; all
// messages of one call are appended or none (in a spread namespace: of each partition). With Dedup a repeated append is recognised. A reader who goes on
// behind the last ID it has read misses nothing and reads nothing twice.
//
// A group delivers each record at least once; one whose acknowledgement has returned is never delivered again, whatever fails. Cursors, what is pending and
// how often it was delivered are replicated. AckOp in a transaction does exactly once what the transaction does.
//
// # Limits
//
// Payloads up to floe.Config.MaxValueSize (1 MiB by default), keys 4096 bytes, headers 64 KiB; 10,000 messages and 4 MiB in one append; reads
// of 1,000 records and 4 MiB. 10,000 groups of a stream, 1,000 members of a group, and 100,000 records of a group that are not acknowledged, in one shard.
package stream
