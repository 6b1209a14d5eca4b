package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// newStores returns the stores of a plain and of a spread namespace, and their rig.
func newStores(t *testing.T) (r *machinetest.Rig, plain, spread *Store) {
	t.Helper()
	r = machinetest.New(t, 3, table())
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "s", true); err != nil {
		t.Fatal(err)
	}
	return r, engine.StoreOf[Store](r.Router(), "n", 1<<20), engine.StoreOf[Store](r.Router(), "s", 1<<20)
}

// TestRefusals: the errors of each refused call.
func TestRefusals(t *testing.T) {
	_, s, spread := newStores(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "off", "gone"} {
		_, err := s.Register(ctx, name)
		must(err)
	}
	run := func(name string, end func(RunID) error) RunID {
		t.Helper()
		i, err := s.Invoke(ctx, name, nil)
		must(err)
		tasks, err := s.Await(ctx, "w", []string{name})
		must(err)
		if len(tasks) != 1 {
			t.Fatalf("%d tasks", len(tasks))
		}
		must(end(i.Run))
		return i.Run
	}
	fail := func(id RunID) error { return s.Fail(ctx, id, "w", "no") }
	completed := run("a", func(id RunID) error { return s.Complete(ctx, id, "w", nil) })
	held := run("a", func(id RunID) error { return s.Cancel(ctx, id, "") })
	running := run("a", func(RunID) error { return nil })
	off, gone := run("off", fail), run("gone", fail)
	must(s.Disable(ctx, "off"))
	must(s.Delete(ctx, "gone"))
	_, err := spread.Register(ctx, "a")
	must(err)
	page := func(opts ...RunOption) error {
		_, err := s.Runs().Page(ctx, append([]RunOption{Of("a")}, opts...)...)
		return err
	}
	with := func(n int) (opts []RunOption) {
		for range n {
			opts = append(opts, Has(AttributeSource, "api"))
		}
		return opts
	}
	await := func(worker string, opts ...AwaitOption) error {
		_, err := s.Await(ctx, worker, []string{"a"}, opts...)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"no action":         {errOf(s.Get(ctx, "none")), ErrNotFound, `action "none" not found`},
		"no name":           {errOf(s.Get(ctx, "")), ErrInvalid, ""},
		"runs of no action": {errOf(s.Runs().Page(ctx, Of("none"))), ErrNotFound, `action "none" not found`},
		"runs of no name":   {errOf(s.Runs().Page(ctx, Of(""))), ErrInvalid, ""},
		"no state":          {page(InState(TimedOut + 1)), ErrInvalid, "action: no runs are in state 7"},
		"state 0":           {page(InState(0)), ErrInvalid, "action: no runs are in state 0"},
		"the last state":    {page(InState(TimedOut)), nil, ""},
		"the first state":   {page(InState(Pending)), nil, ""},
		"no attribute": {page(Has("size", "1")), ErrInvalid,
			`action: unknown attribute "size" of runs, expected one of source, concurrency_key, idempotency_key, worker, outcome, code or label.<name>`},
		"no label": {page(Has(Label(""), "1")), ErrInvalid,
			`action: unknown attribute "label." of runs, expected one of source, concurrency_key, idempotency_key, worker, outcome, code or label.<name>`},
		"16 attributes": {page(with(16)...), nil, ""},
		"17 attributes": {page(with(17)...), ErrInvalid, "action: 17 attributes of a listing exceed 16"},
		"limit 0":       {page(Limit(0)), ErrInvalid, ""},
		"no register option": {errOf(s.Register(ctx, "a", AttemptOption{})), ErrInvalid,
			"action: an option that no function of the package made"},
		"no invoke option": {errOf(s.Invoke(ctx, "a", nil, AttemptOption{})), ErrInvalid,
			"action: an option that no function of the package made"},
		"no cursor":         {page(Cursor("x")), ErrInvalid, `cursor "x" is not from this listing`},
		"an id as a cursor": {page(Cursor(string(completed))), nil, ""},
		"of a spread namespace": {errOf(spread.Runs().Page(ctx, Of("a"), Cursor(string(completed)))), ErrInvalid,
			fmt.Sprintf("cursor %q is not from this listing", completed)},
		"no id":  {errOf(s.Runs().Get(ctx, "x")), ErrInvalid, ""},
		"no run": {errOf(spread.Runs().Get(ctx, completed)), ErrNotFound, ""},
		"retry of one that is completed": {s.Retry(ctx, completed), ErrConflict,
			fmt.Sprintf("run %s is completed: only failed, timed-out or cancelled runs can be retried", completed)},
		"retry of one that runs": {s.Retry(ctx, running), ErrConflict,
			fmt.Sprintf("run %s is running: only failed, timed-out or cancelled runs can be retried", running)},
		"retry of one that is held": {s.Retry(ctx, held), ErrConflict,
			fmt.Sprintf("run %s is being cancelled: its worker has not confirmed yet", held)},
		"retry of a disabled one":  {s.Retry(ctx, off), ErrConflict, `action "off" is disabled`},
		"retry of a deleted one":   {s.Retry(ctx, gone), ErrNotFound, ""},
		"RunNow of one that runs":  {s.RunNow(ctx, running), ErrConflict, fmt.Sprintf("run %s does not wait: it is running", running)},
		"invoke of a disabled one": {errOf(s.Invoke(ctx, "off", nil)), ErrConflict, `action "off" is disabled`},
		"complete with a code": {s.Complete(ctx, running, "w", nil, ErrorCode("c")), ErrInvalid,
			"action: an option of Fail was given to Complete, or vice versa"},
		"complete to retry": {s.Complete(ctx, running, "w", nil, Retry()), ErrInvalid,
			"action: an option of Fail was given to Complete, or vice versa"},
		"fail with an outcome": {s.Fail(ctx, running, "w", "no", OutcomeName("o")), ErrInvalid,
			"action: an option of Fail was given to Complete, or vice versa"},
		"no UTF-8": {s.Complete(ctx, running, "w", nil, OutcomeName("\xff")), ErrInvalid,
			`action: outcome "\xff" or code "" is not UTF-8`},
		"another attempt":       {s.Complete(ctx, running, "w", nil, OfAttempt(2)), ErrConflict, ""},
		"another worker":        {s.Complete(ctx, running, "v", nil), ErrConflict, ""},
		"finish of no task":     {s.Finish(ctx, "w", nil, nil, nil), ErrInvalid, "action: finish: no task"},
		"complete of no id":     {s.Complete(ctx, "x", "w", nil), ErrInvalid, ""},
		"complete with nil":     {s.Complete(ctx, running, "w", nil, nil), ErrInvalid, ""},
		"schedule of no name":   {errOf(s.Schedules("a").Get(ctx, "")), ErrInvalid, ""},
		"no schedule":           {errOf(s.Schedules("a").Get(ctx, "s")), ErrNotFound, ""},
		"touch of no run":       {errOf(s.Extend(ctx, "x", "w", time.Minute)), ErrInvalid, ""},
		"await of no worker":    {await(""), ErrInvalid, ""},
		"await none":            {await("w", Max(0)), ErrInvalid, ""},
		"deregister of no id":   {s.Deregister(ctx, ""), ErrInvalid, ""},
		"deregister of no one":  {s.Deregister(ctx, "nobody"), ErrNotFound, ""},
		"deregister of another": {s.Deregister(ctx, "w"), nil, ""}, // not registered, but has runs
		"no status": {errOf(ParseStatus("done")), ErrInvalid,
			`action: unknown run state "done", expected pending, running, completed, failed, cancelled or timed_out`},
	} {
		if !errors.Is(c.err, c.is) || c.says != "" && c.err.Error() != c.says {
			t.Errorf("%s: %v\nwant %v %s", name, c.err, c.is, c.says)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestStates: names of states, and the states that they denote.
func TestStates(t *testing.T) {
	for s, want := range []string{"unknown", "pending", "running", "completed", "failed", "cancelled", "timed_out", "unknown"} {
		status := Status(s)
		if got := status.String(); got != want || status.Final() != (s >= 3 && s <= 6) {
			t.Errorf("state %d is %q, final: %t", s, got, status.Final())
		}
		if got, err := ParseStatus(want); want != "unknown" && (got != status || err != nil) {
			t.Errorf("ParseStatus(%q) = %d, %v", want, got, err)
		}
	}
	begun := time.UnixMilli(1000)
	for _, c := range []struct {
		run  Run
		want time.Duration
	}{
		{Run{}, 0}, {Run{StartedAt: begun}, 0}, {Run{CompletedAt: begun}, 0}, {Run{StartedAt: begun, CompletedAt: begun.Add(7)}, 7},
	} {
		if got := c.run.Duration(); got != c.want {
			t.Errorf("%+v took %v, want %v", c.run, got, c.want)
		}
	}
	if Permanent(nil) != nil || Code("c", nil) != nil {
		t.Error("no error is marked")
	}
	if got := Snooze(time.Second).Error(); got != "snoozed for 1s" {
		t.Errorf("a snooze is %q", got)
	}
}

// TestListings: pages follow one another without a gap, whatever their size, in plain and spread
// namespaces, and filters apply.
func TestListings(t *testing.T) {
	r, plain, spread := newStores(t)
	ctx := t.Context()
	for _, s := range []*Store{plain, spread} {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		names := []string{"b1", "a1", "a3", "a2", "c", "a4", "a5"}
		for _, name := range names {
			_, err := s.Register(ctx, name)
			must(err)
		}
		var runs []RunID // newest first
		for i := range 9 {
			r.Advance(10)
			v, err := s.Invoke(ctx, "a1", nil, ConcurrencyKey(fmt.Sprint("k", i%3)), IdempotencyKey(fmt.Sprint("i", i)),
				Labels(map[string]string{"n": fmt.Sprint(i)}))
			must(err)
			runs = slices.Insert(runs, 0, v.Run)
		}
		must(s.Cancel(ctx, runs[4], "no"))
		for limit := 1; limit <= len(runs)+1; limit++ {
			var got, want []string
			for cursor, more := "", true; more; more = cursor != "" {
				page, err := s.Page(ctx, Limit(limit), Prefix("a"), Cursor(cursor))
				must(err)
				if len(page.Items) > limit || len(page.Items) == 0 {
					t.Fatalf("a page of at most %d has %d actions", limit, len(page.Items))
				}
				for _, i := range page.Items {
					got = append(got, i.Name)
				}
				cursor = page.Cursor
			}
			for i, err := range s.All(ctx, Limit(limit)) {
				must(err)
				want = append(want, i.Name)
			}
			if strings.Join(want, " ") != "a1 a2 a3 a4 a5 b1 c" || strings.Join(got, " ") != "a1 a2 a3 a4 a5" {
				t.Errorf("%s, limit %d: %q, and %q with a prefix", s.Namespace(), limit, want, got)
			}
			var ids []RunID
			for cursor, more := "", true; more; more = cursor != "" {
				page, err := s.Runs().Page(ctx, Of("a1"), Limit(limit), Cursor(cursor))
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
		at := func(i int) time.Time { // when runs[i] was invoked
			run, err := s.Runs().Get(ctx, runs[i])
			must(err)
			return run.CreatedAt
		}
		for name, c := range map[string]struct {
			opts []RunOption
			want []RunID
		}{
			"a state":            {[]RunOption{InState(Cancelled)}, runs[4:5]},
			"another state":      {[]RunOption{InState(Running)}, nil},
			"a source":           {[]RunOption{Has(AttributeSource, "api")}, runs},
			"a concurrency key":  {[]RunOption{Has(AttributeConcurrencyKey, "k0")}, []RunID{runs[2], runs[5], runs[8]}},
			"an idempotency key": {[]RunOption{Has(AttributeIdempotencyKey, "i8")}, runs[:1]},
			"an outcome":         {[]RunOption{Has(AttributeOutcome, "cancelled")}, runs[4:5]},
			"a code":             {[]RunOption{Has(AttributeCode, "")}, runs},
			"another code":       {[]RunOption{Has(AttributeCode, "x")}, nil},
			"a worker":           {[]RunOption{Has(AttributeWorker, "w")}, nil},
			"a label":            {[]RunOption{Has(Label("n"), "1")}, runs[7:8]},
			"another label":      {[]RunOption{Has(Label("m"), "")}, nil},
			"two attributes":     {[]RunOption{Has(Label("n"), "1"), Has(AttributeConcurrencyKey, "k0")}, nil},
			"since":              {[]RunOption{InvokedBetween(at(2), time.Time{})}, runs[:3]},
			"until":              {[]RunOption{InvokedBetween(time.Time{}, at(2))}, runs[3:]},
			"between":            {[]RunOption{InvokedBetween(at(4), at(2))}, runs[3:5]},
			"before all":         {[]RunOption{InvokedBetween(time.Time{}, time.UnixMilli(0))}, nil},
			"within a ms":        {[]RunOption{InvokedBetween(at(4).Add(1), at(4).Add(1))}, runs[4:5]},
		} {
			var got []RunID
			for run, err := range s.Runs().All(ctx, append([]RunOption{Of("a1")}, append(c.opts, Limit(2))...)...) {
				must(err)
				got = append(got, run.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %q, want %q", s.Namespace(), name, got, c.want)
			}
		}
		for name, ok := range map[string]bool{"a1": true, "none": false, "": false} {
			if _, err := s.Runs().Page(ctx, Of(name)); (err == nil) != ok {
				t.Errorf("runs of %q: %v", name, err)
			}
		}
	}
}

// TestOps: operations in a transaction have the same effect as the calls.
func TestOps(t *testing.T) {
	r, s, _ := newStores(t)
	ctx := t.Context()
	do := func(want error, ops ...engine.Operation) {
		t.Helper()
		txn := r.Txn("n")
		for _, op := range ops {
			txn.Do(op)
		}
		if _, err := txn.Commit(ctx); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	state := func(enabled bool, c RunCounts) {
		t.Helper()
		i, err := s.Get(ctx, "a")
		if err != nil || i.Enabled != enabled || i.Runs != c {
			t.Errorf("enabled: %t, %+v, %v; want %t, %+v", i.Enabled, i.Runs, err, enabled, c)
		}
	}
	do(nil, RegisterOp("a", MaxAttempts(1)), InvokeOp("a", nil, Delay(time.Hour)))
	state(true, RunCounts{Total: 1, Pending: 1})
	var id RunID
	for run := range s.Runs().All(ctx, Of("a")) {
		id = run.ID
	}
	do(nil, DisableOp("a"))
	state(false, RunCounts{Total: 1, Pending: 1})
	do(nil, EnableOp("a"), RunNowOp(id))
	state(true, RunCounts{Total: 1, Pending: 1})
	if run, err := s.Runs().Get(ctx, id); err != nil || run.AvailableAt.UnixMilli() != r.Now() {
		t.Errorf("it can be begun at %v, %v", run.AvailableAt, err)
	}
	do(nil, CancelOp(id, "why"))
	state(true, RunCounts{Total: 1, Cancelled: 1})
	do(nil, RetryOp(id))
	state(true, RunCounts{Total: 1, Pending: 1})
	do(ErrConflict, DeleteOp("a"))
	do(nil, DeleteOp("a", Force()))
	if _, err := s.Get(ctx, "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted action: %v", err)
	}
}

// TestRetriedCounts: a retried run no longer counts under its previous state.
func TestRetriedCounts(t *testing.T) {
	r, s, _ := newStores(t)
	ctx := t.Context()
	if _, err := s.Register(ctx, "a", MaxAttempts(1), Timeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end   func(id RunID) error
		ended RunCounts
	}{
		"failed":    {func(id RunID) error { return s.Fail(ctx, id, "w", "no") }, RunCounts{Failed: 1}},
		"timed out": {func(id RunID) error { r.Advance(time.Minute.Milliseconds()); return nil }, RunCounts{TimedOut: 1}},
		"cancelled": {func(id RunID) error {
			return errors.Join(s.Cancel(ctx, id, ""), machinetest.Except(s.Fail(ctx, id, "w", "over"), ErrConflict))
		}, RunCounts{Cancelled: 1}},
	} {
		counts := func() (c RunCounts) {
			t.Helper()
			i, err := s.Get(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			return i.Runs
		}
		before := counts()
		i, err := s.Invoke(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tasks, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(tasks) != 1 {
			t.Fatalf("Await = %v, %v", tasks, err)
		}
		if err := c.end(i.Run); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := before
		want.Total++
		want.Failed, want.TimedOut, want.Cancelled = want.Failed+c.ended.Failed, want.TimedOut+c.ended.TimedOut,
			want.Cancelled+c.ended.Cancelled
		if got := counts(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if err := s.Retry(ctx, i.Run); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want = before
		want.Total, want.Pending = want.Total+1, want.Pending+1
		if got := counts(); got != want {
			t.Errorf("%s, retried: %+v, want %+v", name, got, want)
		}
		if tasks, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(tasks) != 1 || s.Complete(ctx, i.Run, "w", nil) != nil {
			t.Fatalf("Await = %v, %v", tasks, err)
		}
	}
}

// TestSettle: on a full disk, ends of attempts are accepted with small outputs, and no runs are
// handed out.
func TestSettle(t *testing.T) {
	ref := protocol.Ref{Run: 5, Tag: 1}
	ended := func(n int) []end {
		return []end{{ref: ref, how: completed, output: []byte(`"` + strings.Repeat("x", n-2) + `"`)}}
	}
	wants := []want{{worker: "w", slots: 1}}
	for name, c := range map[string]struct {
		c     workBody
		sends bool
		says  string // error of the command's own check
	}{
		"an end":         {workBody{session: 1, ends: ended(2)}, true, ""},
		"a small output": {workBody{session: 1, ends: ended(maxSettled)}, true, ""},
		"a large output": {workBody{session: 1, ends: ended(maxSettled + 1)}, false,
			"action: an output of 1025 bytes on a full disk: the limit is 1024"},
		"an end and wants": {workBody{session: 1, ends: ended(2), wants: wants}, true, "action: the disk is full: no runs can be taken"},
		"wants":            {workBody{session: 1, wants: wants}, false, "action: the disk is full: no runs can be taken"},
		"nothing":          {workBody{session: 1}, false, "action: the request ends no run and takes none"},
		"by itself":        {workBody{self: "w", ends: ended(2), listed: true}, true, ""},
	} {
		said := ""
		if err := c.c.checkSettle(); err != nil {
			said = err.Error()
		}
		op := command(kindWork, "route", body(takeRuns, "", c.c))
		settle, ok := settleOp(op, &c.c)
		if ok != c.sends || said != c.says {
			t.Errorf("%s: sent: %t, %q; want %t, %q", name, ok, said, c.sends, c.says)
		}
		if !ok {
			if settle.Command.Kind != kindWork {
				t.Errorf("%s: another command, of kind %d", name, settle.Command.Kind)
			}
			continue
		}
		got, err := read(takeRuns, settle.Command.Body)
		if err != nil || settle.Command.Kind != kindSettle || settle.Route != "route" || len(got.wants) != 0 || len(got.ends) != 1 ||
			got.ends[0].ref != ref ||
			got.session != c.c.session || got.self != c.c.self || got.listed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		settle.Command.Namespace = "n"
		if err := admit(settle.Command, 1<<20); err != nil {
			t.Errorf("%s: not admitted: %v", name, err)
		}
	}
}

// TestRunsOfOthers: a run is known only in its namespace. IDs of shards that do not exist belong to
// no run.
func TestRunsOfOthers(t *testing.T) {
	r, s, spread := newStores(t)
	ctx := t.Context()
	if _, err := s.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	i, err := s.Invoke(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := i.Run.parse()
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere *Store
	for n := 0; ; n++ { // a namespace of the same shard
		name := fmt.Sprint("m", n)
		if engine.HomeShard(name, r.Shards()) == p.shard {
			elsewhere = engine.StoreOf[Store](r.Router(), name, 1<<20)
			break
		}
	}
	far := runLocation{shard: 99, Ref: p.Ref}.id()
	for range 2 { // without the namespace, and with an action of it
		for what, err := range map[string]error{
			"Get":                errOf(elsewhere.Runs().Get(ctx, i.Run)),
			"Cancel":             elsewhere.Cancel(ctx, i.Run, ""),
			"Retry":              elsewhere.Retry(ctx, i.Run),
			"Get of no shard":    errOf(spread.Runs().Get(ctx, far)),
			"Cancel of no shard": spread.Cancel(ctx, far, ""),
		} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v, want ErrNotFound", what, err)
			}
		}
		if _, err := elsewhere.Register(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cancel(ctx, i.Run, ""); err != nil {
		t.Errorf("Cancel = %v", err)
	}
}

// TestDeregisterUnregistered: a polling worker that never registered loses its runs, whose attempts
// do not count. One without runs is not found.
func TestDeregisterUnregistered(t *testing.T) {
	_, plain, spread := newStores(t)
	ctx := t.Context()
	for _, s := range []*Store{plain, spread} {
		if _, err := s.Register(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		i, err := s.Invoke(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tasks, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(tasks) != 1 {
			t.Fatalf("Await = %+v, %v", tasks, err)
		}
		if err := s.Deregister(ctx, "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Deregister of an unknown worker = %v", err)
		}
		if err := s.Deregister(ctx, "w"); err != nil {
			t.Errorf("Deregister = %v", err)
		}
		if run, err := s.Runs().Get(ctx, i.Run); err != nil || run.Status != Pending || run.Attempt != 0 {
			t.Errorf("then the run is %+v, %v", run, err)
		}
	}
}

// readyDoor is a rig's door that answers whether runs are ready. The shards after the first answer
// when the wait ends.
type readyDoor struct {
	*machinetest.Rig
	answers []error
}

func (d *readyDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if _, ok := q.(*readyQuery); !ok {
		return d.Rig.Query(ctx, shard, q)
	}
	if shard > 0 {
		<-ctx.Done()
	}
	return d.answers[shard]
}

// TestFirstReady: of the answers of several shards, the first one counts, unless another has a run
// or fails.
func TestFirstReady(t *testing.T) {
	ended, failed := context.Canceled, engine.Errorf(ErrConflict, "the worker drains")
	for _, c := range []struct {
		answers []error
		shard   engine.ShardID
		err     error
	}{
		{[]error{nil, ended, ended}, 0, nil},
		{[]error{nil, nil, ended}, 0, nil},
		{[]error{nil, context.DeadlineExceeded, failed}, 0, failed},
		{[]error{ended, ended, nil}, 2, nil},
		{[]error{context.DeadlineExceeded, nil, ended}, 1, nil},
		{[]error{ended, ended, ended}, 0, ended},
		{[]error{ended, ended, failed}, 0, ended},
		{[]error{failed, nil, ended}, 0, failed},
	} {
		d := &readyDoor{machinetest.New(t, 3, table()), c.answers}
		s := engine.StoreOf[Store](engine.NewRouter(d), "n", 1<<20)
		shard, err := s.awaitReady(t.Context(), []engine.ShardID{0, 1, 2}, &workBody{self: "w", group: group{names: []string{"a"}}})
		if shard != c.shard || err != c.err {
			t.Errorf("after %v: shard %d, %v, want %d, %v", c.answers, shard, err, c.shard, c.err)
		}
	}
}
