package stream

import (
	"strconv"

	"github.com/floedb/floe/internal/engine"
)

// DeadLetterSuffix is the suffix of the names of dead-letter streams: dead letters of all groups of
// "orders" go to "orders.dlq".
const DeadLetterSuffix = ".dlq"

// The headers that floe adds to a dead letter. They do not count towards MaxHeaderBytes: a record
// must not be lost because it has many headers.
const (
	HeaderStream    = "floe-stream"
	HeaderGroup     = "floe-group"
	HeaderPartition = "floe-partition"
	HeaderID        = "floe-id"
	HeaderAttempts  = "floe-attempts"
	HeaderError     = "floe-error"
)

// DeadLetters returns the name of a stream's dead-letter stream: its name with DeadLetterSuffix.
// Names of more than 251 bytes are truncated first, so streams whose first 251 bytes are equal
// share their dead letters. The header HeaderStream tells them apart.
func DeadLetters(stream string) string {
	for n := engine.MaxNameBytes - len(DeadLetterSuffix); n < len(stream); n-- {
		if name := stream[:n] + DeadLetterSuffix; name != stream && engine.CheckName("stream", stream[:n]) == nil {
			return name
		}
	}
	return stream + DeadLetterSuffix
}

// bury appends a record that exceeded MaxAttempts to the dead letters. Its row may have been
// trimmed meanwhile.
func (m *machine) bury(tx *engine.Tx, st *stream, g *group, partition int, offset, attempts uint64, reason string) {
	b, ok := tx.Get(recordKey(nil, st.gen, partition, offset))
	if !ok || offset < st.parts[partition].first {
		return
	}
	rec := must(decodeRecord(b, partition, offset))
	msg := rec.Message
	if msg.Headers == nil {
		msg.Headers = make(map[string]string)
	}
	msg.Headers[HeaderStream] = st.name
	msg.Headers[HeaderGroup] = g.group
	msg.Headers[HeaderPartition] = strconv.Itoa(partition)
	msg.Headers[HeaderID] = rec.ID.String()
	msg.Headers[HeaderAttempts] = strconv.FormatUint(attempts, 10)
	msg.Headers[HeaderError] = reason
	name := DeadLetters(st.name)
	if tx.Spread() && engine.NameShard(tx.NamespaceName(), name, tx.Shards()) != tx.Shard() {
		b := appendBody{options: appendOptions{partition: 1}, added: []Message{msg}}
		tx.Send(engine.Message{Command: sent(tx, kindAppend, name, &b, (*appendBody).code, b.size()), Name: name, Lane: laneOf(name)})
		return
	}
	to := m.load(tx, name)
	if to == nil || to.deleted() {
		to = m.found(tx, name, 1, policy{})
	}
	m.appendTo(tx, to, [][]byte{msg.append(nil)}, []int{0})
}
