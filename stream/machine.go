package stream

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Timer tokens.
const (
	tokenRetention = 'r' // followed by gen and the stream's name
	tokenProducer  = 'd' // followed by gen and the producer's name
)

// maxRemembered limits the number of partitions in a shard's memory, at about 120 bytes each.
const maxRemembered = 65536

// maxRememberedGroups limits the groups in a shard's memory. A group's weight depends on its
// pending records; a weight of one is about a kilobyte.
const maxRememberedGroups = 32768

// maxBuffer limits the size of a reused buffer for encoding rows.
const maxBuffer = 1 << 20

// machine is the state machine of streams and consumer groups in one shard.
type machine struct {
	// State cached from rows. A stream's weight is its number of partitions; a group's weight
	// depends on its pending records.
	streams *engine.Memory[streamName, *stream, struct{}]
	groups  *engine.Memory[groupName, *group, struct{}]

	attendance attendance
	dealt      deals

	calls   engine.Calls[*session]
	session session
	buf     []byte
	row     []byte

	to       []int // partitions of the messages that are being appended
	appended []Appended

	tried atomic.Pointer[named] // the last batch that was delivered or refused; for the duty, Apply never reads it
	reads sync.Map              // of gen to *atomic.Int64: records read on this node
}

type streamName struct {
	ns   uint32
	name string
}

// stream is a stream's state in the shard, with all its partitions, including those in other
// shards.
type stream struct {
	streamName
	header
	parts         []partition
	newest        ID  // the last ID of any partition
	turn          int // the partition that is next in turn
	groups        int // -1: not counted yet
	subscriptions []subscription
}

// Memories returns the caches of rows.
func (m *machine) Memories() []engine.Remembered { return []engine.Remembered{m.streams, m.groups} }

// Restore clears this replica's state as a leader.
func (m *machine) Restore(*engine.View) error {
	m.dealt.forget()
	return nil
}

// Apply applies a command.
func (m *machine) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if isPushKind(cmd.Kind) {
		return nil, m.applyPush(tx, cmd)
	}
	call, err := m.calls.Read(cmd)
	if err != nil {
		return nil, err
	}
	name := string(call.Subject())
	if err := checkName(name); err != nil {
		return nil, err
	}
	m.session = session{m: m, tx: tx, kind: cmd.Kind, name: name}
	return call.Apply(&m.session)
}

// load returns a stream from memory or from its row, nil if there is no row.
func (m *machine) load(tx *engine.Tx, name string) *stream {
	at := streamName{tx.Namespace(), name}
	if st, ok := m.streams.Get(at); ok {
		return st
	}
	m.buf = streamKey(m.buf[:0], at.ns, name)
	b, ok := tx.Get(m.buf)
	if !ok {
		return nil
	}
	st := newStream(at, must(decodeHeader(b)))
	m.loadPartitions(tx, st)
	m.loadSubscriptions(tx, st)
	m.streams.Load(at, st, 1+st.partitions)
	return st
}

// newStream returns a stream without records.
func newStream(name streamName, h header) *stream {
	st := &stream{streamName: name, header: h, parts: make([]partition, h.partitions), groups: -1}
	for p := range st.parts {
		st.parts[p] = noPartition
	}
	return st
}

func (m *machine) loadPartitions(tx *engine.Tx, st *stream) {
	if st.partitions <= 2 {
		for p := range st.parts {
			if b, ok := tx.Get(partKey(nil, st.gen, p)); ok {
				st.setPartition(p, must(decodePartition(b)))
			}
		}
		return
	}
	prefix := genKey(nil, rowPart, st.gen)
	it := tx.Iter(prefix, key.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		st.setPartition(int(k[9])<<8|int(k[10]), must(decodePartition(it.Value())))
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
}

// setPartition stores the state of a partition, and updates the newest ID of the stream.
func (st *stream) setPartition(p int, to partition) {
	st.parts[p] = to
	if to.lastID.Compare(st.newest) > 0 {
		st.newest, st.turn = to.lastID, (p+1)%st.partitions
	}
}

// touch must be called before any change of the stream.
func (m *machine) touch(tx *engine.Tx, st *stream) {
	m.streams.Change(tx, st.streamName, st, struct{}{})
}

func (m *machine) save(tx *engine.Tx, st *stream) {
	m.buf, m.row = streamKey(m.buf[:0], st.ns, st.name), st.header.encode(m.row[:0])
	tx.Set(m.buf, m.row)
}

func (m *machine) savePartition(tx *engine.Tx, st *stream, p int) {
	m.buf, m.row = partKey(m.buf[:0], st.gen, p), st.parts[p].encode(m.row[:0])
	tx.Set(m.buf, m.row)
}

// make adds a stream to the shard.
func (m *machine) make(tx *engine.Tx, name string, sp spec) *stream {
	st := newStream(streamName{tx.Namespace(), name}, header{spec: sp, gen: uint64(tx.LSN()), createdAt: tx.Now()})
	m.streams.Replace(tx, st.streamName, st, 1+st.partitions)
	m.save(tx, st)
	tx.Notify(streamTopic(tx.NamespaceName(), name), -1)
	m.attachAll(tx, st)
	return st
}

// found creates a stream in its home.
func (m *machine) found(tx *engine.Tx, name string, partitions int, p policy) *stream {
	tx.Count(countStreams, 1)
	return m.make(tx, name, spec{id: uint64(tx.LSN()), partitions: partitions, policy: p})
}

// rememberMillis is how long a shard remembers that a stream was deleted. Commands from before the
// deletion do not arrive later than that.
const rememberMillis = 24 * 60 * 60 * 1000

// drop removes the stream from the shard. With remember, only its id stays.
func (m *machine) drop(tx *engine.Tx, st *stream, remember bool) {
	for _, kind := range genKinds {
		prefix := genKey(nil, kind, st.gen)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	m.setTimer(tx, st, 0)
	m.detachAll(tx, st)
	if remember {
		left := stream{streamName: st.streamName, header: header{spec: spec{id: st.id}, gen: uint64(tx.LSN())}}
		m.setTimer(tx, &left, tx.Now()+rememberMillis)
		m.save(tx, &left)
	} else {
		tx.Delete(streamKey(nil, st.ns, st.name))
	}
	m.streams.Remove(tx, st.streamName)
	topic := streamTopic(tx.NamespaceName(), st.name)
	tx.Notify(topic, -1)
	tx.NotifyWithin(topic, -1, engine.Slots{})
	gen := st.gen
	tx.OnCommit(func() { m.reads.Delete(gen) })
}

// tell sends a command about the stream to the other shards that may have a part of it.
func (m *machine) tell(tx *engine.Tx, st *stream, kind uint8) {
	m.tellAll(tx, st, func() engine.Command { return sent(tx, kind, st.name, &target{&st.spec}, (*target).code, 64) })
}

func (m *machine) tellAll(tx *engine.Tx, st *stream, cmd func() engine.Command) {
	if !tx.Spread() || engine.Tagged(st.name) {
		return
	}
	told := map[engine.ShardID]bool{tx.Shard(): true}
	for p := range st.parts {
		to := route(st.name, p)
		if shard := engine.NameShard(tx.NamespaceName(), to, tx.Shards()); !told[shard] {
			told[shard] = true
			tx.Send(engine.Message{Command: cmd(), Name: to, Lane: laneOf(st.name)})
		}
	}
}

// laneOf returns the lane of messages about a stream. They take effect in the order of sending, and
// do not wait for those of other streams.
func laneOf(name string) uint64 { return xxhash.Sum64String(name) }

// here reports whether the shard has the partition.
func here(tx *engine.Tx, name string, p int) bool {
	return !tx.Spread() || engine.NameShard(tx.NamespaceName(), route(name, p), tx.Shards()) == tx.Shard()
}

// OnTimer removes records beyond the retention, or forgets a producer after a long time without
// appends.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	switch token[0] {
	case tokenRetention:
		m.onRetention(tx, token[1:])
	case tokenProducer:
		m.onProducer(tx, token)
	case tokenGroup:
		m.onGroup(tx, token)
	default:
		panic(fmt.Sprintf("stream: unknown timer token %q", token))
	}
}

// streamTopic is notified of every append to a stream, and when it is created or deleted.
func streamTopic(namespace, name string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(name))
}

// countReads adds to the stream's count of records read on this node.
func (m *machine) countReads(gen uint64, n int) {
	c, ok := m.reads.Load(gen)
	if !ok {
		c, _ = m.reads.LoadOrStore(gen, new(atomic.Int64))
	}
	c.(*atomic.Int64).Add(int64(n))
}

// Tallies implements engine.Tallying.
func (m *machine) Tallies(f func(gen uint64, n int64)) {
	for gen, c := range m.reads.Range {
		if n := c.(*atomic.Int64).Load(); n > 0 {
			f(gen.(uint64), n)
		}
	}
}

// AddTally implements engine.Tallying.
func (m *machine) AddTally(gen uint64, n int64) { m.countReads(gen, int(n)) }

func (m *machine) readsOf(gen uint64) int64 {
	if c, ok := m.reads.Load(gen); ok {
		return c.(*atomic.Int64).Load()
	}
	return 0
}
