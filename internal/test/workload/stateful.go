package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// stateJob runs stateful stream-processing jobs: windows, sessions, dedup, sums and joins. They run
// in the plain namespace and in the spread one, where the records of a key come from several
// shards. All jobs read the same records, whose keys are in several partitions. Each record must be
// in one result or among the late records, and never in two.
type stateJob struct{}

func newStateJob() Job { return &stateJob{} }

// The streams that the jobs read.
const (
	readings = "readings"
	partners = "partners"
)

// sample is a record of either stream.
type sample struct {
	ID string `json:"id"`
	K  string `json:"k"`
	N  int64  `json:"n"`
	T  int64  `json:"t"`
}

// The clocks of shards may jump, so their times may differ by hours. A record has the time of one
// shard and may be stored in another.
const sampled = `
batch_size: 9
max_future_ms: 86400000
sources:
  - name: readings
    stream: { name: readings, partitions: all }
    event_time: "$.t"
    watermark: { max_out_of_orderness_ms: 30, idle_timeout_ms: 300 }
`

// stateful lists the jobs by name, with their expected results. The last one is also restored from
// savepoints and with another definition: its sink ends up the same however often it is written.
var stateful = []struct {
	name, rest string
	settled    func(p *statePipes, all, right []sample) (missing string, err error) // "": complete
}{
	{"windows", `
operators:
  - { name: seen, type: kv_lookup, lookup_key: "sum/${$.k}", mode: enrich }
  - { name: by, type: keyby, key_expression: "$.k" }
  - { name: total, type: aggregate, function: sum, field: n, window: sliding, window_size_ms: 100, slide_ms: 100 }
sinks:
  - { name: out, stream: { name: windows out } }
  - { name: late, match: late, stream: { name: APART windows late, namespace: apart } }
`, (*statePipes).windows},
	{"sessions", `
operators:
  - { name: by, type: keyby, key_expression: "$.k" }
  - { name: visit, type: aggregate, function: sum, field: n, window: session, gap_ms: 40 }
sinks:
  - { name: out, stream: { name: sessions out } }
  - { name: late, match: late, stream: { name: sessions late } }
`, (*statePipes).sessions},
	{"sums", `
operators:
  - { name: once, type: dedup, key: "$.id" }
  - { name: by, type: keyby, key_expression: "$.k" }
  - { name: sum, type: aggregate, function: sum, field: n }
sinks:
  - { name: out, stream: { name: APART sums out, namespace: apart } }
  - { name: keys, kv: { key: "$.key", key_prefix: sum, separator: "/", write_mode: versioned } }
`, (*statePipes).sums},
	{"pairs", `
  - name: partners
    stream: { name: partners, partitions: all }
    event_time: "$.t"
    watermark: { max_out_of_orderness_ms: 30, idle_timeout_ms: 300 }
operators:
  - { name: pair, type: join, source: partners, on: "$.k", within_ms: 15, mode: left, enrich_field: p }
sinks:
  - { name: out, stream: { name: pairs out } }
`, (*statePipes).pairs},
	{rewound, `
operators:
  - { name: once, type: dedup, key: "$.id" }
  - { name: by, type: keyby, key_expression: "$.k" }
  - { name: sum, type: aggregate, function: sum, field: n }
sinks:
  - { name: keys, kv: { key: "$.key", key_prefix: rewound, separator: "/" } }
`, (*statePipes).rewound},
}

const rewound = "rewound"

// definition returns the definition of a job, or an edited one that keeps all of its state.
func (p *statePipes) definition(name, rest string, edited bool) []byte {
	if edited {
		rest = strings.Replace(rest, "operators:\n", "operators:\n  - { name: more, type: set, more: 1 }\n", 1)
	}
	return []byte("name: " + name + sampled + strings.ReplaceAll(rest[1:], "APART ", p.apart))
}

// statePipes is a client of the jobs.
type statePipes struct {
	World
	jobs    *processing.Store
	streams [2]*stream.Store // of the jobs' namespace, and apart
	keys    *kv.Store
	apart   string // prefix of the names of streams apart
	made    int64
	missing string
	now     int64 // ms: time of the last append
}

// statePipesOf returns a client for each of the namespaces.
func statePipesOf(w World) (all [2]*statePipes) {
	for i, ns := range []string{Plain, Spread} {
		all[i] = &statePipes{
			World: w, jobs: engine.StoreOf[processing.Store](w.Router(), ns, MaxValue), keys: engine.StoreOf[kv.Store](w.Router(), ns,
				MaxValue), apart: ns + " ",
			streams: [2]*stream.Store{engine.StoreOf[stream.Store](w.Router(), ns, MaxValue),
				engine.StoreOf[stream.Store](w.Router(), Apart, MaxValue)},
		}
	}
	return all
}

// Open submits each job once.
func (j *stateJob) Open(w World) bool {
	for _, p := range statePipesOf(w) {
		if !p.open() {
			return false
		}
	}
	return true
}

func (p *statePipes) open() bool {
	ctx := context.Background()
	for _, name := range []string{readings, partners} {
		if !insist(p, func() error {
			err := p.streams[0].Create(ctx, name, stream.Partitions(3))
			if errors.Is(err, engine.ErrExists) {
				return nil
			}
			return err
		}) {
			return false
		}
	}
	for _, s := range stateful {
		definition := p.definition(s.name, s.rest, false)
		if problems := processing.Validate(definition); len(problems) > 0 {
			p.Failf("processing: job %s: %v", s.name, problems)
			return false
		}
		if !insist(p, func() error {
			id, err := theJob(p.jobs, s.name)
			if err == nil && id == "" {
				_, err = p.jobs.Submit(ctx, definition)
			}
			return err
		}) {
			return false
		}
	}
	return true
}

// Do appends records and disturbs the jobs.
func (j *stateJob) Do(w World) {
	clients, ctx := statePipesOf(w), context.Background()
	for w.Working() {
		p := clients[w.Rand().IntN(len(clients))]
		switch n := w.Rand().IntN(10); {
		case n < 6:
			w.Note(p.append(ctx, readings, "r"))
		case n < 8:
			w.Note(p.append(ctx, partners, "p"))
		default:
			switch s := stateful[w.Rand().IntN(len(stateful))]; {
			case s.name == rewound && w.Rand().IntN(3) == 0:
				w.Note(p.rewind(ctx, p.definition(s.name, s.rest, w.Rand().IntN(2) == 0)))
			default:
				w.Note(disturb(w, p.jobs, s.name))
			}
		}
	}
}

// rewind restores the job from one of its savepoints, if there is any, with a definition.
func (p *statePipes) rewind(ctx context.Context, definition []byte) error {
	id, err := theJob(p.jobs, rewound)
	if err != nil || id == "" {
		return err
	}
	saved, err := engine.Collect(p.jobs.Savepoints(id).All(ctx))
	if err != nil {
		return err
	}
	opts := []processing.RestoreOption{processing.ReplaceDefinition(definition)}
	saved = slices.DeleteFunc(saved, func(s processing.Savepoint) bool { return !s.Complete })
	if len(saved) > 0 {
		opts = append(opts, processing.FromSavepoint(saved[p.Rand().IntN(len(saved))].ID))
	}
	if _, err = p.jobs.Stop(ctx, id); err == nil {
		_, err = p.jobs.Restore(ctx, id, opts...)
	}
	// The savepoint exceeded their limit.
	if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrBusy) || errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// append appends records with the current time. Some are duplicates, for dedup to find.
func (p *statePipes) append(ctx context.Context, name, kind string) error {
	var msgs []stream.Message
	for range 1 + p.Rand().IntN(5) {
		p.made++
		s := sample{fmt.Sprintf("%s%d.%d", kind, p.Client(), p.made), strconv.Itoa(p.Rand().IntN(4)), p.Rand().Int64N(100),
			p.now + p.Rand().Int64N(100)}
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		for range 1 + p.Rand().IntN(6)/5 {
			msgs = append(msgs, stream.Message{Key: strconv.Itoa(p.Rand().IntN(9)), Payload: b})
		}
	}
	made, err := p.streams[0].AppendMany(ctx, name, msgs)
	for _, m := range made {
		p.now = max(p.now, m.ID.Millis)
	}
	return err
}

// Audit waits until all jobs have their expected results.
func (j *stateJob) Audit(w World) {
	for _, p := range statePipesOf(w) {
		p.audit()
	}
}

func (p *statePipes) audit() {
	var all, right []sample
	if !insist(p, func() (err error) {
		if all, err = recordsOf[sample](p.streams[0], readings); err == nil {
			right, err = recordsOf[sample](p.streams[0], partners)
		}
		return err
	}) {
		return
	}
	for _, s := range stateful {
		n := len(all)
		if s.name == "pairs" {
			n += len(right)
		}
		if _, ok := settleJob(p, p.jobs, s.name, int64(n), nil); !ok {
			return
		}
		if !p.await(s.name, func() (string, error) { return s.settled(p, all, right) }) {
			return
		}
	}
}

// await waits until nothing is missing. It returns false if the run ends first.
func (p *statePipes) await(name string, settled func() (missing string, err error)) bool {
	for range 10_000 {
		missing, err := settled()
		if err == nil && missing == "" {
			return true
		}
		p.missing = missing
		p.Note(err)
		if !p.Sleep(50 * time.Millisecond) {
			return false
		}
	}
	p.Failf("processing: job %s: %s", name, p.missing)
	return false
}

// result is an output of an aggregate.
type result struct {
	Key   string `json:"key"`
	Value int64  `json:"value"`
	Count int64  `json:"count"`
	Start int64  `json:"window_start"`
	End   int64  `json:"window_end"`
}

// tallied is a number of records, and the sum of their values.
type tallied struct{ count, sum int64 }

func (t tallied) plus(o tallied) tallied { return tallied{t.count + o.count, t.sum + o.sum} }

func tallyOf[K comparable](all []sample, by func(sample) K) map[K]tallied {
	m := make(map[K]tallied)
	for _, s := range all {
		m[by(s)] = m[by(s)].plus(tallied{1, s.N})
	}
	return m
}

// slot is a window of a key.
type slot struct {
	key   string
	start int64
}

// windows: each window of a key is emitted once, and has all of its records except late ones.
func (p *statePipes) windows(all, _ []sample) (string, error) {
	late, err := recordsOf[sample](p.streams[1], p.apart+"windows late")
	if err != nil {
		return "", err
	}
	results, err := recordsOf[result](p.streams[0], "windows out")
	if err != nil {
		return "", err
	}
	slotOf := func(s sample) slot { return slot{s.K, s.T / 100 * 100} }
	want, got, seen := tallyOf(all, slotOf), tallyOf(late, slotOf), make(map[slot]bool)
	for _, r := range results {
		at := slot{r.Key, r.Start}
		if seen[at] {
			p.Failf("processing: window %+v is told twice", at)
			return "", nil
		}
		seen[at] = true
		got[at] = got[at].plus(tallied{r.Count, r.Value})
	}
	return compareTallies(p, "windows", want, got), nil
}

// sessions: the sessions of a key have all of its records except late ones.
func (p *statePipes) sessions(all, _ []sample) (string, error) {
	late, err := recordsOf[sample](p.streams[0], "sessions late")
	if err != nil {
		return "", err
	}
	results, err := recordsOf[result](p.streams[0], "sessions out")
	if err != nil {
		return "", err
	}
	keyOf := func(s sample) string { return s.K }
	want, got := tallyOf(all, keyOf), tallyOf(late, keyOf)
	for _, r := range results {
		got[r.Key] = got[r.Key].plus(tallied{r.Count, r.Value})
	}
	return compareTallies(p, "sessions", want, got), nil
}

// compareTallies returns what is still missing, and fails the run if there is too much.
func compareTallies[K comparable](p *statePipes, what string, want, got map[K]tallied) (missing string) {
	for k, n := range want {
		switch have := got[k]; {
		case have == n:
		case have.count < n.count:
			missing = fmt.Sprintf("%v comes to %+v, want %+v", k, have, n)
		default:
			p.Failf("processing: %s: %v comes to %+v, want %+v", what, k, have, n)
			return ""
		}
	}
	if len(got) > len(want) {
		p.Failf("processing: %s: there are %d, want %d", what, len(got), len(want))
	}
	return missing
}

// sums: each sum of a key is emitted once, in order, and the last one is stored under the key.
func (p *statePipes) sums(all, _ []sample) (string, error) {
	results, err := recordsOf[result](p.streams[1], p.apart+"sums out")
	if err != nil {
		return "", err
	}
	distinct := make(map[string]sample)
	for _, s := range all {
		distinct[s.ID] = s
	}
	want, got := make(map[string]tallied), make(map[string]tallied)
	for _, s := range distinct {
		want[s.K] = want[s.K].plus(tallied{1, s.N})
	}
	told := make(map[string]map[int64]bool)
	for _, r := range results {
		if told[r.Key] == nil {
			told[r.Key] = make(map[int64]bool)
		}
		if told[r.Key][r.Count] {
			p.Failf("processing: sums: sum %d of key %s is told twice", r.Count, r.Key)
			return "", nil
		}
		told[r.Key][r.Count] = true
		if have := got[r.Key]; have.count < r.Count {
			got[r.Key] = tallied{r.Count, r.Value}
		}
	}
	for k, counts := range told {
		if int64(len(counts)) != got[k].count && len(results) >= len(distinct) {
			p.Failf("processing: sums: %d sums of key %s are told, the last one is of %d", len(counts), k, got[k].count)
			return "", nil
		}
	}
	if len(results) < len(distinct) {
		return fmt.Sprintf("there are %d sums, want %d", len(results), len(distinct)), nil
	}
	if missing := compareTallies(p, "sums", want, got); missing != "" {
		return missing, nil
	}
	for k, n := range want {
		e, err := p.keys.Get(context.Background(), "sum/"+k)
		if err != nil {
			return "", err
		}
		var r result
		if err := json.Unmarshal(e.Value, &r); err != nil || r.Count != n.count || r.Value != n.sum || int64(e.Version) != n.count {
			p.Failf("processing: sums: key %s holds version %d of %s, %v, want %+v", k, e.Version, e.Value, err, n)
		}
	}
	return "", nil
}

// rewound: in the end each key holds its sum, whatever it held in between.
func (p *statePipes) rewound(all, _ []sample) (string, error) {
	distinct := make(map[string]sample)
	for _, s := range all {
		distinct[s.ID] = s
	}
	want, got := make(map[string]tallied), make(map[string]tallied)
	for _, s := range distinct {
		want[s.K] = want[s.K].plus(tallied{1, s.N})
	}
	for item, err := range p.keys.All(context.Background(), kv.Prefix("rewound/")) {
		var r result
		if err == nil {
			err = json.Unmarshal(item.Value, &r)
		}
		if err != nil {
			return "", err
		}
		got[r.Key] = tallied{r.Count, r.Value}
	}
	return compareTallies(p, rewound, want, got), nil
}

// pair is a record joined with another one, or without a partner.
type pair struct {
	sample
	P *sample `json:"p"`
}

// pairs: each left record is emitted, alone or once with each of its partners.
func (p *statePipes) pairs(all, right []sample) (string, error) {
	results, err := recordsOf[pair](p.streams[0], "pairs out")
	if err != nil {
		return "", err
	}
	lefts, rights := make(map[string]int), make(map[string]int) // as often as they were appended
	for _, s := range all {
		lefts[s.ID]++
	}
	for _, s := range right {
		rights[s.ID]++
	}
	alone, paired, with := make(map[string]int), make(map[[2]string]int), make(map[string]bool)
	for _, r := range results {
		if r.P == nil {
			alone[r.ID]++
			continue
		}
		with[r.ID] = true
		paired[[2]string{r.ID, r.P.ID}]++
		if apart := r.T - r.P.T; r.K != r.P.K || apart > 15 || apart < -15 {
			p.Failf("processing: pairs: %+v and %+v are no pair", r.sample, *r.P)
			return "", nil
		}
	}
	for ids, n := range paired {
		if n > lefts[ids[0]]*rights[ids[1]] {
			p.Failf("processing: pairs: %v is there %d times, the records %d and %d", ids, n, lefts[ids[0]], rights[ids[1]])
			return "", nil
		}
	}
	missing := ""
	for id, n := range lefts {
		if alone[id] > n || n == 1 && alone[id] > 0 && with[id] {
			p.Failf("processing: pairs: record %s is there %d times, is alone %d times and has partners: %v", id, n, alone[id], with[id])
			return "", nil
		}
		if alone[id] < n && !with[id] {
			missing = fmt.Sprintf("record %s of %d is alone %d times", id, n, alone[id])
		}
	}
	return missing, nil
}

// recordsOf reads the contents of a stream, if it exists.
func recordsOf[T any](s *stream.Store, name string) (all []T, err error) {
	for after := []stream.ReadOption(nil); ; {
		page, err := s.Read(context.Background(), name, append(after, stream.Limit(stream.MaxReadLimit))...)
		if errors.Is(err, engine.ErrNotFound) {
			return nil, nil
		}
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, rec := range page {
			var v T
			if err := json.Unmarshal(rec.Payload, &v); err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		after = []stream.ReadOption{stream.After(page[len(page)-1].ID)}
	}
}
