package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestModel runs random operations on streams, alone and in transactions, with restarts between
// them, and compares every result, error and count with a model made of slices.
//
//	go test -run TestModel -seed 7 -runs 1000 ./stream
func TestModel(t *testing.T) {
	machinetest.Models{
		Primitives: []engine.Primitive{engine.TableOf[stream.Store]()}, CacheBytes: 1 << 20,
		Runs: 24, Steps: 400, ShortRuns: 6, ShortSteps: 300, MaxShards: 3,
		Begin: func(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) machinetest.Model {
			return newModel(t, rng, g, spread)
		},
	}.Run(t)
}

func newModel(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) *model {
	return &model{
		t: t, rng: rng, ground: g, store: engine.StoreOf[stream.Store](g.Router(), "n", 0), streams: make(modelState),
		spread: spread, partitions: []int{1, 5, 5, 3}[rng.IntN(4)],
	}
}

// model is a store and its expected state.
type model struct {
	t          *testing.T
	rng        *rand.Rand
	ground     machinetest.Ground
	store      *stream.Store
	spread     bool
	partitions int
	streams    modelState
	last       string // last operation
	inTxn      bool   // drawing operations for a transaction
	deletes    bool   // one of them deletes
	n          int
}

type modelState map[string]*modelStream

// modelStream is the expected state of a stream.
type modelStream struct {
	retention stream.Retention
	parts     []modelPart
	producers map[string]*modelProducer
	turn      int // partition of the next message without a key
}

type modelPart struct {
	records  []*modelRecord // records not trimmed
	appended uint64
	last     *modelRecord // the last record ever appended, nil if none
}

// modelRecord has an impossible ID until the store returns the real one.
type modelRecord struct {
	id        stream.ID
	partition int
	offset    uint64
	msg       stream.Message
	before    *modelRecord // the previous record in its partition
}

type modelProducer struct {
	used    int64
	appends []modelAppend // the latest last
}

type modelAppend struct {
	sequence uint64
	records  []*modelRecord
}

func (s modelState) clone() modelState {
	c := make(modelState)
	for name, st := range s {
		copied := &modelStream{st.retention, slices.Clone(st.parts), make(map[string]*modelProducer), st.turn}
		for p := range copied.parts {
			copied.parts[p].records = slices.Clone(st.parts[p].records)
		}
		for name, p := range st.producers {
			copied.producers[name] = &modelProducer{p.used, slices.Clone(p.appends)}
		}
		c[name] = copied
	}
	return c
}

func newModelStream(partitions int, r stream.Retention) *modelStream {
	return &modelStream{r, make([]modelPart, partitions), make(map[string]*modelProducer), 0}
}

// modelOp is an operation, the model's expected result, and a function that takes the store's
// result.
type modelOp struct {
	what   string
	op     engine.Operation
	direct func(ctx context.Context) (any, error)
	apply  func(s modelState) (adopt func(result any), want error)
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf(m.last+": "+format, args...)
}

// Step runs a random operation.
func (m *model) Step() {
	switch n := m.rng.IntN(100); {
	case n < 50:
		m.alone(m.draw(m.name()))
	case n < 65:
		m.transaction()
	case n < 75:
		m.pass()
	case n < 78:
		m.last = "restart"
		m.ground.Restart()
	default:
		m.compare(m.name())
	}
	if m.rng.IntN(20) == 0 {
		m.Compare()
	}
}

// Compare compares everything that can be read.
func (m *model) Compare() {
	for _, name := range modelNames {
		m.compare(name)
	}
	m.compareCount()
	m.ground.Verify()
}

var modelNames = []string{"a", "b{t}", "c{t}"}

func (m *model) name() string { return modelNames[m.rng.IntN(len(modelNames))] }

func (m *model) alone(o modelOp) {
	m.last = o.what
	next := m.streams.clone()
	adopt, want := o.apply(next)
	result, err := o.direct(m.t.Context())
	m.outcome(err, want)
	if want == nil && err == nil {
		adopt(result)
		m.streams = next
	}
}

func (m *model) outcome(err, want error) {
	m.t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		m.errorf("%v, want %v", err, want)
	}
}

// transaction runs several operations in one transaction; if one fails, none is applied.
func (m *model) transaction() {
	txn, next := engine.NewTxn(m.ground.Router(), m.store.Namespace(), stream.DefaultMaxPayloadBytes), m.streams.clone()
	m.last = "transaction:"
	m.inTxn, m.deletes = true, false
	defer func() { m.inTxn = false }()
	var adopts []func(any)
	var want error
	for range 1 + m.rng.IntN(4) {
		o := m.draw(modelNames[1+m.rng.IntN(2)])
		m.last += " " + o.what
		txn.Do(o.op)
		if want == nil {
			var adopt func(any)
			adopt, want = o.apply(next)
			adopts = append(adopts, adopt)
		}
	}
	res, err := txn.Commit(m.t.Context())
	m.outcome(err, want)
	if want == nil && err == nil {
		for i, adopt := range adopts {
			adopt(res.Values[i])
		}
		m.streams = next
	}
}

func (m *model) draw(name string) modelOp {
	switch n := m.rng.IntN(100); {
	case n < 70:
		return m.drawAppend(name)
	case n < 76:
		return m.drawCreate(name)
	case n < 88:
		return m.drawTrim(name)
	case n < 95:
		return m.drawRetention(name)
	}
	m.deletes = true
	return m.drawDelete(name)
}

func (m *model) retention() stream.Retention {
	return stream.Retention{
		MaxAge: []time.Duration{0, 5 * time.Millisecond, time.Second, time.Hour}[m.rng.IntN(4)], MaxLen: []int64{0, 0, 1, 7}[m.rng.IntN(4)],
		MaxBytes: []int64{0, 0, 1, 60, 200}[m.rng.IntN(5)],
	}
}

func (m *model) drawCreate(name string) modelOp {
	r, opts := m.retention(), []stream.CreateOption{stream.Partitions(m.partitions)}
	if r.MaxAge > 0 {
		opts = append(opts, stream.MaxAge(r.MaxAge))
	}
	if r.MaxLen > 0 {
		opts = append(opts, stream.MaxLen(r.MaxLen))
	}
	if r.MaxBytes > 0 {
		opts = append(opts, stream.MaxBytes(r.MaxBytes))
	}
	return modelOp{
		what: fmt.Sprintf("create %s %v", name, r), op: stream.CreateOp(name, opts...),
		direct: func(ctx context.Context) (any, error) { return nil, m.store.Create(ctx, name, opts...) },
		apply: func(s modelState) (func(any), error) {
			if s[name] != nil {
				return nil, stream.ErrExists
			}
			s[name] = newModelStream(m.partitions, r)
			return func(any) {}, nil
		},
	}
}

func (m *model) drawRetention(name string) modelOp {
	r := m.retention()
	return modelOp{
		what: fmt.Sprintf("retain %s %v", name, r), op: stream.SetRetentionOp(name, r),
		direct: func(ctx context.Context) (any, error) { return nil, m.store.SetRetention(ctx, name, r) },
		apply: func(s modelState) (func(any), error) {
			st := s[name]
			if st == nil {
				return nil, stream.ErrNotFound
			}
			st.retention = r
			for p := range st.parts {
				st.shorten(p)
				if r.MaxAge > 0 {
					st.parts[p].cut(func(rec *modelRecord) bool { return rec.id.Millis <= m.ground.Now()-r.MaxAge.Milliseconds() })
				}
			}
			return func(any) {}, nil
		},
	}
}

// cut removes records from the front while gone is true for them, and returns their number.
func (p *modelPart) cut(gone func(rec *modelRecord) bool) (n int64) {
	for len(p.records) > 0 && gone(p.records[0]) {
		p.records = p.records[1:]
		n++
	}
	return n
}

func (st *modelStream) shorten(p int) {
	if n := st.retention.MaxLen; n > 0 {
		part := &st.parts[p]
		part.records = part.records[max(len(part.records)-int(n), 0):]
	}
	if n := st.retention.MaxBytes; n > 0 {
		part := &st.parts[p]
		for len(part.records) > 1 && part.bytes() > n {
			part.records = part.records[1:]
		}
	}
}

// bytes returns the counted bytes of a partition's records.
func (p *modelPart) bytes() (n int64) {
	for _, rec := range p.records {
		n += 2 + int64(len(rec.msg.Key)+len(rec.msg.Payload))
	}
	return n
}

func (m *model) drawDelete(name string) modelOp {
	var opts []stream.DeleteOption
	force := m.rng.IntN(2) == 0
	if force {
		opts = append(opts, stream.Force())
	}
	return modelOp{
		what: fmt.Sprintf("delete %s, force %v", name, force), op: stream.DeleteOp(name, opts...),
		direct: func(ctx context.Context) (any, error) { return nil, m.store.Delete(ctx, name, opts...) },
		apply: func(s modelState) (func(any), error) {
			if s[name] == nil {
				return nil, stream.ErrNotFound
			}
			for p := range s[name].parts {
				if len(s[name].parts[p].records) > 0 && !force {
					return nil, stream.ErrConflict
				}
			}
			delete(s, name)
			return func(any) {}, nil
		},
	}
}

func (m *model) drawTrim(name string) modelOp {
	var opt stream.TrimOption
	var gone func(p *modelPart) func(rec *modelRecord) bool
	switch m.rng.IntN(4) {
	case 3:
		n := m.rng.Int64N(300)
		opt = stream.MaxBytes(n)
		gone = func(p *modelPart) func(*modelRecord) bool {
			return func(*modelRecord) bool { return p.bytes() > n && (n == 0 || len(p.records) > 1) }
		}
	case 0:
		n := m.rng.IntN(10)
		opt = stream.MaxLen(int64(n))
		gone = func(p *modelPart) func(*modelRecord) bool {
			left := len(p.records) - n
			return func(*modelRecord) bool { left--; return left >= 0 }
		}
	case 1:
		age := 1 + m.rng.Int64N(20)
		opt = stream.MaxAge(time.Duration(age) * time.Millisecond)
		gone = func(*modelPart) func(*modelRecord) bool {
			return func(rec *modelRecord) bool { return rec.id.Millis < m.ground.Now()-age }
		}
	default:
		before := m.anID(name)
		before.Seq++ // the zero ID is not a bound
		if m.inTxn {
			before.Millis = min(before.Millis, m.ground.Now()-1) // not behind the transaction's own appends
		}
		opt = stream.Before(before)
		gone = func(*modelPart) func(*modelRecord) bool {
			return func(rec *modelRecord) bool { return rec.id.Compare(before) < 0 }
		}
	}
	opts, dry := []stream.TrimOption{opt}, m.rng.IntN(4) == 0
	if dry {
		opts = append(opts, stream.DryRun())
	}
	return modelOp{
		what: fmt.Sprintf("trim %s, dry %v", name, dry), op: stream.TrimOp(name, opts...),
		direct: func(ctx context.Context) (any, error) { return m.store.Trim(ctx, name, opts...) },
		apply: func(s modelState) (func(any), error) {
			st, n := s[name], int64(0)
			if st == nil {
				return nil, stream.ErrNotFound
			}
			for p := range st.parts {
				part := st.parts[p]
				if n += part.cut(gone(&part)); !dry {
					st.parts[p] = part
				}
			}
			return func(result any) {
				if result != n {
					m.errorf("%v, want %d", result, n)
				}
			}, nil
		},
	}
}

// anID returns a record's ID, or one near it.
func (m *model) anID(name string) (id stream.ID) {
	if st := m.streams[name]; st != nil {
		if part := &st.parts[m.rng.IntN(len(st.parts))]; len(part.records) > 0 {
			id = part.records[m.rng.IntN(len(part.records))].id
		}
	}
	switch m.rng.IntN(4) {
	case 0:
		id.Millis++
	case 1:
		id.Seq += uint64(m.rng.IntN(5))
	}
	return id
}

// pass advances the time. Some expired records may remain, but no other records may be missing.
func (m *model) pass() {
	millis := []int64{1, 1, 3, 1000, 3_600_000, 20 * 3_600_000}[m.rng.IntN(6)]
	m.last = fmt.Sprintf("pass %d ms", millis)
	m.ground.Pass(millis)
	m.ground.Fire()
	now := m.ground.Now()
	for name, st := range m.streams {
		maps.DeleteFunc(st.producers, func(_ string, p *modelProducer) bool { return p.used+24*3_600_000 <= now })
		age := st.retention.MaxAge.Milliseconds()
		if age == 0 {
			continue
		}
		info, err := m.store.Get(m.t.Context(), name)
		if err != nil || len(info.Partitions) != len(st.parts) {
			m.errorf("Stats(%s) = %+v, %v", name, info, err)
			return
		}
		late := max(age/100, min(1000, age))
		for p := range st.parts {
			part, first := &st.parts[p], info.Partitions[p].First
			part.cut(func(rec *modelRecord) bool {
				gone := rec.offset < first
				if gone && rec.id.Millis+age > now || !gone && rec.id.Millis+age+late <= now {
					m.errorf("record %v of %s is gone: %v; it is kept for %d ms, and now is %d", rec.id, name, gone, age, now)
				}
				return gone
			})
		}
	}
}

func (m *model) compareCount() {
	info, err := engine.NewNamespaces(m.ground.Router()).Get(m.t.Context(), m.store.Namespace())
	if err != nil && !errors.Is(err, engine.ErrNotFound) || info.Counts.Streams != int64(len(m.streams)) {
		m.errorf("%d streams are counted, %v, want %d", info.Counts.Streams, err, len(m.streams))
	}
}

// compare compares everything that can be read of a stream.
func (m *model) compare(name string) {
	m.last = "compare " + name
	ctx, st := m.t.Context(), m.streams[name]
	info, err := m.store.Get(ctx, name)
	if st == nil {
		m.outcome(err, stream.ErrNotFound)
		_, err := m.store.Read(ctx, name)
		m.outcome(err, stream.ErrNotFound)
		return
	}
	var all []*modelRecord
	appended := int64(0)
	for p := range st.parts {
		part := &st.parts[p]
		appended += int64(part.appended)
		all = append(all, part.records...)
		if err == nil && p < len(info.Partitions) {
			m.comparePartition(name, p, part, info.Partitions[p])
		}
	}
	if err != nil || len(info.Partitions) != len(st.parts) || info.Appended != appended || info.Records() != int64(len(all)) ||
		info.Retention != st.retention {
		m.errorf("Stats(%s) = %+v, %v, want %d appended, %d records, %v", name, info, err, appended, len(all), st.retention)
	}
	slices.SortFunc(all, func(a, b *modelRecord) int { return a.id.Compare(b.id) })
	m.compareRead(name, all)
	m.compareFollow(name, all)
}

func (m *model) comparePartition(name string, p int, part *modelPart, got stream.PartitionStats) {
	want := stream.PartitionStats{Partition: p, Records: int64(len(part.records)), First: part.appended + 1 - uint64(len(part.records)),
		Last: part.appended, Shard: got.Shard}
	want.Bytes = part.bytes()
	if part.last != nil {
		want.LastID = part.last.id
	}
	if len(part.records) > 0 {
		want.FirstID = part.records[0].id
	}
	if got != want {
		m.errorf("Stats(%s) has %+v, want %+v", name, got, want)
	}
}

// compareRead reads with random options.
func (m *model) compareRead(name string, all []*modelRecord) {
	limit := 1 + m.rng.IntN(10)
	opts, what := []stream.ReadOption{stream.Limit(limit)}, fmt.Sprintf("Read(%s, Limit(%d)", name, limit)
	want := slices.Clone(all)
	keep := func(f func(rec *modelRecord) bool) {
		want = slices.DeleteFunc(want, func(rec *modelRecord) bool { return !f(rec) })
	}
	id, end := m.anID(name), m.anID(name)
	tail := false
	switch m.rng.IntN(4) {
	case 0:
		opts, what = append(opts, stream.From(id)), fmt.Sprint(what, ", From ", id)
		keep(func(rec *modelRecord) bool { return rec.id.Compare(id) >= 0 })
	case 1:
		opts, what = append(opts, stream.After(id)), fmt.Sprint(what, ", After ", id)
		keep(func(rec *modelRecord) bool { return rec.id.Compare(id) > 0 })
	case 2:
		opts, what, tail = append(opts, stream.Tail()), what+", Tail", true
	}
	if m.rng.IntN(3) == 0 && !end.IsZero() {
		opts, what = append(opts, stream.Until(end)), fmt.Sprint(what, ", Until ", end)
		keep(func(rec *modelRecord) bool { return rec.id.Compare(end) <= 0 })
	}
	if p := m.rng.IntN(2 * len(m.streams[name].parts)); p < len(m.streams[name].parts) {
		opts, what = append(opts, stream.Partition(p)), fmt.Sprint(what, ", Partition ", p)
		keep(func(rec *modelRecord) bool { return rec.partition == p })
	}
	if tail {
		want = want[max(len(want)-limit, 0):]
	}
	got, err := m.store.Read(m.t.Context(), name, opts...)
	m.compareRecords(what, got, want[:min(len(want), limit)], err)
}

// compareFollow follows until Follow would wait.
func (m *model) compareFollow(name string, all []*modelRecord) {
	ctx, cancel := context.WithCancel(m.t.Context())
	cancel() // only ends the wait
	var got []stream.Record
	var end error
	for rec, err := range m.store.Follow(ctx, name) {
		if end = err; err == nil {
			got = append(got, rec)
		}
	}
	if errors.Is(end, context.Canceled) || errors.Is(end, engine.ErrWait) {
		end = nil
	}
	m.compareRecords("Follow "+name, got, all, end)
}

func (m *model) compareRecords(what string, got []stream.Record, want []*modelRecord, err error) {
	m.t.Helper()
	if err != nil || len(got) != len(want) {
		m.errorf("%s = %d records, %v, want %d", what, len(got), err, len(want))
		return
	}
	for i, rec := range got {
		w := want[i]
		if rec.ID != w.id || rec.Partition != w.partition || rec.Offset != w.offset || rec.Key != w.msg.Key ||
			!bytes.Equal(rec.Payload, w.msg.Payload) {
			m.errorf("%s[%d] = %+v, want %+v", what, i, rec, w)
			return
		}
	}
}
