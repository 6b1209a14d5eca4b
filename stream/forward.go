package stream

import "github.com/floedb/floe/internal/engine"

// forward appends records of other machines, which cannot determine the shards of a stream's
// partitions in a spread namespace. The stream's home appends those for its own partitions and
// sends the others to their shards. All records of machines take this path, so that those of one
// partition keep their order. A shard refuses forwarded records only if the stream has been deleted
// since.
func (s *session) forward(b *appendBody) ([]byte, error) {
	if err := s.open(&b.target); err != nil {
		return nil, err
	}
	tx, st := s.tx, s.st
	if !tx.Spread() || engine.Tagged(s.name) || st == nil || st.partitions == 1 || b.options.partition > 0 || b.options.conditional() {
		return s.appendHere(b)
	}
	byPartition := make([][][]byte, st.partitions)
	unkeyed := int(uint64(tx.LSN()) % uint64(st.partitions)) // the forwarded records leave no state here that could tell whose turn it is
	for _, msg := range b.messages {
		k, _, err := split(msg)
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
		case here(tx, s.name, p):
			own = append(own, msgs...)
			for range msgs {
				to = append(to, p)
			}
		default:
			on := appendBody{target: target{&st.spec}, options: appendOptions{partition: p + 1}, messages: msgs}
			tx.Send(engine.Message{Command: sent(tx, kindAppend, s.name, &on, (*appendBody).code, on.size()), Name: route(s.name, p),
				Lane: laneOf(s.name)})
		}
	}
	if len(own) > 0 {
		s.m.appendTo(tx, st, own, to)
	}
	return nil, nil
}
