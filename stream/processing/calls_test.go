package processing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

func errOf[T any](_ T, err error) error { return err }

// TestRefusals: the inputs that each call refuses, and the error messages.
func TestRefusals(t *testing.T) {
	s, ctx := newRig(t, 3), t.Context()
	if err := engine.NewNamespaces(s.Router()).Create(ctx, "spread", true); err != nil {
		t.Fatal(err)
	}
	id := s.submit(filtered)
	other := engine.StoreOf[processing.Store](s.Router(), "m", 1<<20)
	submit := func(from, to string) error {
		return errOf(s.jobs.Submit(ctx, []byte(strings.NewReplacer("name: big", "name: x", from, to).Replace(filtered))))
	}
	page := func(opts ...processing.ListOption) error { return errOf(s.jobs.Page(ctx, opts...)) }
	savepoint := mustSavepoint(t, s, id)
	const zeros = "00000000000000000000000000"
	none, noSavepoint := id[:len(id)-len(zeros)]+zeros, savepoint[:len(savepoint)-len(zeros)]+zeros
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"no job id":            {errOf(s.jobs.Get(ctx, "x")), processing.ErrInvalid, `processing: "x" is not a job id`},
		"no job":               {errOf(s.jobs.Get(ctx, none)), processing.ErrNotFound, ""},
		"of another namespace": {errOf(other.Get(ctx, id)), processing.ErrNotFound, ""},
		"stop likewise":        {errOf(other.Stop(ctx, id)), processing.ErrNotFound, ""},
		"stop of none":         {errOf(s.jobs.Stop(ctx, none)), processing.ErrNotFound, ""},
		"savepoints likewise":  {errOf(other.Savepoints(id).Page(ctx)), processing.ErrNotFound, ""},
		"no savepoint": {errOf(s.jobs.Savepoints(id).Get(ctx, "x")), processing.ErrInvalid,
			`processing: "x" is not a savepoint id`},
		"savepoint of none": {errOf(s.jobs.Savepoints(none).Get(ctx, savepoint)), processing.ErrNotFound, ""},
		"no savepoint id": {errOf(s.jobs.AwaitSavepoint(ctx, id, "x")), processing.ErrInvalid,
			`processing: "x" is not a savepoint id`},
		"drop of no id":       {s.jobs.Savepoints(id).Delete(ctx, "x"), processing.ErrInvalid, `processing: "x" is not a savepoint id`},
		"savepoint of no job": {errOf(s.jobs.AwaitSavepoint(ctx, none, savepoint)), processing.ErrNotFound, ""},
		"savepoint of no id": {errOf(s.jobs.AwaitSavepoint(ctx, "x", savepoint)), processing.ErrInvalid,
			`processing: "x" is not a job id`},
		"parallelism 0":  {s.jobs.Rescale(ctx, id, 0), processing.ErrInvalid, "processing: parallelism 0 is not in 1-64"},
		"parallelism 1":  {s.jobs.Rescale(ctx, id, 1), nil, ""},
		"parallelism 64": {s.jobs.Rescale(ctx, id, 64), nil, ""},
		"parallelism 65": {s.jobs.Rescale(ctx, id, 65), processing.ErrInvalid, "processing: parallelism 65 is not in 1-64"},
		"parallelism -1": {s.jobs.Rescale(ctx, id, -1), processing.ErrInvalid, "processing: parallelism -1 is not in 1-64"},
		"the last state": {page(processing.InState(processing.Completed)), nil, ""},
		"no state":       {page(processing.InState(processing.Completed + 1)), processing.ErrInvalid, "processing: unknown state 6"},
		"limit 0":        {page(processing.Limit(0)), processing.ErrInvalid, ""},
		"limit 1000":     {page(processing.Limit(1000)), nil, ""},
		"limit 1001":     {page(processing.Limit(1001)), processing.ErrInvalid, ""},
		"a long prefix":  {page(processing.Prefix(strings.Repeat("p", 256))), processing.ErrInvalid, ""},
		"no cursor":      {page(processing.Cursor("!")), processing.ErrInvalid, ""},
		"its own name":   {submit("name: big", "name: big"), nil, ""},
		"another namespace": {submit("kind: Processing", "kind: Processing\nnamespace: m"), processing.ErrInvalid,
			`job "x" is for namespace "m", not "n"`},
		"a system namespace": {submit("kind: Processing", "kind: Processing\nnamespace: _system"), processing.ErrInvalid,
			`job "x": namespace "_system" is a system namespace, which no job can use`},
		"a system sink": {submit("name: large", "name: large, namespace: _system"), processing.ErrInvalid,
			`sink "out": namespace "_system" is a system namespace, which no job can use`},
		"a loop": {submit("name: large", "name: orders"), processing.ErrInvalid,
			`sinks[0] writes to stream "orders", which the job reads: an endless loop`},
		"a loop by name": {submit("name: large", "name: orders, namespace: n"), processing.ErrInvalid,
			`sink "out" writes to stream "orders", which source "orders" reads`},
		"no loop": {submit("name: large", "name: orders, namespace: m"), nil, ""},
		"a loop of errors": {submit("stream: { name: orders }", "stream: { name: "+processing.ErrorStream("x")+" }"),
			processing.ErrInvalid, ""},
		"a sink that is spread": {submit("name: large", "name: large, namespace: spread"), processing.ErrInvalid,
			`sink "out": namespace "spread" is spread over all shards: a job writes only to its own namespace and those in one shard`},
		"savepoints by 0":    {errOf(s.jobs.Savepoints(id).Page(ctx, processing.Limit(0))), processing.ErrInvalid, ""},
		"savepoints by 1000": {errOf(s.jobs.Savepoints(id).Page(ctx, processing.Limit(1000))), nil, ""},
		"savepoints from nowhere": {errOf(s.jobs.Savepoints(id).Page(ctx, processing.Cursor("x"))), processing.ErrInvalid,
			`cursor "x" is not from this listing`},
		"savepoints from one": {errOf(s.jobs.Savepoints(id).Page(ctx, processing.Cursor(string(savepoint)))), nil, ""},
		"restart of no source": {errOf(s.jobs.Plan(ctx, id, processing.RestartSource("x"))), processing.ErrInvalid,
			`processing: the job has no source "x"`},
		"two ways to restart": {errOf(s.jobs.Plan(ctx, id, processing.RestartSource("orders"), processing.FromSavepoint(savepoint))),
			processing.ErrInvalid, "processing: RestartSource and FromSavepoint exclude each other"},
		"no such savepoint":    {errOf(s.jobs.Plan(ctx, id, processing.FromSavepoint(noSavepoint))), processing.ErrNotFound, ""},
		"no such savepoint id": {errOf(s.jobs.Plan(ctx, id, processing.FromSavepoint("x"))), processing.ErrInvalid, ""},
	} {
		if !errors.Is(c.err, c.is) || c.says != "" && !strings.HasSuffix(c.err.Error(), c.says) {
			t.Errorf("%s: %v\nwant %v %s", name, c.err, c.is, c.says)
		}
	}
}

// TestBadIDs: each call rejects malformed ids, ids of a shard that does not exist, of no job, and
// of a job in another namespace.
func TestBadIDs(t *testing.T) {
	s, wide, ctx := newRig(t, 1), newRig(t, 8), t.Context()
	var far processing.JobID // of a node with more shards
	for i := 0; far == ""; i++ {
		of := engine.StoreOf[processing.Store](wide.Router(), fmt.Sprint("n", i), 1<<20)
		made, err := of.Submit(ctx, []byte(filtered))
		if err != nil {
			t.Fatal(err)
		}
		if shard, _ := processing.Lane(made.Job); shard == s.Shards() { // the first that is too high
			far = made.Job
		}
	}
	id := s.submit(filtered)
	savepoint := mustSavepoint(t, s, id)
	const zeros = "00000000000000000000000000"
	none, noSavepoint := id[:len(id)-len(zeros)]+zeros, savepoint[:len(savepoint)-len(zeros)]+zeros
	other := engine.StoreOf[processing.Store](s.Router(), "m", 1<<20)
	for name, call := range map[string]func(*processing.Store, processing.JobID, processing.SavepointID) error{
		"Get": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Get(ctx, id))
		},
		"Stop": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Stop(ctx, id))
		},
		"Cancel": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Cancel(ctx, id))
		},
		"Rescale": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return s.Rescale(ctx, id, 2)
		},
		"Restore": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Restore(ctx, id))
		},
		"Plan": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Plan(ctx, id))
		},
		"Create": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Savepoints(id).Create(ctx))
		},
		"Page": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(s.Savepoints(id).Page(ctx))
		},
		"All": func(s *processing.Store, id processing.JobID, _ processing.SavepointID) error {
			return errOf(engine.Collect(s.Savepoints(id).All(ctx)))
		},
		"Get of a savepoint": func(s *processing.Store, id processing.JobID, savepoint processing.SavepointID) error {
			return errOf(s.Savepoints(id).Get(ctx, savepoint))
		},
		"Delete": func(s *processing.Store, id processing.JobID, savepoint processing.SavepointID) error {
			return s.Savepoints(id).Delete(ctx, savepoint)
		},
		"Await": func(s *processing.Store, id processing.JobID, savepoint processing.SavepointID) error {
			return errOf(s.AwaitSavepoint(ctx, id, savepoint))
		},
		"Plan of a savepoint": func(s *processing.Store, id processing.JobID, savepoint processing.SavepointID) error {
			return errOf(s.Plan(ctx, id, processing.FromSavepoint(savepoint)))
		},
		"Restore of a savepoint": func(s *processing.Store, id processing.JobID, savepoint processing.SavepointID) error {
			return errOf(s.Restore(ctx, id, processing.FromSavepoint(savepoint)))
		},
	} {
		expect := func(what string, err, want error, says string) {
			t.Helper()
			if !errors.Is(err, want) || err.Error() != says {
				t.Errorf("%s, %s: %v, want %v: %s", name, what, err, want, says)
			}
		}
		no := func(id processing.JobID) string { return fmt.Sprintf("job %s not found", id) }
		expect("no id", call(s.jobs, "x", savepoint), processing.ErrInvalid, `processing: "x" is not a job id`)
		expect("a savepoint", call(s.jobs, processing.JobID(savepoint), savepoint), processing.ErrInvalid,
			fmt.Sprintf("processing: %q is not a job id", savepoint))
		expect("a shard that does not exist", call(s.jobs, far, savepoint), processing.ErrNotFound, no(far))
		expect("no job", call(s.jobs, none, savepoint), processing.ErrNotFound, no(none))
		expect("another namespace", call(other, id, savepoint), processing.ErrNotFound, no(id))
	}
	for name, call := range map[string]func(processing.SavepointID) error{
		"Get":    func(sp processing.SavepointID) error { return errOf(s.jobs.Savepoints(id).Get(ctx, sp)) },
		"Delete": func(sp processing.SavepointID) error { return s.jobs.Savepoints(id).Delete(ctx, sp) },
		"Await":  func(sp processing.SavepointID) error { return errOf(s.jobs.AwaitSavepoint(ctx, id, sp)) },
		"Plan": func(sp processing.SavepointID) error {
			return errOf(s.jobs.Plan(ctx, id, processing.FromSavepoint(sp)))
		},
		"Restore": func(sp processing.SavepointID) error {
			return errOf(s.jobs.Restore(ctx, id, processing.FromSavepoint(sp)))
		},
	} {
		if err := call("x"); !errors.Is(err, processing.ErrInvalid) || !strings.Contains(err.Error(), `"x" is not a savepoint id`) {
			t.Errorf("%s of no savepoint id: %v", name, err)
		}
		if err := call(noSavepoint); !errors.Is(err, processing.ErrNotFound) || !strings.Contains(err.Error(), "savepoint") {
			t.Errorf("%s of no savepoint: %v", name, err)
		}
	}
	if ns, err := other.Locate(ctx, id); ns != "n" || err != nil {
		t.Errorf("Locate: %q, %v", ns, err)
	}
	for bad, want := range map[processing.JobID]error{
		"x": processing.ErrInvalid, far: processing.ErrNotFound, none: processing.ErrNotFound,
	} {
		if ns, err := s.jobs.Locate(ctx, bad); ns != "" || !errors.Is(err, want) {
			t.Errorf("Locate of %s: %q, %v, want %v", bad, ns, err, want)
		}
	}
}

func mustSavepoint(t *testing.T, s *rig, id processing.JobID) processing.SavepointID {
	t.Helper()
	sp, err := s.jobs.Savepoints(id).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	return sp
}

// TestListings: pages of any size follow one another without a gap, in a plain and in a spread
// namespace, and filters apply.
func TestListings(t *testing.T) {
	for _, spread := range []bool{false, true} {
		s, ctx := newRig(t, 3), t.Context()
		if err := engine.NewNamespaces(s.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "ab", "a", "ac", "b", "c"} {
			s.submit(strings.Replace(filtered, "name: big", "name: "+name, 1))
			s.Advance(10)
		}
		names := func(opts ...processing.ListOption) (got []string) {
			t.Helper()
			seen := make(map[processing.JobID]bool)
			for j, err := range s.jobs.All(ctx, opts...) {
				if err != nil || seen[j.ID] {
					t.Fatalf("%+v, %v", j, err)
				}
				seen[j.ID] = true
				got = append(got, j.Name)
			}
			return got
		}
		for j, err := range s.jobs.All(ctx, processing.Named("ac")) {
			if status, stopped := s.jobs.Stop(ctx, j.ID); err != nil || stopped != nil || status != processing.Stopped {
				t.Fatalf("Stop: %v, %v, %v", status, err, stopped)
			}
		}
		for limit := 1; limit <= 7; limit++ {
			for want, opt := range map[string]processing.ListOption{
				"[a ab ac b b c]": processing.Prefix(""),
				"[a ab ac]":       processing.Prefix("a"),
				"[b b]":           processing.Named("b"),
				"[a]":             processing.Named("a"),
				"[]":              processing.Named("bb"),
				"[ac]":            processing.InState(processing.Stopped),
				"[a ab b b c]":    processing.InState(processing.Running),
			} {
				if got := fmt.Sprint(names(opt, processing.Limit(limit))); got != want {
					t.Errorf("spread: %t, limit %d: %s, want %s", spread, limit, got, want)
				}
			}
			page, err := s.jobs.Page(ctx, processing.Limit(limit))
			if err != nil || len(page.Items) != min(limit, 6) || (page.Cursor == "") != (limit >= 6) {
				t.Errorf("spread: %t, limit %d: %d jobs, cursor %q, %v", spread, limit, len(page.Items), page.Cursor, err)
			}
		}
	}
}

// TestNames: the names of job states, and the text of definition errors.
func TestNames(t *testing.T) {
	for i, want := range []string{"UNKNOWN", "RUNNING", "STOPPED", "CANCELLED", "FAILED", "COMPLETED", "UNKNOWN"} {
		if got := processing.Status(i).String(); got != want {
			t.Errorf("state %d is %q, want %q", i, got, want)
		}
		for _, name := range []string{want, strings.ToLower(want)} {
			if got, err := processing.ParseStatus(name); want != "UNKNOWN" && (int(got) != i || err != nil) {
				t.Errorf("ParseStatus(%q) = %d, %v", name, got, err)
			}
		}
	}
	_, err := processing.ParseStatus("done")
	if want := `processing: unknown job state "done", expected one of RUNNING, STOPPED, CANCELLED, FAILED, COMPLETED`; !errors.Is(err,
		processing.ErrInvalid) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	e := &processing.DefinitionError{Problems: []processing.Problem{{Line: 1, Message: "odd", Warning: true}, {Line: 2, Message: "a"}}}
	for _, want := range []string{"line 2: a", "line 2: a; line 2: a", "line 2: a; line 2: a; line 2: a",
		"line 2: a; line 2: a; line 2: a; and 1 more"} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
		e.Problems = append(slices.Clone(e.Problems), processing.Problem{Line: 2, Message: "a"})
	}
	for definition, want := range map[string]string{filtered: "", filtered + "namespace: m\n": "m"} {
		if got, err := processing.DefinitionNamespace([]byte(definition)); got != want || err != nil {
			t.Errorf("the definition is for namespace %q, %v; want %q", got, err, want)
		}
	}
	if _, err := processing.DefinitionNamespace([]byte("name: x")); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("the namespace of no definition: %v", err)
	}
}

// TestReaches: a definition reaches into the namespaces that its sinks name.
func TestReaches(t *testing.T) {
	two := filtered +
		"  - name: more\n    stream: { name: large, namespace: m }\n  - name: last\n    stream: { name: other, namespace: k }\n"
	for definition, want := range map[string]string{filtered: "[]", two: "[m k]", "": "[]", "name: x": "[]"} {
		submitted, restored, cut := processing.ReachedBy([]byte(definition))
		if fmt.Sprint(submitted) != want || fmt.Sprint(restored) != want || cut != nil {
			t.Errorf("%s\nreaches %q, restored %q, want %s; cut short %q", definition, submitted, restored, want, cut)
		}
	}
}

// TestWhileRestored: the operations allowed on a job while it is being restored from a savepoint,
// and those refused.
func TestWhileRestored(t *testing.T) {
	s, ctx := newRig(t, 1), t.Context()
	id := s.submit(filtered)
	s.append("orders", amount(200))
	s.run()
	savepoint := mustSavepoint(t, s, id)
	s.append("orders", amount(300))
	s.run()
	stop := func() {
		t.Helper()
		if status, err := s.jobs.Stop(ctx, id); status != processing.Stopped || err != nil {
			t.Fatalf("Stop = %v, %v", status, err)
		}
	}
	restore := func() {
		t.Helper()
		if _, err := s.jobs.Restore(ctx, id, processing.FromSavepoint(savepoint)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	restore()
	says := fmt.Sprintf("job %s is being restored, there is nothing to save", id)
	if _, err := s.jobs.Savepoints(id).Create(ctx); !errors.Is(err, processing.ErrConflict) || err.Error() != says {
		t.Errorf("Savepoint: %v, want %s", err, says)
	}
	says = fmt.Sprintf("job %s is being restored from the savepoint", id)
	if err := s.jobs.Savepoints(id).Delete(ctx, savepoint); !errors.Is(err, processing.ErrConflict) || err.Error() != says {
		t.Errorf("DropSavepoint: %v, want %s", err, says)
	}
	stop() // and the restored state is dropped
	s.run()
	s.Verify()
	s.want("large", amount(200)+" "+amount(300))
	restore()
	s.run()
	s.run()
	s.want("large", amount(200)+" "+amount(300)+" "+amount(300))
	stop()
	ended := s.job(id)
	s.Advance(1000)
	for range 2 {
		if status, err := s.jobs.Cancel(ctx, id); status != processing.Cancelled || err != nil {
			t.Fatalf("Cancel = %v, %v", status, err)
		}
	}
	if j := s.job(id); !j.EndedAt.Equal(ended.EndedAt) || j.EndedAt.IsZero() {
		t.Errorf("it has ended at %v, want %v", j.EndedAt, ended.EndedAt)
	}
	says = fmt.Sprintf("job %s is CANCELLED, there is nothing to save", id)
	if _, err := s.jobs.Savepoints(id).Create(ctx); !errors.Is(err, processing.ErrConflict) || err.Error() != says {
		t.Errorf("Savepoint: %v, want %s", err, says)
	}
	if all, err := engine.Collect(s.jobs.Savepoints(id).All(ctx)); err != nil || len(all) != 0 {
		t.Errorf("it has savepoints %v, %v", all, err)
	}
}
