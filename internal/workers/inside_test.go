package workers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// TestStats: sums, trimming and invalid values of stats.
func TestStats(t *testing.T) {
	a := workerStats{list: []processStats{{"a", "x", 3, 1, 50}, {"b", "x", 2, 0, 40}}, completed: 4, failed: 1}
	b := workerStats{list: []processStats{{"a", "w", 1, 1, 10}, {"b", "x", 5, 2, 30}, {"c", "", 1, 0, 60}}, completed: 4, failed: 3}
	want := workerStats{list: []processStats{{"a", "w", 1, 1, 10}, {"a", "x", 3, 1, 50}, {"b", "x", 7, 2, 40}, {"c", "", 1, 0, 60}},
		completed: 8, failed: 4}
	for _, sum := range []workerStats{a.plus(b), b.plus(a), statsOf(want.processes())} {
		if !sum.equal(&want) || sum.check() != nil {
			t.Errorf("the sum is %+v, %v; want %+v", sum, sum.check(), want)
		}
	}
	for name, o := range map[string]workerStats{"completed": {want.list, 7, 4}, "failed": {want.list, 8, 3},
		"list": {want.list[:3], 8, 4}} {
		if want.equal(&o) {
			t.Errorf("another %s is the same", name)
		}
	}
	var many []Process // later ones ran longer ago, except the last
	for i := range maxProcesses + 2 {
		many = append(many, Process{Name: fmt.Sprintf("p%04d", i), Runs: 2, Failures: 1, LastRun: time.UnixMilli(int64(-i))})
	}
	many[maxProcesses+1].LastRun = time.UnixMilli(1)
	kept := statsOf(many)
	if n := len(kept.list); n != maxProcesses || kept.list[n-2].name != "p0998" || kept.list[n-1].name != "p1001" ||
		kept.completed != int64(n)+2 || kept.failed != int64(n)+2 {
		t.Errorf("%d are kept, the last ones %+v, and %d and %d counted", n, kept.list[n-2:], kept.completed, kept.failed)
	}
	if rest := statsOf([]Process{{Name: "a", Kind: KindOfRuns, Runs: 7, Failures: 3}}).withoutRuns(); !rest.equal(&workerStats{}) {
		t.Errorf("without its runs a worker has %+v", rest)
	}
	full := statsOf(many[:maxProcesses])
	if more := full.plus(statsOf(many[maxProcesses:])); !more.equal(&kept) {
		t.Errorf("the sum of more than %d has %d processes, %d and %d counted", maxProcesses, len(more.list), more.completed, more.failed)
	}
	for name, c := range map[string]struct {
		t    workerStats
		says string
	}{
		"full":            {full, ""},
		"too many":        {workerStats{list: append(slices.Clone(full.list), processStats{name: "q"})}, "1001 processes exceed 1000"},
		"all failed":      {workerStats{list: []processStats{{"a", "", 1, 1, 0}}}, ""},
		"more failed":     {workerStats{list: []processStats{{"a", "", 1, 2, 0}}}, `process "a": 2 failures of 1 runs`},
		"fewer than none": {workerStats{list: []processStats{{"a", "", 1, -1, 0}}}, `process "a": -1 failures of 1 runs`},
		"twice": {workerStats{list: []processStats{{"a", "", 1, 0, 0}, {"a", "", 1, 0, 0}}},
			`process "a" is given twice, or out of order`},
		"out of order": {workerStats{list: []processStats{{"a", "b", 1, 0, 0}, {"a", "a", 1, 0, 0}}},
			`process "a" is given twice, or out of order`},
		"completed": {workerStats{completed: -1}, "-1 completed and 0 failed runs"},
		"failed":    {workerStats{failed: -1}, "0 completed and -1 failed runs"},
	} {
		said := ""
		if err := c.t.check(); err != nil {
			said = err.Error()
		}
		e := codec.NewEncoder(nil)
		c.t.code(&e)
		d, got := codec.NewDecoder(e.Encoded()), workerStats{}
		if got.code(&d); said != c.says || (d.Done() == nil) != (said == "") || said == "" && !got.equal(&c.t) {
			t.Errorf("%s: %q, want %q; it decodes: %v", name, said, c.says, d.Done())
		}
	}
}

// TestEmptyLabels: labels have one encoding.
func TestEmptyLabels(t *testing.T) {
	for name, b := range map[string][]byte{"none": nil, "empty": {}} {
		w := Worker{Type: "t"}
		c := codec.NewEncoder(nil)
		c.String(&w.Type)
		c.String(&w.Machine)
		c.Int(&w.Max)
		c.Bytes(&b)
		codec.List(&c, &w.Handles, (*codec.Coder).String)
		c.Bytes(&w.Metadata)
		if got, err := decode(c.Encoded(), (*Worker).code); (err == nil) != (b == nil) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestMerge: merging the answers of several shards.
func TestMerge(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	counted := func(name string, runs, failures int64) workerStats {
		return workerStats{list: []processStats{{name, KindOfRuns, runs, failures, 7}}, completed: runs - failures, failed: failures}
	}
	run := func(name string, runs, failures int64) Process {
		return Process{name, KindOfRuns, runs, failures, at(7)}
	}
	registered := Info{Worker: Worker{ID: "w", Type: "t", Handles: []string{"a"}}, Status: Active, Load: 2, Completed: 5, Failed: 1,
		LastSeen: at(20), RegisteredAt: at(10),
		Processes: []Process{{"own", "job", 6, 1, at(3)}}}
	with := func(i Info, c poller, change func(*Info)) Info {
		i.poller = &c
		if change != nil {
			change(&i)
		}
		return i
	}
	stray := Info{Worker: Worker{ID: "w", Type: "t"}, Status: Active, LastSeen: at(30), RegisteredAt: at(5)}
	for name, c := range map[string]struct {
		answers []Info
		want    func(*Info)
	}{
		"registered, of one shard": {[]Info{registered}, func(*Info) {}},
		"registered, and elsewhere": {[]Info{with(stray, poller{true, 3, counted("a", 4, 1)}, nil),
			with(registered, poller{false, 1, counted("a", 2, 0)}, nil)}, func(i *Info) {
			i.LastSeen, i.Load, i.Completed, i.Failed, i.Processes = at(30), 4, 10, 2, []Process{run("a", 6, 1), registered.Processes[0]}
		}},
		"more load than runs": {[]Info{with(registered, poller{false, 1, workerStats{}}, nil)}, func(*Info) {}},
		"silent there": {[]Info{with(registered, poller{}, func(i *Info) { i.Status = Unhealthy }),
			with(stray, poller{unregistered: true}, nil)}, func(i *Info) {
			i.LastSeen = at(30)
		}},
		"drains there": {[]Info{with(registered, poller{}, func(i *Info) { i.Status = Draining }),
			with(stray, poller{unregistered: true}, nil)}, func(i *Info) {
			i.Status, i.LastSeen = Draining, at(30)
		}},
		"of no shard": {[]Info{with(stray, poller{true, 1, counted("b", 1, 1)}, func(i *Info) { i.RegisteredAt = at(8) }),
			with(stray, poller{true, 2, counted("a", 2, 0)}, nil)}, func(i *Info) {
			*i = stray
			i.Load, i.Completed, i.Failed, i.Processes, i.Handles = 3, 2, 1, []Process{run("a", 2, 0), run("b", 1, 1)}, []string{"a", "b"}
		}},
	} {
		want := registered
		c.want(&want)
		for _, p := range c.answers { // they are coded in query results
			code := func(i *Info, f *codec.Fields) {
				i.code(f)
				i.codePoller(f.Binary())
			}
			var got Info
			if err := codec.DecodeFields(codec.EncodeFields(nil, &p, code), &got, code); err != nil || !same(got, p) {
				t.Errorf("%s: %+v is read as %+v, %v", name, p, got, err)
			}
		}
		if got := merge(slices.Clone(c.answers)); !same(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	for name, c := range map[string]struct{ a, b, want pollerHandles }{
		"two shards": {pollerHandles{names: []string{"a", "c"}, alive: true}, pollerHandles{names: []string{"b", "c"}},
			pollerHandles{names: []string{"a", "b", "c"}, alive: true}},
		"registered in one": {pollerHandles{names: []string{"a"}, registered: true}, pollerHandles{names: []string{"b"}, alive: true},
			pollerHandles{names: []string{"a"}, registered: true, alive: true}},
		"silent": {pollerHandles{names: []string{"a"}}, pollerHandles{}, pollerHandles{names: []string{"a"}}},
	} {
		for _, got := range []pollerHandles{c.a.with(c.b), c.b.with(c.a)} {
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

// same reports whether two Infos are equal, including what poller points to.
func same(a, b Info) bool {
	return fmt.Sprintf("%+v", values(a)) == fmt.Sprintf("%+v", values(b))
}

func values(i Info) []any {
	c := i.poller
	i.poller = nil
	if c == nil {
		return []any{i}
	}
	return []any{i, *c}
}

// TestWorkerBounds: workers at each limit and just beyond it.
func TestWorkerBounds(t *testing.T) {
	base := func(change func(*Worker)) Worker {
		w := Worker{ID: "w", Type: "action"}
		change(&w)
		return w
	}
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("a%04d", i))
		}
		return all
	}
	metadata := func(n int) []byte { return []byte(`{"a":"` + strings.Repeat("x", n-8) + `"}`) }
	labels := func(n int) map[string]string {
		m := map[string]string{"l": ""}
		m["l"] = strings.Repeat("v", n-engine.HeaderBytes(m))
		for engine.HeaderBytes(m) > n {
			m["l"] = m["l"][1:]
		}
		return m
	}
	for name, c := range map[string]struct {
		w    Worker
		says string
	}{
		"bare":             {base(func(*Worker) {}), ""},
		"none at a time":   {base(func(w *Worker) { w.Max = 0 }), ""},
		"many at a time":   {base(func(w *Worker) { w.Max = 1_000_000 }), ""},
		"too many":         {base(func(w *Worker) { w.Max = 1_000_001 }), `worker "w": concurrency 1000001 is not in 0-1000000`},
		"fewer than none":  {base(func(w *Worker) { w.Max = -1 }), `worker "w": concurrency -1 is not in 0-1000000`},
		"metadata":         {base(func(w *Worker) { w.Metadata = metadata(4096) }), ""},
		"much metadata":    {base(func(w *Worker) { w.Metadata = metadata(4097) }), `worker "w": metadata of 4097 bytes exceeds 4096`},
		"metadata of none": {base(func(w *Worker) { w.Metadata = []byte{} }), `worker "w": metadata is not a JSON object: ""`},
		"space":            {base(func(w *Worker) { w.Metadata = []byte(" \t\r\n{} ") }), ""},
		"no object":        {base(func(w *Worker) { w.Metadata = []byte("[]") }), `worker "w": metadata is not a JSON object: "[]"`},
		"no JSON":          {base(func(w *Worker) { w.Metadata = []byte("{") }), `worker "w": metadata is not a JSON object: "{"`},
		"1000 names":       {base(func(w *Worker) { w.Handles = names(1000) }), ""},
		"1001 names":       {base(func(w *Worker) { w.Handles = names(1001) }), `worker "w": 1001 handled names exceed 1000`},
		"no name":          {base(func(w *Worker) { w.Handles = []string{""} }), "worker: what it handles: the name is empty"},
		"out of order":     {base(func(w *Worker) { w.Handles = []string{"b", "a"} }), `worker "w": "a" is listed twice or out of order`},
		"twice":            {base(func(w *Worker) { w.Handles = []string{"a", "a"} }), `worker "w": "a" is listed twice or out of order`},
		"labels":           {base(func(w *Worker) { w.Labels = labels(1024) }), ""},
		"many labels":      {base(func(w *Worker) { w.Labels = labels(1025) }), `worker "w": labels of 1025 bytes exceed 1024`},
	} {
		said := ""
		if err := c.w.Check(); err != nil {
			said = err.Error()
			if !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s: %v is not ErrInvalid", name, err)
			}
		}
		if said != c.says {
			t.Errorf("%s: %q, want %q", name, said, c.says)
		}
		cmd := rawOp(join, "w", joinBody{[]joining{{worker: c.w}}}).Command
		if err := Admit(cmd); (err == nil) != (said == "") {
			t.Errorf("%s: Admit = %v", name, err)
		}
	}
	w := base(func(w *Worker) { w.Handles = []string{"b", "a", "b"} })
	if w.normalize(); !slices.Equal(w.Handles, []string{"a", "b"}) {
		t.Errorf("in order it handles %q", w.Handles)
	}
	for n, ok := range map[int]bool{0: false, 1: true, maxBatch: true, maxBatch + 1: false} {
		joins, leaves := joinBody{make([]joining, n)}, leaveBody{list: make([]leaving, n)}
		for i := range n {
			joins.list[i].worker, leaves.list[i].id = Worker{ID: fmt.Sprint(i), Type: "t"}, fmt.Sprint(i)
		}
		for _, cmd := range []engine.Command{rawOp(join, "", joins).Command, rawOp(leave, "", leaves).Command} {
			if err := Admit(cmd); (err == nil) != ok {
				t.Errorf("a command %d of %d workers: %v", cmd.Kind, n, err)
			}
			cmd.Body = append(slices.Clone(cmd.Body), 0)
			want := engine.ErrMalformed
			if n > maxBatch { // checked before the end of the body
				want = engine.ErrInvalid
			}
			if err := Admit(cmd); !errors.Is(err, want) {
				t.Errorf("a malformed command %d: %v, want %v", cmd.Kind, err, want)
			}
		}
	}
	bad := rawOp(leave, "", leaveBody{list: []leaving{{id: ""}}}).Command
	if err := Admit(bad); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a worker without an id leaves: %v", err)
	}
}

// TestChunks: chunks respect the limits of members and bytes per command.
func TestChunks(t *testing.T) {
	members := func(n, bytes int) (all []*Member) {
		for range n {
			all = append(all, &Member{worker: Worker{ID: "w", Metadata: make([]byte, bytes)}})
		}
		return all
	}
	each := 64 + len(encode(&members(1, 4000)[0].worker, (*Worker).code))
	for _, c := range []struct {
		members []*Member
		want    []int
	}{
		{nil, nil}, {members(1, 0), []int{1}}, {members(maxBatch, 0), []int{maxBatch}}, {members(maxBatch+1, 0), []int{maxBatch, 1}},
		{members(maxBatchBytes/each, 4000), []int{maxBatchBytes / each}}, {members(maxBatchBytes/each+1, 4000),
			[]int{maxBatchBytes / each, 1}},
		{members(2, maxBatchBytes), []int{1, 1}},
	} {
		var got []int
		for _, part := range chunks(c.members) {
			got = append(got, len(part))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d members are %v, want %v", len(c.members), got, c.want)
		}
	}
}

// TestTimes: the times as documented, in ms.
func TestTimes(t *testing.T) {
	if got := [...]int64{reportMillis, silentMillis, waitMillis, goneMillis, settleMillis}; got !=
		[...]int64{10_000, 90_000, 60_000, 86_400_000, 300_000} {
		t.Errorf("the times are %v", got)
	}
}
