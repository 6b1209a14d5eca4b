package stream

import "github.com/floedb/floe/internal/engine"

// Internals that the tests, which are users of the package, need.

// NumKinds is the highest command kind.
var NumKinds = uint8(len(table().Commands))

// AppendCommandBody is the body of an append of messages with an arbitrary encoding.
func AppendCommandBody(name string, messages ...[]byte) []byte {
	return engine.NewCommand(engine.MachineStream, kindAppend, name, &appendBody{messages: messages}, (*appendBody).code, 0).Body
}

// AppendWithSpec is an append of one message by a sender that claims to know the stream's record.
func AppendWithSpec(name string, id, version uint64, partitions, partition int) engine.Op {
	o := appendOptionsOf([]AppendOption{Partition(partition)})
	sp := &spec{id: id, version: version, partitions: partitions}
	return at(appendOp(name, []Message{{}}, o, sp), route(name, partition))
}

// AdoptOp and DropOp are operations that shards send each other.
func AdoptOp(name string) engine.Op {
	return adopt.Op(name, strangeTarget(), nil)
}

// DropOp is described with AdoptOp.
func DropOp(name string) engine.Op { return drop.Op(name, strangeTarget(), nil) }

// AdoptGroupOp and DropGroupOp are the same for groups.
func AdoptGroupOp(stream, group string) engine.Op {
	return adoptGroup.Op(stream, strangeGroup(group), nil)
}

// DropGroupOp is described with AdoptGroupOp.
func DropGroupOp(stream, group string) engine.Op {
	return dropGroup.Op(stream, dropGroupBody{strangeGroup(group), 100}, nil)
}

func strangeTarget() target { return target{&spec{id: 1, partitions: 1}} }

func strangeGroup(group string) groupTarget {
	return groupTarget{strangeTarget(), group, &groupSpec{2, 3, defaultGroup().groupConfig}}
}

// ReadFrom is a query that claims to have reached a partition of a stream.
func ReadFrom(namespace, name string, id uint64, partition int) engine.Query {
	return &readQuery{
		namespace: namespace, stream: name, partition: -1, id: id, from: []position{{partition, 1}}, limit: 10, maxBytes: maxReadBytes,
	}
}

// ReadOfPartition is a read of a partition number that its sender has not checked.
func ReadOfPartition(namespace, name string, partition int) engine.Query {
	return &readQuery{namespace: namespace, stream: name, partition: partition, limit: 10, maxBytes: maxReadBytes}
}

// StartTurns makes the sender's round-robin choices the same in every run.
func StartTurns() { turn.Store(0) }
