package workflow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// newStores returns the stores of a plain namespace and of a spread one, and their rig.
func newStores(t *testing.T) (r *machinetest.Rig, plain, spread *Store) {
	t.Helper()
	r = machinetest.New(t, 3, engine.TableOf[action.Store](), engine.TableOf[stream.Store](), engine.TableOf[Store]())
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "s", true); err != nil {
		t.Fatal(err)
	}
	return r, engine.StoreOf[Store](r.Router(), "n", 1<<20), engine.StoreOf[Store](r.Router(), "s", 1<<20)
}

func errOf[T any](_ T, err error) error { return err }

// TestRefusals: the inputs that each call refuses, and the error messages.
func TestRefusals(t *testing.T) {
	_, s, spread := newStores(t)
	ctx := t.Context()
	const waits = `start: {waitForSignal: {type: go, timeoutMs: 60000}, transitions: {success: flo.Completed}}`
	for _, head := range []string{"name: w", "name: keyed\nidempotency: required", "name: keyless\nidempotency: none"} {
		for _, s := range []*Store{s, spread} {
			if _, err := s.Create(ctx, []byte(head+"\n"+waits)); err != nil {
				t.Fatal(err)
			}
		}
	}
	started, err := s.Start(ctx, "w", nil)
	if err != nil {
		t.Fatal(err)
	}
	run := started.Run
	page := func(opts ...RunOption) error { return errOf(s.Runs().Page(ctx, opts...)) }
	with := func(n int) (opts []RunOption) {
		for range n {
			opts = append(opts, Has("a", 1))
		}
		return opts
	}
	long := strings.Repeat("v", engine.MaxNameBytes)
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"no workflow":              {errOf(s.Get(ctx, "none")), ErrNotFound, `workflow "none" not found`},
		"no name":                  {errOf(s.Get(ctx, "")), ErrInvalid, ""},
		"definition of none":       {errOf(s.Versions("none").Get(ctx, "")), ErrNotFound, `workflow "none" not found`},
		"definition of no name":    {errOf(s.Versions("").Get(ctx, "")), ErrInvalid, ""},
		"definition of no version": {errOf(s.Versions("w").Get(ctx, "7")), ErrNotFound, ""},
		"versions of none":         {errOf(s.Versions("none").Page(ctx)), ErrNotFound, `workflow "none" not found`},
		"versions by 0":            {errOf(s.Versions("w").Page(ctx, Limit(0))), ErrInvalid, ""},
		"versions from nowhere":    {errOf(s.Versions("w").Page(ctx, Cursor("1"))), ErrInvalid, `cursor "1" is not from this listing`},
		"versions from no number":  {errOf(s.Versions("w").Page(ctx, Cursor("x"))), ErrInvalid, `cursor "x" is not from this listing`},
		"start of no version":      {errOf(s.Start(ctx, "w", nil, Version("7"))), ErrNotFound, ""},
		"a version too long": {errOf(s.Start(ctx, "w", nil, Version(long+"v"))), ErrInvalid,
			"workflow: version of 256 bytes exceeds 255"},
		"a version just so": {errOf(s.Start(ctx, "w", nil, Version(long))), ErrNotFound, ""},
		"a key that is missing": {errOf(s.Start(ctx, "keyed", nil)), ErrInvalid,
			`workflow "keyed": a start needs an idempotency key or a run id`},
		"a key": {errOf(s.Start(ctx, "keyed", nil, IdempotencyKey("k"))), nil, ""},
		"an id": {errOf(s.Start(ctx, "keyed", nil, UseID("mine"))), nil, ""},
		"a key that is not taken": {errOf(s.Start(ctx, "keyless", nil, IdempotencyKey("k"))), ErrInvalid,
			`workflow "keyless" takes no idempotency keys`},
		"no key":          {errOf(s.Start(ctx, "keyless", nil)), nil, ""},
		"state 0":         {page(InState(0)), ErrInvalid, "workflow: unknown run state 0"},
		"the first state": {page(InState(Pending)), nil, ""},
		"the last state":  {page(InState(TimedOut)), nil, ""},
		"no state":        {page(InState(TimedOut + 1)), ErrInvalid, fmt.Sprintf("workflow: unknown run state %d", TimedOut+1)},
		"runs of no name": {page(Of("")), ErrInvalid, ""},
		"no attribute": {page(Has("a", true)), ErrInvalid,
			`workflow: search attribute "a": a bool is not a string, number or time`},
		"32 attributes":     {page(with(32)...), nil, ""},
		"33 attributes":     {page(with(33)...), ErrInvalid, "workflow: 33 attributes of a listing exceed 32"},
		"limit 0":           {page(Limit(0)), ErrInvalid, ""},
		"limit 1001":        {page(Limit(1001)), ErrInvalid, ""},
		"no cursor":         {page(Cursor("x")), ErrInvalid, `cursor "x" is not from this listing`},
		"an id as a cursor": {page(Cursor(string(run))), nil, ""},
		"one of a spread listing": {errOf(spread.Runs().Page(ctx, Cursor(string(run)))), ErrInvalid,
			fmt.Sprintf("cursor %q is not from this listing", run)},
		"history of no run":       {errOf(s.History("mine2").Page(ctx)), ErrNotFound, "run mine2 not found"},
		"history of no id":        {errOf(s.History("").Page(ctx)), ErrInvalid, ""},
		"history from nowhere":    {errOf(s.History(run).Page(ctx, Cursor("!"))), ErrInvalid, `cursor "!" is not from this listing`},
		"history by 0":            {errOf(s.History(run).Page(ctx, Limit(0))), ErrInvalid, ""},
		"no run":                  {errOf(s.Runs().Get(ctx, "mine2")), ErrNotFound, "run mine2 not found"},
		"no run id":               {errOf(s.Runs().Get(ctx, "")), ErrInvalid, ""},
		"of another namespace":    {errOf(spread.Runs().Get(ctx, run)), ErrNotFound, fmt.Sprintf("run %s not found", run)},
		"cancel likewise":         {errOf(spread.Cancel(ctx, run, "")), ErrNotFound, fmt.Sprintf("run %s not found", run)},
		"signal likewise":         {errOf(spread.Signal(ctx, run, "go", nil)), ErrNotFound, fmt.Sprintf("run %s not found", run)},
		"retry of one that waits": {errOf(s.Retry(ctx, run)), ErrConflict, ""},
		"delete with runs":        {s.Delete(ctx, "w"), ErrConflict, ""},
		"delete none":             {s.Delete(ctx, "none"), ErrNotFound, ""},
		"another namespace": {errOf(s.Create(ctx, []byte("name: x\nnamespace: m\n"+waits))), ErrInvalid,
			`workflow "x" is for namespace "m", not "n"`},
		"its own namespace": {errOf(s.Create(ctx, []byte("name: x\nnamespace: n\n"+waits))), nil, ""},
	} {
		if !errors.Is(c.err, c.is) || c.says != "" && c.err.Error() != c.says {
			t.Errorf("%s: %v\nwant %v %s", name, c.err, c.is, c.says)
		}
	}
}

// TestListingPages: pages of any size follow one another without a gap, in a plain and in a spread
// namespace, and filters apply.
func TestListingPages(t *testing.T) {
	r, plain, spread := newStores(t)
	ctx := t.Context()
	for _, s := range []*Store{plain, spread} {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"b1", "a1", "a3", "a2", "c", "a4", "a5"} {
			_, err := s.Create(ctx, []byte(`{name: `+name+
				`, searchAttributes: [{name: n, type: number, from: $.input.n}, {name: t, type: timestamp, from: $.input.t}],
				start: {waitForSignal: {type: go, timeoutMs: 60000}, transitions: {success: flo.Completed}}}`))
			must(err)
		}
		var runs []RunID // newest first
		for i := range 9 {
			r.Advance(10)
			v, err := s.Start(ctx, "a"+fmt.Sprint(1+i%2), fmt.Appendf(nil, `{"n":%d,"t":"2026-01-02T03:04:05Z"}`, i-4))
			must(err)
			runs = slices.Insert(runs, 0, v.Run)
		}
		_, err := s.Cancel(ctx, runs[4], "no")
		must(err)
		for limit := 1; limit <= len(runs)+1; limit++ {
			var got, all []string
			for cursor, more := "", true; more; more = cursor != "" {
				page, err := s.Page(ctx, Limit(limit), Prefix("a"), Cursor(cursor))
				must(err)
				if len(page.Items) > limit || len(page.Items) == 0 {
					t.Fatalf("a page of at most %d has %d workflows", limit, len(page.Items))
				}
				for _, i := range page.Items {
					got = append(got, i.Name)
				}
				cursor = page.Cursor
			}
			for i, err := range s.All(ctx, Limit(limit)) {
				must(err)
				all = append(all, i.Name)
			}
			if strings.Join(all, " ") != "a1 a2 a3 a4 a5 b1 c" || strings.Join(got, " ") != "a1 a2 a3 a4 a5" {
				t.Errorf("%s, limit %d: %q, and %q with a prefix", s.Namespace(), limit, all, got)
			}
			var ids []RunID
			for cursor, more := "", true; more; more = cursor != "" {
				page, err := s.Runs().Page(ctx, Limit(limit), Cursor(cursor))
				must(err)
				if len(page.Items) > limit {
					t.Fatalf("a page of at most %d has %d runs", limit, len(page.Items))
				}
				for _, i := range page.Items {
					ids = append(ids, i.ID)
				}
				cursor = page.Cursor
			}
			if !slices.Equal(ids, runs) {
				t.Errorf("%s, limit %d: runs %q, want %q", s.Namespace(), limit, ids, runs)
			}
		}
		at := func(i int) time.Time { // start time of runs[i]
			run, err := s.Runs().Get(ctx, runs[i])
			must(err)
			return run.StartedAt
		}
		rest := slices.Concat(runs[:4], runs[5:])
		for name, c := range map[string]struct {
			opts []RunOption
			want []RunID
		}{
			"a state":             {[]RunOption{InState(Cancelled)}, runs[4:5]},
			"another state":       {[]RunOption{InState(Completed)}, nil},
			"waiting":             {[]RunOption{InState(Waiting)}, rest},
			"active":              {[]RunOption{Active()}, rest},
			"of a workflow":       {[]RunOption{Of("a2")}, []RunID{runs[1], runs[3], runs[5], runs[7]}},
			"of one without runs": {[]RunOption{Of("a3")}, nil},
			"a number":            {[]RunOption{Has("n", -4)}, runs[8:]},
			"zero":                {[]RunOption{Has("n", math.Copysign(0, -1))}, runs[4:5]},
			"a long number":       {[]RunOption{Has("n", int64(4))}, runs[:1]},
			"no such number":      {[]RunOption{Has("n", 4.5)}, nil},
			"a string":            {[]RunOption{Has("n", "4")}, nil},
			"a time":              {[]RunOption{Has("t", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}, runs},
			"two":                 {[]RunOption{Has("t", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Has("n", 1)}, runs[3:4]},
			"since":               {[]RunOption{StartedBetween(at(2), time.Time{})}, runs[:3]},
			"until":               {[]RunOption{StartedBetween(time.Time{}, at(2))}, runs[3:]},
			"between":             {[]RunOption{StartedBetween(at(4), at(2))}, runs[3:5]},
			"of two, and since":   {[]RunOption{Of("a1"), StartedBetween(at(2), time.Time{})}, []RunID{runs[0], runs[2]}},
		} {
			var got []RunID
			for run, err := range s.Runs().All(ctx, append(c.opts, Limit(2))...) {
				must(err)
				got = append(got, run.ID)
				if n := run.Attributes["n"]; n == nil ||
					!run.Attributes["t"].(time.Time).Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
					t.Errorf("attributes %v", run.Attributes)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %q, want %q", s.Namespace(), name, got, c.want)
			}
		}
		whole, err := s.History(runs[4]).Page(ctx)
		must(err)
		for limit := 1; limit <= len(whole.Items); limit++ {
			var got []Event
			for e, err := range s.History(runs[4]).All(ctx, Limit(limit)) {
				must(err)
				got = append(got, e)
			}
			if !slices.Equal(got, whole.Items) || len(got) < 3 {
				t.Errorf("%s, history by %d: %v, want %v", s.Namespace(), limit, got, whole.Items)
			}
		}
	}
}

// TestAttributes: search attributes are encoded in keys in the order of their values, and decode to
// the same values.
func TestAttributes(t *testing.T) {
	values := []any{
		math.Inf(-1), -math.MaxFloat64, -2.5, -1.0, -math.SmallestNonzeroFloat64, 0.0, math.SmallestNonzeroFloat64, 1.0, 2.5,
		math.MaxFloat64, math.Inf(1),
	}
	last := ""
	for _, v := range values {
		s := string(appendAttribute(nil, "a", v))
		if name, got, ok := parseAttribute(s); name != "a" || got != v || !ok || s <= last {
			t.Errorf("%v is read as %q %v, %t; in order: %t", v, name, got, ok, s > last)
		}
		last = s
	}
	for _, v := range []any{"", "a\x00b", time.UnixMilli(-1), time.UnixMilli(5)} {
		if name, got, ok := parseAttribute(string(appendAttribute(nil, "", v))); name != "" || got != v || !ok {
			t.Errorf("%v is read as %q %v, %t", v, name, got, ok)
		}
	}
	text, number := string(appendAttribute(nil, "a", "x")), string(appendAttribute(nil, "a", 1.0))
	moment := string(appendAttribute(nil, "a", time.UnixMilli(1)))
	for _, s := range []string{"", "a", text[:3], text + "x", text[:len(text)-1], number[:len(number)-1], number + "x", moment + "x",
		moment[:len(moment)-1], text[:3] + "\x00" + text[4:]} {
		if name, v, ok := parseAttribute(s); ok {
			t.Errorf("%q is read as %q %v", s, name, v)
		}
	}
	if !panics(func() { appendAttribute(nil, "a", 1) }) {
		t.Error("an int is an attribute")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestNames: the names of things.
func TestNames(t *testing.T) {
	for s, want := range []string{"unknown", "starting", "waiting", "active", "paused", "unknown"} {
		if got := TriggerState(s).String(); got != want {
			t.Errorf("state %d of a trigger is %q, want %q", s, got, want)
		}
	}
	for s, want := range []string{"unknown", "warning", "error", "unknown"} {
		if got := Severity(s).String(); got != want {
			t.Errorf("severity %d is %q, want %q", s, got, want)
		}
	}
	if ns, ok := RunID("mine").Namespace(); ok {
		t.Errorf("a given id is of namespace %q", ns)
	}
	_, s, _ := newStores(t)
	if _, err := s.Create(t.Context(), []byte(leaf)); err != nil {
		t.Fatal(err)
	}
	v, err := s.Start(t.Context(), "leaf", nil)
	if ns, ok := v.Run.Namespace(); ns != "n" || !ok || err != nil {
		t.Errorf("run %s is of namespace %q, %t, %v", v.Run, ns, ok, err)
	}
	for definition, want := range map[string]string{leaf: "", leaf + "namespace: m\n": "m"} {
		if got, err := DefinitionNamespace([]byte(definition)); got != want || err != nil {
			t.Errorf("the definition is for namespace %q, %v; want %q", got, err, want)
		}
	}
	if _, err := DefinitionNamespace([]byte("name: x")); !errors.Is(err, ErrInvalid) {
		t.Errorf("the namespace of no definition: %v", err)
	}
}

// TestDefinitionErrorText: the text lists errors, at most ten, and no warnings.
func TestDefinitionErrorText(t *testing.T) {
	e := &DefinitionError{[]Problem{{1, Warning, "c", "odd"}, {2, Error, "c", "wrong"}}}
	want := "workflow: the definition has mistakes; line 2: wrong"
	if e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
	for range 9 {
		e.Problems = append(e.Problems, e.Problems[1])
	}
	if want += strings.Repeat("; line 2: wrong", 9); e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
	e.Problems = append(e.Problems, e.Problems[0], e.Problems[1], e.Problems[1])
	if want += "; and more"; e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
	all := problemsOf([]flow.Problem{{Line: 3, Severity: flow.Error, Code: "c", Message: "m"}, {Severity: flow.Warning}})
	if !slices.Equal(all, []Problem{{3, Error, "c", "m"}, {Severity: Warning}}) {
		t.Errorf("problems %v", all)
	}
}

// TestReaches: a definition reaches into the namespace of its trigger's stream, and one that names
// a reserved namespace is invalid.
func TestReaches(t *testing.T) {
	for trigger, want := range map[string][]string{"": nil, "trigger: {stream: x}": nil, "trigger: {stream: x, namespace: m}": {"m"}} {
		cmd, err := engine.OpOf(CreateOp([]byte(leaf + trigger + "\n"))).Limit(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if got := reaches(cmd); !slices.Equal(got, want) {
			t.Errorf("%q reaches %q, want %q", trigger, got, want)
		}
		cmd.Body = cmd.Body[:3]
		if got := reaches(cmd); got != nil {
			t.Errorf("a malformed one reaches %q", got)
		}
	}
	if _, err := compile([]byte(leaf + "trigger: {stream: x, namespace: _system}\n")); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "trigger") {
		t.Errorf("a trigger of _system: %v", err)
	}
}

// TestMakes: only starts and signals may create runs of actions, each with its own cause.
func TestMakes(t *testing.T) {
	made := func(op engine.Operation, cut bool) (all []engine.Made) {
		t.Helper()
		cmd, err := engine.OpOf(op).Limit(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Namespace = "n"; cut {
			cmd.Body = cmd.Body[:1]
		}
		newMachine().Makes(cmd, func(m engine.Made) { all = append(all, m) })
		return all
	}
	start, signal := StartOp("w", nil), SignalOp("mine", "w", nil)
	a, b, c, d := made(start, false), made(signal, false), made(StartOp("v", nil), false), made(SignalOp("mine", "v", nil), false)
	for _, one := range [][]engine.Made{a, b, c, d} {
		if len(one) != 1 || one[0].N != 1 || one[0].Topic != a[0].Topic {
			t.Fatalf("%+v", one)
		}
	}
	causes := []engine.Topic{a[0].Cause, b[0].Cause, c[0].Cause, d[0].Cause}
	for i := range causes {
		if slices.Index(causes, causes[i]) != i {
			t.Errorf("one cause for two: %v", causes)
		}
	}
	for _, all := range [][]engine.Made{made(start, true), made(signal, true), made(CancelOp("mine", ""), false),
		made(EnableOp("w"), false)} {
		if len(all) != 0 {
			t.Errorf("%+v", all)
		}
	}
}

// TestMix: the random numbers of plans are those of SplitMix64 (Steele, Lea and Flood, Fast
// Splittable Pseudorandom Number Generators, 2014).
func TestMix(t *testing.T) {
	for x, want := range map[uint64]uint64{0: 0xe220a8397b1dcdaf, 0x9e3779b97f4a7c15: 0x6e789e6aa1b965f4} {
		if got := mix(x); got != want {
			t.Errorf("mix(%#x) = %#x, want %#x", x, got, want)
		}
	}
}

// TestBranchesSee: a branch sees its element, its index and its run's input, and the outputs of
// branches are in order. A value that is not an array fails the step.
func TestBranchesSee(t *testing.T) {
	r, s, _ := newStores(t)
	ctx := t.Context()
	actions := engine.StoreOf[action.Store](r.Router(), "n", 1<<20)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := actions.Register(ctx, "a")
	must(err)
	_, err = s.Create(ctx, []byte(`
name: fan
start:
  parallel: { each: $.input.items, run: "@actions/a", input: { i: $.index, of: $.item, n: $.input.n } }
  transitions: { success: flo.Completed }
output: $.steps._start.output
`))
	must(err)
	for _, n := range []int{0, 1, 12, maxStarts - 1, maxStarts, maxStarts + 1, 2*maxStarts + 1} {
		var items, want []string
		for i := range n {
			items = append(items, fmt.Sprintf(`"e%d"`, i))
			want = append(want, fmt.Sprintf(`{"i":%d,"n":7,"of":"e%d"}`, i, i))
		}
		v, err := s.Start(ctx, "fan", []byte(`{"n":7,"items":[`+strings.Join(items, ",")+`]}`))
		must(err)
		for range 2*n + 2 {
			r.Advance(0)
			tasks, err := actions.Await(ctx, "w", []string{"a"}, action.Max(100))
			must(err)
			for i := range tasks {
				must(actions.Complete(ctx, tasks[i].Run, "w", tasks[i].Input))
			}
			if run, err := s.Runs().Get(ctx, v.Run); err != nil || run.Status.Final() {
				break
			}
		}
		run, err := s.Runs().Get(ctx, v.Run)
		var got []string
		if text := strings.Trim(string(run.Output), "[]"); text != "" {
			for _, e := range strings.SplitAfter(text, "},") {
				got = append(got, sorted(strings.Trim(e, "{},")))
			}
		}
		for i := range want {
			want[i] = sorted(strings.Trim(want[i], "{}"))
		}
		if err != nil || run.Status != Completed || !slices.Equal(got, want) {
			t.Errorf("%d elements: %s, %v, output %s (%s)", n, run.Status, err, run.Output, run.Error)
		}
	}
	for items, says := range map[string]string{
		`5`: `each: "5" is no array`, `{"a":1}`: `each: "{\"a\":1}" is no array`, `null`: `each: "null" is no array`,
		"[" + strings.Repeat("1,", flow.MaxItems) + "1]": fmt.Sprintf("each: the array has more than %d elements", flow.MaxItems),
	} {
		v, err := s.Start(ctx, "fan", []byte(`{"items":`+items+`}`))
		must(err)
		if run, err := s.Runs().Get(ctx, v.Run); err != nil || run.Status != Failed || !strings.Contains(run.Error, says) ||
			run.Code != "bad_items" {
			t.Errorf("%.20s: %s, %v, %s: %s", items, run.Status, err, run.Code, run.Error)
		}
	}
}

// sorted returns the fields of a flat object in order.
func sorted(fields string) string {
	all := strings.Split(fields, ",")
	slices.Sort(all)
	return strings.Join(all, ",")
}
