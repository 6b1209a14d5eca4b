package ts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestModel writes, deletes and reads at random, on nodes that restart and crash at random.
// Meanwhile the duty seals, merges, rolls up and purges. Every result is compared with plain maps.
//
//	go test -run TestModel -seed 7 -runs 400 ./ts
func TestModel(t *testing.T) {
	machinetest.Models{
		Primitives: primitives(engine.TableOf[ts.Store]().New), CacheBytes: 4 << 20,
		Runs: 9, Steps: 150, ShortRuns: 3, ShortSteps: 120, MaxShards: 3,
		Begin: func(t *testing.T, rng *rand.Rand, g machinetest.Ground, spread bool) machinetest.Model {
			router := engine.NewRouter(&oneByOne{Door: g})
			return &model{
				t: t, rng: rng, ground: g, router: router, store: engine.StoreOf[ts.Store](router, "n", 0),
				points: make(map[ts.At]float64), ttl: make(map[string]int64),
			}
		},
	}.Run(t)
}

// oneByOne is a door for a ground that runs its steps in the calling goroutine.
type oneByOne struct {
	mu sync.Mutex
	engine.Door
}

func (d *oneByOne) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Door.Propose(ctx, shard, cmd)
}

func (d *oneByOne) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Door.Query(ctx, shard, q)
}

// model is a namespace as maps.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	ground machinetest.Ground
	router *engine.Router
	store  *ts.Store
	points map[ts.At]float64
	ttl    map[string]int64 // by measurement, ms
	last   string
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf(m.last+": "+format, args...)
}

func (m *model) Step() {
	switch n := m.rng.IntN(100); {
	case n < 55:
		m.write()
	case n < 60:
		m.txn()
	case n < 65:
		m.deleteSeries()
	case n < 67:
		m.deleteMeasurement()
	case n < 70:
		m.setRetention()
	case n < 73:
		m.deleteRange()
	case n < 85:
		m.let()
	case n < 95:
		m.read()
	default:
		m.last = "restart"
		m.ground.Restart()
		m.read()
	}
}

// let advances time and runs the leaders' duties.
func (m *model) let() {
	m.last = "let time go by"
	m.ground.Pass(m.rng.Int64N(20 * minute))
	if m.rng.IntN(10) == 0 {
		m.ground.Pass(day)
	}
	m.ground.Fire()
	m.deliver()
	m.maintain()
	m.ground.Fire()
}

// maintain runs the duties of all shards until they are idle, or sometimes stops earlier.
func (m *model) maintain() {
	m.maintainUpTo(func() int {
		if m.rng.IntN(3) == 0 {
			return m.rng.IntN(4)
		}
		return 1 << 30
	})
}

// maintainFully runs the duties until they are idle.
func (m *model) maintainFully() { m.maintainUpTo(func() int { return 1 << 30 }) }

func (m *model) maintainUpTo(steps func() int) {
	for shard := range engine.ShardID(m.ground.Shards()) {
		door := &maintenanceDoor{ground: m.ground, shard: shard, steps: steps()}
		var duties []engine.LedDuty
		switch g := m.ground.(type) {
		case *machinetest.Rig:
			duties = g.Executor(shard).Duties(1, func() engine.LeadDoor { return door })
		case *machinetest.Stepped:
			duties = g.Node().Duties(shard, g.Node().State(shard).DutyTerm, func() engine.LeadDoor { return door })
		}
		for _, d := range duties {
			if err := d.Run(m.t.Context(), d.Lead); !errors.Is(err, errEnough) {
				m.errorf("duty %s of shard %d: %v", d.Name, shard, err)
			}
		}
	}
}

var errEnough = errors.New("the duty has done enough")

// maintenanceDoor is an engine.LeadDoor.
type maintenanceDoor struct {
	ground machinetest.Ground
	shard  engine.ShardID
	steps  int
}

func (d *maintenanceDoor) Now() int64 { return d.ground.Now() }

func (d *maintenanceDoor) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	if d.steps--; d.steps < 0 {
		return nil, errEnough
	}
	return d.ground.Propose(ctx, d.shard, cmd)
}

func (d *maintenanceDoor) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if until <= d.Now() {
		return nil
	}
	return errEnough
}

var measurements = []string{"cpu", "mem"}

func (m *model) tags() map[string]string {
	tags := map[string]string{"host": fmt.Sprintf("{x}%d", m.rng.IntN(5))}
	if m.rng.IntN(2) == 0 {
		tags["dc"] = fmt.Sprint(m.rng.IntN(2))
	}
	return tags
}

func tagText(tags map[string]string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		text += name + "=" + tags[name] + ";"
	}
	return text
}

func (m *model) point() ts.Point {
	p := ts.Point{
		Measurement: measurements[m.rng.IntN(2)], Tags: m.tags(), Fields: make(map[string]float64),
		Time: time.UnixMilli(m.ground.Now() - m.rng.Int64N(100)*30*minute + day),
	}
	if m.rng.IntN(3) > 0 {
		p.Time = time.UnixMilli(m.ground.Now() - m.rng.Int64N(3000)*second)
	}
	for _, f := range []string{"a", "b", "c"}[m.rng.IntN(3):] {
		switch m.rng.IntN(3) {
		case 0:
			p.Fields[f] = float64(m.rng.IntN(100_000)) / 100
		case 1:
			p.Fields[f] = float64(m.rng.IntN(5))
		default:
			p.Fields[f] = math.Float64frombits(m.rng.Uint64())
			if math.IsNaN(p.Fields[f]) || math.IsInf(p.Fields[f], 0) {
				p.Fields[f] = math.SmallestNonzeroFloat64
			}
		}
	}
	return p
}

// fits reports whether the retention accepts a point.
func (m *model) fits(p ts.Point) bool {
	now, at := m.ground.Now(), p.Time.UnixMilli()
	ttl := m.ttl[p.Measurement]
	return at <= now+day && (ttl == 0 || at >= now-ttl)
}

func (m *model) note(p ts.Point) {
	for f, v := range p.Fields {
		m.points[ts.At{Measurement: p.Measurement, Tags: tagText(p.Tags), Field: f, Time: p.Time.UnixMilli()}] = v
	}
}

func (m *model) write() {
	var batch []ts.Point
	written := 0
	for range 1 + m.rng.IntN(12) {
		p := m.point()
		batch = append(batch, p)
		if m.fits(p) {
			written++
			m.note(p)
		}
	}
	m.last = fmt.Sprintf("write %d points", len(batch))
	result, err := m.store.Write(m.t.Context(), batch...)
	if result.Written != written || result.Refused != len(batch)-written || (err == nil) != (written == len(batch)) {
		m.errorf("Write = %+v, %v, want %d written", result, err, written)
	}
}

func (m *model) txn() {
	p, q := m.point(), m.point()
	m.last = "write in a transaction"
	fits := m.fits(p) && m.fits(q)
	_, err := engine.NewTxn(m.router, "n", 1<<20).Do(ts.WriteOp(p), ts.WriteOp(q)).Commit(m.t.Context())
	if (err == nil) != fits {
		m.errorf("Commit = %v, want that it goes through: %v", err, fits)
	}
	if fits {
		m.note(p)
		m.note(q)
	}
}

func (m *model) deleteSeries() {
	name, host := measurements[m.rng.IntN(2)], fmt.Sprintf("{x}%d", m.rng.IntN(5))
	m.last = "delete series of " + host
	_, err := m.store.Series(name).Delete(m.t.Context(), map[string]string{"host": host})
	if err != nil && !errors.Is(err, ts.ErrNotFound) {
		m.errorf("DeleteSeries: %v", err)
	}
	m.forget(func(measurement, tags string) bool {
		return measurement == name && tags[len(tags)-len("host="+host+";"):] == "host="+host+";"
	})
}

func (m *model) deleteMeasurement() {
	name := measurements[m.rng.IntN(2)]
	m.last = "delete " + name
	if err := m.store.Delete(m.t.Context(), name); err != nil && !errors.Is(err, ts.ErrNotFound) {
		m.errorf("DeleteMeasurement: %v", err)
	} else if err == nil {
		delete(m.ttl, name)
	}
	m.forget(func(measurement, _ string) bool { return measurement == name })
}

func (m *model) deleteRange() {
	name, from := measurements[m.rng.IntN(2)], m.ground.Now()-m.rng.Int64N(3*day)+hour
	to := from + m.rng.Int64N(day) + 1
	tags, host := map[string]string(nil), ""
	if m.rng.IntN(2) == 0 {
		host = fmt.Sprintf("{x}%d", m.rng.IntN(5))
		tags = map[string]string{"host": host}
	}
	m.last = fmt.Sprintf("delete %s of %q from %d to %d", name, host, from, to)
	_, err := m.store.DeleteRange(m.t.Context(), name, time.UnixMilli(from), time.UnixMilli(to), tags)
	if err != nil && !errors.Is(err, ts.ErrNotFound) {
		m.errorf("DeleteRange: %v", err)
	}
	maps.DeleteFunc(m.points, func(k ts.At, _ float64) bool {
		return k.Measurement == name && k.Time >= from && k.Time < to && (host == "" || strings.HasSuffix(k.Tags, "host="+host+";"))
	})
	m.read()
}

func (m *model) forget(gone func(measurement, tags string) bool) {
	maps.DeleteFunc(m.points, func(k ts.At, _ float64) bool { return gone(k.Measurement, k.Tags) })
}

func (m *model) setRetention() {
	name := measurements[m.rng.IntN(2)]
	r := ts.Retention{RawTTL: time.Duration(m.rng.IntN(4)) * 24 * time.Hour}
	if m.rng.IntN(2) == 0 {
		r.Downsample = []ts.Downsample{{Every: time.Duration(1+m.rng.IntN(2)) * time.Hour}}
	}
	m.last = fmt.Sprintf("set retention of %s to %+v", name, r)
	now, was := m.ground.Now(), m.ttl[name]
	switch err := m.store.SetRetention(m.t.Context(), name, r); {
	case errors.Is(err, ts.ErrBusy):
		return // the retention was extended very often
	case err != nil:
		m.errorf("SetRetention: %v", err)
	}
	m.settle()
	// Points that were too old do not come back.
	if was > 0 {
		maps.DeleteFunc(m.points, func(k ts.At, _ float64) bool { return k.Measurement == name && k.Time < now-was })
	}
	m.ttl[name] = r.RawTTL.Milliseconds()
}

// settle delivers all messages between shards; on a rig they arrive at once.
func (m *model) settle() {
	m.ground.Fire()
	m.deliver()
}

// deliver delivers the messages between shards.
func (m *model) deliver() {
	g, ok := m.ground.(*machinetest.Stepped)
	if !ok {
		return
	}
	for shard := range engine.ShardID(g.Shards()) {
		for _, target := range g.Node().State(shard).Targets {
			d := g.Node().NewDispatch(shard, target)
			for {
				step, _, ok, err := d.Next(g.Now(), g.Node().State(shard).Applied.Index)
				if err != nil || !ok {
					break
				}
				result, err := g.Propose(m.t.Context(), step.Shard, step.Command)
				d.Done(result, err, g.Now())
			}
		}
	}
}

// read compares all points.
func (m *model) read() {
	m.last += ", then read"
	now := m.ground.Now()
	for _, name := range measurements {
		for _, field := range []string{"a", "b", "c"} {
			want := make(map[ts.At]float64)
			for k, v := range m.points {
				if k.Measurement == name && k.Field == field && (m.ttl[name] == 0 || k.Time >= now-m.ttl[name]) {
					want[k] = v
				}
			}
			got := make(map[ts.At]float64)
			for sample, err := range m.store.Read(m.t.Context(), name, field) {
				if err != nil {
					m.errorf("Read: %v", err)
					return
				}
				tags := make(map[string]string)
				for _, tag := range sample.Tags {
					tags[tag.Key] = tag.Value
				}
				got[ts.At{Measurement: name, Tags: tagText(tags), Field: field, Time: sample.Time.UnixMilli()}] = sample.Value
			}
			for k, v := range want {
				if g, ok := got[k]; !ok || math.Float64bits(g) != math.Float64bits(v) {
					m.errorf("%+v is %v (%v), want %v; now %d, TTL %d", k, g, ok, v, now, m.ttl[name])
					return
				}
			}
			if len(got) != len(want) {
				m.errorf("%d values of %s %s, want %d", len(got), name, field, len(want))
			}
		}
	}
}

// count compares the number of points once no work is left, for measurements that keep all points.
func (m *model) count() {
	for _, name := range measurements {
		want := make(map[ts.At]bool)
		for k := range m.points {
			if k.Field = ""; k.Measurement == name {
				want[k] = true
			}
		}
		got, err := m.store.Get(m.t.Context(), name)
		if m.ttl[name] != 0 || errors.Is(err, ts.ErrNotFound) && len(want) == 0 {
			continue
		}
		if err != nil || got.Points != int64(len(want)) {
			m.errorf("%s has %d points, %v, want %d", name, got.Points, err, len(want))
		}
	}
}

// Compare compares everything that can be read, and checks all rows.
func (m *model) Compare() {
	m.last += ", then compare"
	m.read()
	m.ground.Verify()
	for range 3 {
		m.ground.Pass(2 * hour)
		m.ground.Fire()
		m.maintain()
	}
	m.maintainFully()
	m.read()
	m.count()
	m.ground.Verify()
}
