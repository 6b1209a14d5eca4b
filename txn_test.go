package floe_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// handle is a transaction operation that returns a T. R is the package's type for the transaction's
// result.
type handle[T, R any] interface {
	floe.Op
	Result(res R) (T, error)
}

// reading is an operation and a function that reads and checks its result.
type reading struct {
	op    floe.Op
	check func(res *floe.TxnResult) error
}

func reads[T, R any](op handle[T, R], ok func(T) bool) reading {
	return reading{op, func(res *floe.TxnResult) error {
		v, err := op.Result(any(res).(R))
		if err == nil && !ok(v) {
			err = fmt.Errorf("returned %+v", v)
		}
		return err
	}}
}

func done[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equals[T comparable](want T) func(T) bool { return func(v T) bool { return v == want } }

func written(w kv.Written) bool { return w.Revision > 0 }

func counted(want int64) func(kv.Counted) bool {
	return func(c kv.Counted) bool { return c.Value == want && written(c.Written) }
}

// readings returns all operations that have a result, by the name of the function that makes them.
// It prepares db for them.
func readings(t *testing.T, db floe.DB) map[string]reading {
	all := kvReadings(t, db)
	for _, more := range []map[string]reading{queueReadings(t, db), streamReadings(t, db), actionReadings(t, db), workflowReadings(t, db)} {
		maps.Copy(all, more)
	}
	return all
}

func kvReadings(t *testing.T, db floe.DB) map[string]reading {
	s := db.KV("n")
	done[kv.Written](t)(s.Put(t.Context(), "gone", nil))
	done[kv.Written](t)(s.JSONSet(t.Context(), "document", "$.a", []byte("1")))
	return map[string]reading{
		"kv.PutOp":        reads(kv.PutOp("put", nil), written),
		"kv.View.PutOp":   reads(kv.JSON[int](s).PutOp("view", 1), written),
		"kv.DeleteOp":     reads(kv.DeleteOp("gone"), written),
		"kv.JSONSetOp":    reads(kv.JSONSetOp("other document", "$.a", []byte("1")), written),
		"kv.JSONDeleteOp": reads(kv.JSONDeleteOp("document", "$.a"), written),
		"kv.IncrOp":       reads(kv.IncrOp("number", 7), counted(7)),
	}
}

func queueReadings(t *testing.T, db floe.DB) map[string]reading {
	s := db.Queue("n")
	receipt := func(name string) queue.Receipt {
		done[queue.Enqueued](t)(s.Enqueue(t.Context(), name, nil))
		return done[[]queue.Message](t)(s.Dequeue(t.Context(), name))[0].Receipt
	}
	done[queue.Enqueued](t)(s.Enqueue(t.Context(), "filled", []byte("m")))
	done[queue.Enqueued](t)(s.Enqueue(t.Context(), "purged", nil))
	enqueued := func(e queue.Enqueued) bool { return e.Seq == 1 }
	return map[string]reading{
		"queue.EnqueueOp":      reads(queue.EnqueueOp("one", nil), enqueued),
		"queue.View.EnqueueOp": reads(queue.JSON[int](s).EnqueueOp("view", 1), enqueued),
		"queue.EnqueueManyOp": reads(queue.EnqueueManyOp("many", make([]queue.NewMessage, 3)),
			func(all []queue.Enqueued) bool { return len(all) == 3 && all[2].Seq == 3 }),
		"queue.DequeueOp": reads(queue.DequeueOp("filled"),
			func(ms []queue.Message) bool { return len(ms) == 1 && string(ms[0].Payload) == "m" }),
		"queue.ExtendOp": reads(queue.ExtendOp("leased", receipt("leased"), time.Hour),
			func(until time.Time) bool { return time.Until(until) > time.Minute }),
		"queue.ReleaseOp": reads(queue.ReleaseOp("released", receipt("released")), equals[int64](1)),
		"queue.PurgeOp":   reads(queue.PurgeOp("purged"), equals[int64](1)),
	}
}

func streamReadings(t *testing.T, db floe.DB) map[string]reading {
	s := db.Stream("n")
	m := stream.Message{Payload: []byte("m")}
	refs := func(name string) []stream.Ref {
		done[stream.Appended](t)(s.Append(t.Context(), name, m))
		return stream.RefsOf(done[[]stream.Delivery](t)(s.ReadGroup(t.Context(), name, "g", "c")))
	}
	done[stream.Appended](t)(s.Append(t.Context(), "filled", m))
	done[stream.Appended](t)(s.Append(t.Context(), "trimmed", m))
	appended := func(a stream.Appended) bool { return a.ID != stream.ID{} }
	return map[string]reading{
		"stream.AppendOp":      reads(stream.AppendOp("one", m), appended),
		"stream.View.AppendOp": reads(stream.JSON[int](s).AppendOp("view", "", 1), appended),
		"stream.AppendManyOp": reads(stream.AppendManyOp("many", []stream.Message{m, m}),
			func(all []stream.Appended) bool { return len(all) == 2 && appended(all[1]) }),
		"stream.TrimOp": reads(stream.TrimOp("trimmed", stream.MaxLen(0)), equals[int64](1)),
		"stream.ReadGroupOp": reads(stream.ReadGroupOp("filled", "g", "c"),
			func(refs []stream.Ref) bool { return len(refs) == 1 && refs[0].Attempt == 1 }),
		"stream.AckOp":  reads(stream.AckOp("acked", "g", refs("acked")...), equals(1)),
		"stream.NackOp": reads(stream.NackOp("nacked", "g", refs("nacked")), equals(1)),
		"stream.ExtendOp": reads(stream.ExtendOp("extended", "g", refs("extended"), time.Hour),
			func(e stream.Extended) bool { return e.Records == 1 && time.Until(e.Until) > 50*time.Minute }),
	}
}

func actionReadings(t *testing.T, db floe.DB) map[string]reading {
	s := db.Action("n")
	done[int](t)(s.Register(t.Context(), "old"))
	if err := s.Schedules("old").Set(t.Context(), "hourly", action.ScheduleSpec{Every: time.Hour}); err != nil {
		t.Fatal(err)
	}
	invoked := func(i action.Invoked) bool { return i.Run != "" }
	return map[string]reading{
		"action.InvokeOp":   reads(action.InvokeOp("old", nil), invoked),
		"action.RegisterOp": reads(action.RegisterOp("new"), equals(1)),
		"action.TriggerOp":  reads(action.TriggerOp("old", "hourly"), invoked),
	}
}

func workflowReadings(t *testing.T, db floe.DB) map[string]reading {
	s := db.Workflow("n")
	definition := func(name string) []byte {
		return workflow.Definition{Name: name, Start: workflow.Step{
			Do:          workflow.WaitFor{Signal: "end", Timeout: time.Hour},
			Transitions: []workflow.Transition{{On: "success", To: "flo.Completed"}, {On: "rejected", To: "flo.Failed"}},
		}}.YAML()
	}
	done[workflow.Created](t)(s.Create(t.Context(), definition("old")))
	run := func() workflow.RunID { return done[workflow.Started](t)(s.Start(t.Context(), "old", nil)).Run }
	failed := run()
	done[workflow.Status](t)(s.Signal(t.Context(), failed, "end", []byte(`{"outcome":"rejected"}`)))
	return map[string]reading{
		"workflow.StartOp": reads(workflow.StartOp("old", nil),
			func(s workflow.Started) bool { return s.Run != "" && s.Status == workflow.Waiting }),
		"workflow.SignalOp": reads(workflow.SignalOp(run(), "end", nil), equals(workflow.Completed)),
		"workflow.CancelOp": reads(workflow.CancelOp(run(), ""), equals(workflow.Cancelled)),
		"workflow.RetryOp":  reads(workflow.RetryOp(failed), equals(workflow.Waiting)),
		"workflow.CreateOp": reads(workflow.CreateOp(definition("new")), func(c workflow.Created) bool { return c.Name == "new" }),
	}
}

// onNodeAndClient runs f on a node, and on a client of another node.
func onNodeAndClient(t *testing.T, f func(t *testing.T, db floe.DB)) {
	t.Run("node", func(t *testing.T) { f(t, floe.OpenMemory(t)) })
	t.Run("client", func(t *testing.T) {
		node := done[*floe.Node](t)(floe.Open(floe.Config{Listen: "127.0.0.1:0"}))
		t.Cleanup(func() { _ = node.Close() })
		client := done[*floe.Client](t)(floe.Dial(t.Context(), []string{node.Addr().String()}))
		t.Cleanup(func() { _ = client.Close() })
		f(t, client)
	})
}

// TestResult reads the result of each operation that has one, in a transaction that also has
// operations without results.
func TestResult(t *testing.T) {
	onNodeAndClient(t, func(t *testing.T, db floe.DB) {
		all, txn := readings(t, db), db.Txn("n")
		for _, r := range all {
			txn.Do(kv.TouchOp("document", time.Hour), r.op, ts.WriteOp(ts.Point{Measurement: "m", Fields: map[string]float64{"f": 1}}))
		}
		res := done[*floe.TxnResult](t)(txn.Commit(t.Context()))
		for name, r := range all {
			if err := r.check(res); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestResultOfEach: TestResult covers every function and method of the primitives that makes an
// operation with a result.
func TestResultOfEach(t *testing.T) {
	all := readings(t, floe.OpenMemory(t))
	found := 0
	for _, dir := range []string{"kv", "queue", "stream", "ts", "action", "workflow"} {
		files := done[[]string](t)(filepath.Glob(filepath.Join(dir, "*.go")))
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, d := range done[*ast.File](t)(parser.ParseFile(token.NewFileSet(), path, nil, 0)).Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() || !strings.HasSuffix(f.Name.Name, "Op") || f.Type.Results == nil {
					continue
				}
				result, ok := f.Type.Results.List[0].Type.(*ast.IndexExpr)
				if !ok || fmt.Sprint(result.X) != "OpOf" {
					continue
				}
				name := dir + "." + f.Name.Name
				if f.Recv != nil {
					name = dir + ".View." + f.Name.Name
				}
				if found++; all[name].op == nil {
					t.Errorf("%s is not read", name)
				}
			}
		}
	}
	if found != len(all) {
		t.Errorf("found %d functions that make an operation with a result, want %d", found, len(all))
	}
}

// TestResultRefused: an ambiguous or missing result is refused.
func TestResultRefused(t *testing.T) {
	onNodeAndClient(t, func(t *testing.T, db floe.DB) {
		one, twice, other := kv.IncrOp("a", 1), kv.IncrOp("b", 1), kv.IncrOp("c", 1)
		res := done[*floe.TxnResult](t)(db.Txn("n").Do(twice, one, twice).Commit(t.Context()))
		if n, err := one.Result(res); n.Value != 1 || err != nil {
			t.Errorf("Result = %d, %v, want 1", n.Value, err)
		}
		for name, tt := range map[string]struct {
			op   kv.OpOf[kv.Counted]
			res  kv.TxnResult
			want string
		}{
			"not part of it":   {other, res, "the operation is not part of it"},
			"twice":            {twice, res, "operations 0 and 2 are the same value"},
			"no result":        {one, nil, "no result"},
			"failed":           {one, (*floe.TxnResult)(nil), "no result"},
			"zero result":      {one, &floe.TxnResult{}, "not part of it"},
			"zero operation":   {kv.OpOf[kv.Counted]{}, res, "not made by a function of floe"},
			"zero, and failed": {kv.OpOf[kv.Counted]{}, nil, "not made by a function of floe"},
		} {
			n, err := tt.op.Result(tt.res)
			if n != (kv.Counted{}) || !errors.Is(err, floe.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: Result = %v, %v, want ErrInvalid with %q", name, n, err, tt.want)
			}
		}
		if s, err := kv.OpOf[string](one).Result(res); s != "" || !errors.Is(err, floe.ErrInvalid) ||
			!strings.Contains(err.Error(), "returned a kv.Counted, not a string") {
			t.Errorf("Result of another type = %q, %v", s, err)
		}
	})
}

// TestResultOfEachTransaction: an operation has a result in each transaction that contains it.
func TestResultOfEachTransaction(t *testing.T) {
	onNodeAndClient(t, func(t *testing.T, db floe.DB) {
		incr := kv.IncrOp("a", 1)
		txn := db.Txn("n").Do(kv.PutOp("b", nil), incr)
		first := done[*floe.TxnResult](t)(txn.Commit(t.Context()))
		again := done[*floe.TxnResult](t)(txn.Commit(t.Context()))
		other := done[*floe.TxnResult](t)(db.Txn("n").Do(incr).Commit(t.Context()))
		txn.Do(incr) // does not change existing results
		for i, res := range []*floe.TxnResult{first, again, other} {
			if n, err := incr.Result(res); n.Value != int64(i+1) || err != nil {
				t.Errorf("Result of transaction %d = %d, %v, want %d", i, n.Value, err, i+1)
			}
		}
		res, err := db.Txn("n").If(kv.Absent("a")).Do(incr).Commit(t.Context())
		if !errors.Is(err, floe.ErrConflict) {
			t.Errorf("Commit = %v, want ErrConflict", err)
		}
		if n, err := incr.Result(res); n != (kv.Counted{}) || !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("Result of a transaction that was refused = %v, %v, want ErrInvalid", n, err)
		}
	})
}
