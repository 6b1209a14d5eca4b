package stream

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// pour is append for other machines, which do not know where the partitions of a stream of a spread namespace are: its home keeps what is for partitions that are
// here, and sends the rest on. All of it goes this way, so that records for one partition stay in the order in which they were poured. A shard refuses what
// is sent on only when the stream has been deleted since: then it is gone like what was in it.
func (m *machine) pour(tx *engine.Tx, st *stream, c *command) ([]byte, error) {
	o := &c.append.options
	if !tx.Spread() || engine.Tagged(c.name) || st == nil || st.partitions == 1 || o.partition > 0 || o.conditional() {
		return m.append(tx, st, c)
	}
	byPartition := make([][][]byte, st.partitions)
	unkeyed := int(uint64(tx.LSN()) % uint64(st.partitions)) // what is sent on leaves nothing here that could say whose turn it is
	for _, msg := range c.append.messages {
		k, err := keyOf(msg)
		if err != nil {
			return nil, err
		}
		p := partitionOf(k, 0, unkeyed, st.partitions)
		byPartition[p] = append(byPartition[p], msg)
	}
	var own [][]byte
	var to []int
	for p, msgs := range byPartition {
		switch {
		case len(msgs) == 0:
		case here(tx, c.name, p):
			own = append(own, msgs...)
			for range msgs {
				to = append(to, p)
			}
		default:
			tx.Send(engine.Message{Command: m.sentOn(tx, st, p, msgs), Name: route(st.name, p), Lane: laneOf(st.name)})
		}
	}
	if len(own) > 0 {
		m.appendTo(tx, st, own, to)
	}
	return nil, nil
}

// sentOn is the command that appends encoded messages to a partition in another shard.
func (m *machine) sentOn(tx *engine.Tx, st *stream, p int, msgs [][]byte) engine.Command {
	size := 64
	for _, msg := range msgs {
		size += len(msg) + 8
	}
	cmd := beginOp(kindAppend, st.name, &st.spec, nil, size).Command
	b := codec.AppendUvarint(cmd.Body, uint64(p+1))
	b = codec.AppendString(codec.AppendBool(b, false), "")
	b = codec.AppendUvarint(b, uint64(len(msgs)))
	for _, msg := range msgs {
		b = codec.AppendBytes(b, msg)
	}
	cmd.Body, cmd.Namespace, cmd.Spread = b, tx.NamespaceName(), true
	return cmd
}
