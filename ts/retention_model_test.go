package ts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestRetentionModel changes the retention of points and rollups at random, while points are
// written and deleted and time passes. An hourly rollup is kept forever. Each query in windows of
// hours therefore has the answer of a map with all points, or is refused while rollups are being
// computed.
//
//	go test -run TestRetentionModel -seed 7 ./ts
func TestRetentionModel(t *testing.T) {
	seed := machinetest.Seed(t)
	for i := range uint64(8) {
		m := newRetentionModel(t, rand.New(rand.NewPCG(seed, i)))
		for range 60 {
			m.step()
			m.ask(false)
		}
		for range 8 {
			m.r.Advance(30 * minute)
		}
		for range 10 {
			m.ask(true)
		}
		m.r.Verify()
		if t.Failed() {
			t.Fatalf("run %d:\n%s", i, strings.Join(m.log, "\n"))
		}
	}
}

type retentionModel struct {
	t         *testing.T
	rng       *rand.Rand
	r         *machinetest.Rig
	s         *ts.Store
	points    map[hostTime]float64
	retention ts.Retention
	first     int64 // no point is earlier
	final     int64 // earlier buckets are final: they were too old when a longer retention was set
	log       []string
}

type hostTime struct {
	host string
	at   int64
}

// bucket6 is a multiple of all bucket lengths of the model.
const bucket6 = 6 * hour

func newRetentionModel(t *testing.T, rng *rand.Rand) *retentionModel {
	m := &retentionModel{t: t, rng: rng, r: newRig(t, 1+2*rng.IntN(2)), points: make(map[hostTime]float64)}
	if m.r.Shards() > 1 {
		spread(t, m.r, "n")
	}
	m.s = storeOf(m.r, "n")
	m.first = floor(m.r.Now()-12*day, bucket6)
	m.set(ts.Retention{Downsample: []ts.Downsample{{Every: time.Hour}}})
	return m
}

func floor(at, every int64) int64 { return at - at%every }

func (m *retentionModel) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("minute %d: ", (m.r.Now()-machinetest.Epoch)/minute)+fmt.Sprintf(format, args...))
}

func (m *retentionModel) step() {
	switch m.rng.IntN(12) {
	case 0, 1, 2, 3:
		m.write()
	case 4:
		m.change()
	case 5, 6:
		m.note("advance")
		m.r.Advance(m.rng.Int64N(3 * hour))
	case 7:
		m.note("advance days")
		m.r.Advance(m.rng.Int64N(2 * day))
	case 8:
		m.note("pass")
		m.r.Pass(m.rng.Int64N(10 * hour))
	case 9:
		m.note("restart")
		m.r.Restart()
	case 10:
		m.delete()
	}
}

func (m *retentionModel) write() {
	least := max(m.first, m.final)
	if ttl := m.retention.RawTTL; ttl > 0 {
		least = max(least, m.r.Now()-ttl.Milliseconds())
	}
	var batch []ts.Point
	for range 1 + m.rng.IntN(30) {
		at := m.r.Now() - m.rng.Int64N([]int64{minute, 3 * hour, 10 * day}[m.rng.IntN(3)])
		p := point(fmt.Sprint("h", m.rng.IntN(4)), max(at, least)-machinetest.Epoch, float64(m.rng.IntN(1000))/8)
		batch = append(batch, p)
		m.points[hostTime{p.Tags["host"], p.Time.UnixMilli()}] = p.Fields["value"]
	}
	m.note("write %d points from %d on", len(batch), least)
	write(m.t, m.s, batch...)
}

func (m *retentionModel) change() {
	to := ts.Retention{RawTTL: time.Duration(m.rng.IntN(5)) * 24 * time.Hour, Downsample: m.retention.Downsample}
	if m.rng.IntN(2) == 0 {
		to.RawTTL = time.Duration(1+m.rng.IntN(100)) * time.Hour
	}
	if m.rng.IntN(2) == 0 {
		to.Downsample = []ts.Downsample{{Every: time.Hour}}
		for _, every := range []time.Duration{5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour} {
			if m.rng.IntN(2) == 0 {
				to.Downsample = append(to.Downsample, ts.Downsample{Every: every, TTL: time.Duration(m.rng.IntN(4)) * 40 * time.Hour})
			}
		}
		m.rng.Shuffle(len(to.Downsample), func(i, j int) { to.Downsample[i], to.Downsample[j] = to.Downsample[j], to.Downsample[i] })
	}
	m.set(to)
}

func (m *retentionModel) set(to ts.Retention) {
	m.note("set retention to %v", to)
	switch err := m.s.SetRetention(m.t.Context(), "cpu", to); {
	case errors.Is(err, ts.ErrBusy):
		return // the retention was extended very often
	case err != nil:
		m.t.Errorf("SetRetention: %v", err)
	}
	m.r.Deliver()
	if was := m.retention.RawTTL; was > 0 && (to.RawTTL == 0 || to.RawTTL > was) {
		m.final = max(m.final, floor(m.r.Now()-was.Milliseconds(), bucket6)+bucket6)
	}
	m.retention = to
}

func (m *retentionModel) delete() {
	from := m.first + m.rng.Int64N(14*4)*bucket6
	to := from + (1+m.rng.Int64N(4))*bucket6
	var tags map[string]string
	host := ""
	if m.rng.IntN(2) == 0 {
		host = fmt.Sprint("h", m.rng.IntN(4))
		tags = map[string]string{"host": host}
	}
	var err error
	if host != "" && m.rng.IntN(4) == 0 {
		from, to = m.first-day, m.r.Now()+day
		_, err = m.s.Series("cpu").Delete(m.t.Context(), tags)
	} else {
		_, err = m.s.DeleteRange(m.t.Context(), "cpu", time.UnixMilli(from), time.UnixMilli(to), tags)
	}
	if m.note("delete %d..%d of %q: %v", from, to, host, err); err != nil && !errors.Is(err, ts.ErrNotFound) {
		m.t.Error(err)
	}
	for k := range m.points {
		if k.at >= from && k.at < to && (host == "" || k.host == host) {
			delete(m.points, k)
		}
	}
}

// ask compares the answer to a query that hourly rollups can answer.
func (m *retentionModel) ask(settled bool) {
	window := []int64{6, 12, 24}[m.rng.IntN(3)]
	from, to := floor(m.first+m.rng.Int64N(2)*day, window*hour), floor(m.r.Now()+2*day, window*hour)
	query := fmt.Sprintf("cpu%s[%d..%d] | window(%dh)%s | %s()", []string{"", "{host=h1}", "{host!=h1}"}[m.rng.IntN(3)], from, to, window,
		[]string{"", " | group_by(host)"}[m.rng.IntN(2)], []string{"sum", "count", "min", "max", "avg", "first", "last"}[m.rng.IntN(7)])
	var all floql.Slice
	for k, v := range m.points {
		if err := all.Add("cpu", map[string]string{"host": k.host}, "value", time.UnixMilli(k.at), v); err != nil {
			m.t.Fatal(err)
		}
	}
	want, wantErr := floql.Eval(m.t.Context(), &all, query, floql.Options{})
	got, err := m.s.Query(m.t.Context(), query)
	if errors.Is(err, ts.ErrInvalid) && !settled {
		return
	}
	if err != nil || wantErr != nil {
		m.t.Fatalf("%s: %v, %v\n%s", query, err, wantErr, strings.Join(m.log, "\n"))
	}
	if g, w := shown(got), shown(want); g != w {
		m.t.Fatalf("%s\ngot\n%s\nwant\n%s\n%s", query, g, w, strings.Join(m.log, "\n"))
	}
}

// TestLongerBeforeRolledUp: points that were too old when a longer retention was set count in their
// buckets until these are computed.
func TestLongerBeforeRolledUp(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	hourly := []ts.Downsample{{Every: time.Hour}}
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{Downsample: hourly}))
	write(t, s, point("a", -40*hour, 1), point("a", -20*hour, 2), point("a", -hour, 4))
	for _, ttl := range []time.Duration{16 * time.Hour, 18 * time.Hour, 30 * time.Hour} {
		must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: ttl, Downsample: hourly}))
	}
	check := func(when string) {
		t.Helper()
		from := floor(machinetest.Epoch-50*hour, day)
		got, err := s.Query(t.Context(), fmt.Sprintf("cpu[%d..%d] | window(4d) | sum()", from-from%(4*day), from-from%(4*day)+8*day))
		if err != nil || len(got.Series) != 1 || got.Series[0].Points[0].Value != 7 {
			t.Errorf("%s: %v, %v, want 7", when, got, err)
		}
	}
	check("in a block")
	r.Advance(6 * minute)
	check("sealed")
	r.Advance(2 * day)
	check("rolled up")
}
