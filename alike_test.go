package floe_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// exported lists, by package directory, the functions that make arguments. TestAlikeIsComplete
// checks that the list is complete.
var exported = map[string][]any{
	".": {floe.Stale, floe.Spread, floe.Prefix, floe.Limit, floe.Cursor, floe.KeyName, floe.ForNamespaces, floe.KeyExpires, floe.KeepKey},
	"kv": {
		kv.Absent, kv.Present, kv.RevisionIs, kv.Max, kv.Min, kv.After, kv.Cursor, kv.Limit, kv.Prefix, kv.LockOf, kv.DeleteOp, kv.IncrOp,
		kv.JSONDeleteOp,
		kv.JSONSetOp, kv.PersistOp, kv.PutOp, kv.TouchOp, kv.IfAbsent, kv.IfPresent, kv.KeepTTL, kv.IfRevision, kv.TTL, kv.NoValues,
		kv.FromRevision, kv.Progress,
	},
	"stream": {
		stream.DeadLetters, stream.Permanent, stream.MaxAge, stream.Dedup, stream.IfLastID, stream.LastIDIs, stream.AckTimeout,
		stream.Backoff, stream.MaxAttempts,
		stream.InMode, stream.Concurrency, stream.Consumer, stream.Grace, stream.OnError, stream.Partitions, stream.Cursor, stream.Force,
		stream.ParseID,
		stream.MaxLen, stream.MaxBytes, stream.Limit, stream.Prefix, stream.ParseMode, stream.Delay, stream.Reason, stream.ToDLQ,
		stream.FromEnd, stream.NoAck, stream.AckOp,
		stream.AppendManyOp, stream.AppendOp, stream.ConfigureGroupOp, stream.CreateGroupOp, stream.CreateOp, stream.DeleteGroupOp,
		stream.DeleteOp, stream.ExtendOp, stream.LeaveOp,
		stream.NackOp, stream.ReadGroupOp, stream.SeekOp, stream.SetRetentionOp, stream.TrimOp, stream.Partition, stream.Tail, stream.Until,
		stream.UntilTime,
		stream.RefsOf, stream.After, stream.From, stream.FromBeginning, stream.FromTime, stream.Before, stream.DryRun, stream.Wait,
	},
	"queue": {
		queue.Permanent, queue.Held, queue.Concurrency, queue.Grace, queue.OnError, queue.Contains, queue.Delay, queue.Max, queue.Wait,
		queue.DedupKey,
		queue.Headers, queue.MaxAttempts, queue.Priority, queue.Lease, queue.Prefix, queue.InState, queue.Reason, queue.ToDLQ, queue.AckOp,
		queue.ConfigureOp,
		queue.DeleteDeadOp, queue.DeleteMessageOp, queue.DeleteOp, queue.DequeueOp, queue.EnqueueManyOp, queue.EnqueueOp, queue.ExtendOp,
		queue.NackOp, queue.PauseOp, queue.PurgeOp,
		queue.ReleaseOp, queue.RequeueOp, queue.ResumeOp, queue.Cursor, queue.Limit, queue.NoPayload,
	},
	"ts": {
		ts.Matching, ts.Cursor, ts.Limit, ts.Prefix, ts.Tags, ts.DeleteMeasurementOp, ts.SetRetentionOp, ts.WriteOp, ts.ParsePrecision,
		ts.Between, ts.Tags,
	},
	"floql": {floql.NewFilter, floql.ParseFilters, floql.Parse, floql.Eval, floql.Stages},
	"action": {
		action.Code, action.Outcome, action.Permanent, action.Snooze, action.Max, action.Wait, action.ParseCatchUp, action.Force,
		action.OfAttempt, action.OfDelivery, action.Retry,
		action.ErrorCode, action.OutcomeName, action.Delay, action.IdempotencyKey, action.Labels, action.Prefix, action.CancelOp,
		action.DeleteOp,
		action.DeleteScheduleOp, action.DisableOp, action.EnableOp, action.InvokeOp, action.PauseScheduleOp, action.RegisterOp,
		action.ResumeScheduleOp,
		action.SetScheduleOp, action.TriggerOp, action.ParseOverlap, action.Cursor, action.Limit, action.Backoff, action.Description,
		action.MaxAttempts,
		action.MaxRunning, action.MaxRunningPerKey, action.Owner, action.RateLimit, action.Retain, action.Timeout, action.InState,
		action.ConcurrencyKey,
		action.Of, action.Priority, action.ParseStatus, action.TaskOf, action.Assigned, action.HandlersOf, action.OfType, action.Expire,
		action.CompleteOp,
		action.FailOp, action.Held,
		action.RetryOp, action.RunNowOp, action.Has, action.InvokedBetween, action.Label,
	},
	"workflow": {
		workflow.Force, workflow.Prefix, workflow.CancelOp, workflow.DefinitionNamespace, workflow.CreateOp, workflow.DeleteOp,
		workflow.DisableOp, workflow.EnableOp,
		workflow.RemoveVersionOp, workflow.SetDefaultOp,
		workflow.RetryOp, workflow.SignalOp, workflow.StartOp, workflow.Cursor, workflow.Limit, workflow.Validate,
		workflow.FromStep, workflow.ReplaceInput,
		workflow.Active, workflow.AttributeValue, workflow.InState, workflow.Of, workflow.StartedBetween, workflow.Has,
		workflow.IdempotencyKey, workflow.Version, workflow.UseID,
		workflow.DefinitionNamespace, workflow.ParseStatus,
	},
	"stream/processing": {
		processing.DefinitionNamespace, processing.ErrorStream, processing.Cursor, processing.InState, processing.Limit, processing.Named,
		processing.Prefix,
		processing.Validate, processing.Test, processing.DropState, processing.FromSavepoint, processing.RestartSource,
		processing.ReplaceDefinition, processing.ParseStatus, processing.Records,
		processing.Session, processing.Sliding, processing.Tumbling,
	},
}

// without lists exported functions that make no argument of a store call.
var without = []string{"Open", "OpenContext", "OpenMemory", "Dial", "Verify", "TLS", "APIKey"}

// TestAlikeIsComplete: every exported option and operation takes part in TestNodeAndClientAlike.
func TestAlikeIsComplete(t *testing.T) {
	for dir, funcs := range exported {
		var have []string
		for _, f := range funcs {
			name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
			have = append(have, name[strings.LastIndex(name, ".")+1:])
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.TypeParams != nil ||
					dir == "." && slices.Contains(without, f.Name.Name) {
					continue
				}
				if !slices.Contains(have, f.Name.Name) {
					t.Errorf("package %s: %s is not listed", dir, f.Name.Name)
				}
			}
		}
	}
}

// arg makes a new argument for each side.
type arg struct {
	name string
	make func() reflect.Value
	bad  bool // refused with ErrInvalid: a nil function or option
}

func constant(v any) arg {
	name := fmt.Sprintf("%.40q", fmt.Sprintf("%#v", v))
	return arg{name: name, make: func() reflect.Value { return reflect.ValueOf(v) }}
}

var (
	aContext = reflect.TypeFor[context.Context]()
	anError  = reflect.TypeFor[error]()
	longText = strings.Repeat("long", 75_000)
)

// values returns arguments of a type: a plain one first, then extremes.
func values(t reflect.Type, depth int) (all []arg) {
	add := func(vs ...any) {
		for _, v := range vs {
			v := v
			all = append(all, arg{name: fmt.Sprintf("%T(%.40q)", v, fmt.Sprint(v)),
				make: func() reflect.Value { return reflect.ValueOf(v).Convert(t) }})
		}
	}
	zero := arg{name: fmt.Sprintf("zero %v", t), make: func() reflect.Value { return reflect.Zero(t) }}
	switch t {
	case aContext:
		return []arg{{name: "ctx", make: func() reflect.Value { return reflect.ValueOf(context.Background()) }}}
	case reflect.TypeFor[time.Time]():
		add(time.UnixMilli(1_700_000_000_000), time.Time{}, time.Unix(0, 0), time.Unix(-1, 0), time.Unix(math.MaxInt64/4, 0),
			time.Unix(math.MinInt64/4, 0), time.Unix(math.MaxInt64, 999_999_999))
		return all
	case reflect.TypeFor[time.Duration]():
		add(time.Hour, time.Duration(0), time.Duration(-1), time.Duration(1), time.Duration(math.MaxInt64), time.Duration(math.MinInt64),
			101*365*24*time.Hour)
		return all
	case reflect.TypeFor[io.Reader]():
		return []arg{{name: "a line", make: func() reflect.Value { return reflect.ValueOf(strings.NewReader("x,a=b v=1\n")) }}, zero}
	case anError:
		return []arg{constant(errors.New("x")), zero}
	}
	switch t.Kind() {
	case reflect.Bool:
		add(true, false)
	case reflect.Int, reflect.Int64:
		add(1, 0, -1, 1000, 1001, math.MaxInt, math.MinInt)
	case reflect.Int8, reflect.Int16, reflect.Int32:
		add(1, 0, -1, 7, 127)
	case reflect.Uint, reflect.Uint64:
		add(uint64(1), uint64(0), uint64(1001), uint64(math.MaxInt64)+1, uint64(math.MaxUint64))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		add(1, 0, 7, 255)
	case reflect.Float32, reflect.Float64:
		add(1.0, 0.0, -1.0, math.Inf(1), math.NaN())
	case reflect.String:
		add("x", "", "y", strings.Repeat("n", 255), strings.Repeat("n", 256), "a\x00b", "\xff", "_system", longText)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			add([]byte(`{"a":1}`), []byte("\xff"), []byte(longText))
			return append(all, zero, arg{name: "empty", make: func() reflect.Value { return reflect.MakeSlice(t, 0, 0) }})
		}
		for _, e := range values(t.Elem(), depth+1) {
			all = append(all, arg{name: "[" + e.name + "]",
				make: func() reflect.Value { return reflect.Append(reflect.Zero(t), fit(e.make(), t.Elem())) }})
		}
		if len(all) > 0 {
			e := values(t.Elem(), depth+1)[0]
			all = append(all, arg{name: "1,001 of " + e.name, make: func() reflect.Value {
				s := reflect.Zero(t)
				for range 1001 {
					s = reflect.Append(s, fit(e.make(), t.Elem()))
				}
				return s
			}})
		}
		all = append(all, zero)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String {
			add(map[string]string{"a": "b"}, map[string]string{"": ""}, map[string]string{"\xff": "\x00"},
				map[string]string{longText: longText})
			many := make(map[string]string)
			for i := range 1001 {
				many[fmt.Sprint(i)] = "v"
			}
			add(many)
		}
		all = append(all, zero)
	case reflect.Func:
		zero.bad = true
		all = append(all, arg{name: "a function", make: func() reflect.Value {
			return reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
				for i := range t.NumOut() {
					out = append(out, reflect.Zero(t.Out(i)))
				}
				return out
			})
		}}, zero)
	case reflect.Pointer:
		if depth < 3 {
			for _, e := range values(t.Elem(), depth+1) {
				all = append(all, arg{name: "&" + e.name, make: func() reflect.Value {
					p := reflect.New(t.Elem())
					p.Elem().Set(fit(e.make(), t.Elem()))
					return p
				}})
			}
		}
		all = append(all, zero)
	case reflect.Struct:
		all = append(all, zero)
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || depth > 2 {
				continue
			}
			for _, v := range values(f.Type, depth+1) {
				all = append(all, arg{name: t.Name() + "." + f.Name + "=" + v.name, make: func() reflect.Value {
					s := reflect.New(t).Elem()
					s.Field(i).Set(fit(v.make(), f.Type))
					return s
				}})
			}
		}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return append(all, constant("x"), zero, constant(math.NaN()), constant(make(chan int)), constant(-1))
		}
		zero.bad = true
		all = append(made(t, depth), zero)
	default:
		all = append(all, zero)
	}
	return all
}

// fit converts a nil value to a type.
func fit(v reflect.Value, t reflect.Type) reflect.Value {
	if !v.IsValid() {
		return reflect.Zero(t)
	}
	return v
}

// made returns the values of a type that the exported functions return, each called with arguments
// at their extremes.
func made(t reflect.Type, depth int) (all []arg) {
	if depth > 3 {
		return nil
	}
	options := make(map[string]bool)
	for _, funcs := range exported {
		for _, f := range funcs {
			v := reflect.ValueOf(f)
			if v.Type().NumOut() != 1 || !v.Type().Out(0).AssignableTo(t) {
				continue
			}
			name := runtime.FuncForPC(v.Pointer()).Name()
			name = name[strings.LastIndex(name, "/")+1:]
			if shared := name[strings.LastIndex(name, ".")+1:]; slices.Contains([]string{"Limit", "Cursor", "Prefix"}, shared) {
				if options[shared] {
					continue // all packages share them
				}
				options[shared] = true
			}
			for _, args := range variations(v.Type(), 0, depth+1) {
				all = append(all, arg{name: name + named(args), make: func() reflect.Value { return call(v, args)[0] }})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b arg) int { return strings.Compare(a.name, b.name) })
	return all
}

// variations returns argument lists for a function, starting at parameter from: the plain list,
// then lists that differ from it in one argument.
func variations(t reflect.Type, from, depth int) (all [][]arg) {
	var plain []arg
	var extremes [][]arg
	fixed := t.NumIn()
	if t.IsVariadic() {
		fixed--
	}
	for i := from; i < fixed; i++ {
		vs := values(t.In(i), depth)
		plain, extremes = append(plain, vs[0]), append(extremes, vs[1:])
	}
	all = append(all, plain)
	for i, vs := range extremes {
		for _, v := range vs {
			one := slices.Clone(plain)
			one[i] = v
			all = append(all, one)
		}
	}
	if t.IsVariadic() && depth < 3 {
		for _, v := range values(t.In(fixed).Elem(), depth+1) {
			all = append(all, append(slices.Clone(plain), v))
			if depth == 0 {
				all = append(all, append(slices.Clone(plain), v, v))
			}
		}
	}
	return all
}

func named(args []arg) string {
	var names []string
	for _, a := range args {
		names = append(names, a.name)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func call(f reflect.Value, args []arg, before ...reflect.Value) []reflect.Value {
	in := before
	for _, a := range args {
		t := f.Type()
		at := t.In(min(len(in), t.NumIn()-1))
		if t.IsVariadic() && len(in) >= t.NumIn()-1 {
			at = at.Elem()
		}
		in = append(in, fit(a.make(), at))
	}
	return f.Call(in)
}

// bothStores holds the methods that a Node and a Client have in common.
type bothStores interface {
	KV(string, ...floe.AccessOption) *kv.Store
	Stream(string, ...floe.AccessOption) *stream.Store
	Queue(string, ...floe.AccessOption) *queue.Store
	Action(string, ...floe.AccessOption) *action.Store
	Workflow(string, ...floe.AccessOption) *workflow.Store
	Processing(string, ...floe.AccessOption) *processing.Store
	TS(string, ...floe.AccessOption) *ts.Store
	FloQL(context.Context, string, string, ...floql.Options) (*floql.Result, error)
	Txn(string) *floe.Txn
	Namespaces(...floe.AccessOption) *floe.Namespaces
	Keys() *floe.Keys
}

// side is one of the two, with its own namespace.
type side struct {
	stores bothStores
	name   string // the namespace's name
}

// roots are the values whose methods are called.
var roots = map[string]func(s side) any{
	"kv":         func(s side) any { return s.stores.KV(s.name) },
	"kv view":    func(s side) any { return kv.JSON[any](s.stores.KV(s.name)) },
	"stream":     func(s side) any { return s.stores.Stream(s.name) },
	"streamview": func(s side) any { return stream.JSON[any](s.stores.Stream(s.name)) },
	"queue":      func(s side) any { return s.stores.Queue(s.name) },
	"queueview":  func(s side) any { return queue.JSON[any](s.stores.Queue(s.name)) },
	"action":     func(s side) any { return s.stores.Action(s.name) },
	"workflow":   func(s side) any { return s.stores.Workflow(s.name) },
	"processing": func(s side) any { return s.stores.Processing(s.name) },
	"ts":         func(s side) any { return s.stores.TS(s.name) },
	"namespaces": func(s side) any { return s.stores.Namespaces() },
	"keys":       func(s side) any { return s.stores.Keys() },
	"stores":     func(s side) any { return s.stores },
	"txn":        func(s side) any { return txn{s} },
}

// txn commits a one-part transaction.
type txn struct{ s side }

// Do returns the operation's result if it has one.
func (x txn) Do(ctx context.Context, op floe.Op) (any, error) {
	res, err := x.s.stores.Txn(x.s.name).Do(op).Commit(ctx)
	if err != nil {
		return nil, err
	}
	read := reflect.ValueOf(op).MethodByName("Result")
	if !read.IsValid() {
		return nil, nil
	}
	out := read.Call([]reflect.Value{reflect.ValueOf(res)})
	err, _ = out[1].Interface().(error)
	return out[0].Interface(), err
}

func (x txn) If(ctx context.Context, c floe.Condition) (*floe.TxnResult, error) {
	return x.s.stores.Txn(x.s.name).If(c).Do(kv.PutOp("x", nil)).Commit(ctx)
}

// outcome holds the errors that a call returns, as sentinels and message in a form independent of
// the side.
type outcome struct {
	err    string
	result string // other return values, in a form independent of the side
	cut    bool   // ctx had ended when the call returned, so its effect is unknown
}

var (
	// changing matches parts of messages that differ between calls: times, ids and log positions.
	changing  = regexp.MustCompile(`\d{5,}-\d+|\b[0-9a-f]{8,}\b|\d{4}-\d\d-\d\d[T ][0-9:.]+(Z| \S+ UTC)?|run-[0-9a-z-]+|job-[0-9a-z-]+|revision \d+|which is at \d+|\d+ (runs|records)|\d{5,}(-\d+)?`)
	sentinels = []error{
		floe.ErrNotFound, floe.ErrConflict, floe.ErrExists, floe.ErrInvalid, floe.ErrBusy, floe.ErrUnavailable, floe.ErrUnknownOutcome,
		floe.ErrUnauthorized,
		floe.ErrClosed, floe.ErrReadOnly, floe.ErrInUse, context.DeadlineExceeded, context.Canceled,
	}
)

// panicked finds the line of floe that panics.
var panicked = regexp.MustCompile(`floe/(\w+/)*\w+\.go:\d+|transport/(\w+/)*\w+\.go:\d+`)

const longestMessage = 900

// outcomeOf makes a call and reads up to three steps of an iterator.
func (s side) outcomeOf(t *testing.T, name string, limit time.Duration, f func(ctx context.Context) []reflect.Value) outcome {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("%s: %s panics: %v, %s", name, s.name, p, panicked.FindString(string(debug.Stack())))
				o.err = fmt.Sprint("panic: ", p)
			}
			done <- o
		}()
		for _, v := range f(ctx) {
			o.add(v)
		}
		o.cut = ctx.Err() != nil // not the call's error: Consume and Run return nil then
	}()
	select {
	case o := <-done:
		if len(o.err) > longestMessage {
			t.Errorf("%s: %s: the error has %d bytes: %.200s", name, s.name, len(o.err), o.err)
		}
		o.err = changing.ReplaceAllString(strings.ReplaceAll(o.err, s.name, "NAMESPACE"), "#")
		return o
	case <-time.After(limit + 20*time.Second):
		t.Errorf("%s: %s hangs", name, s.name)
		return outcome{err: "hangs"}
	}
}

func (o *outcome) add(v reflect.Value) {
	if v.Type() == anError {
		if err, _ := v.Interface().(error); err != nil {
			for _, s := range sentinels {
				if errors.Is(err, s) {
					o.err += fmt.Sprintf("[%v]", s)
				}
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				o.err += err.Error()
			}
		}
		return
	}
	if v.Kind() == reflect.Func && v.Type().CanSeq2() && !v.IsNil() {
		steps := 0
		for item, err := range v.Seq2() {
			o.print(item)
			if o.add(err); steps == 2 || !err.IsNil() {
				break
			}
			steps++
		}
		return
	}
	o.print(v)
}

func (o *outcome) print(v reflect.Value) {
	var b strings.Builder
	show(&b, v, 0)
	o.result += b.String() + "; "
}

var (
	// differing lists fields that are set on both sides or on neither: times, and positions in logs
	// that other writers share.
	differing = []string{"LSN", "Generation", "Revision", "Receipt", "Timestamp", "Commit", "Applied"}
	// passing lists fields that measure durations or unrelated activity of the process.
	passing = []string{"Elapsed", "LagTime", "Port", "Rate", "Commands", "Slow"}
)

// show prints a result without the parts that differ between calls. For times, ids and log
// positions it prints whether they are set.
func show(b *strings.Builder, v reflect.Value, depth int) {
	if !v.IsValid() || depth > 8 {
		b.WriteString("-")
		return
	}
	t := v.Type()
	if v.CanInterface() && (t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[stream.ID]()) {
		fmt.Fprintf(b, "%s(%v)", t.Name(), !v.IsZero())
		return
	}
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		fmt.Fprintf(b, "%v(%v)", v.Kind(), !v.IsNil())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		show(b, v.Elem(), depth+1)
	case reflect.Struct:
		b.WriteString("{")
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			b.WriteString(" " + f.Name + ":")
			if slices.Contains(differing, f.Name) {
				b.WriteString(strconv.FormatBool(!v.Field(i).IsZero()))
				continue
			}
			if slices.Contains(passing, f.Name) {
				continue
			}
			show(b, v.Field(i), depth+1)
		}
		b.WriteString("}")
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%.100q", fmt.Sprintf("%s", v.Interface()))
			return
		}
		if v.Kind() == reflect.Slice && v.IsNil() {
			b.WriteString("nil")
			return
		}
		b.WriteString("[")
		for i := range min(v.Len(), 20) {
			show(b, v.Index(i), depth+1)
			b.WriteString(" ")
		}
		fmt.Fprintf(b, "%d]", v.Len())
	case reflect.Map:
		var keys []string
		for _, k := range v.MapKeys() {
			var one strings.Builder
			show(&one, k, depth+1)
			one.WriteString("=")
			show(&one, v.MapIndex(k), depth+1)
			keys = append(keys, one.String())
		}
		slices.Sort(keys)
		fmt.Fprintf(b, "map%v", keys)
	case reflect.String:
		fmt.Fprintf(b, "%.100q", changing.ReplaceAllString(v.String(), "#"))
	default:
		fmt.Fprint(b, v)
	}
}

// TestNodeAndClientAlike calls each store method with each argument and option at its extremes, on
// a Node and on a Client of an equal node. Both return the same results and errors; nothing panics,
// hangs, or repeats a long argument in its message.
func TestNodeAndClientAlike(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node, client := openAlike(t)
		for name, root := range roots {
			label := strings.ReplaceAll(name, " ", "")
			t.Run(fmt.Sprintf("%s/spread=%t", label, spread), func(t *testing.T) {
				t.Parallel()
				a := &alike{t: t, label: label, spread: spread, sides: [2]side{{stores: node}, {stores: client}}}
				if slices.Contains(ofNode, label) {
					a.sides[0].stores, a.sides[1].stores = openAlike(t) // calls of concurrent tests would be visible
				}
				a.prepare()
				began := time.Now()
				a.walk(name, func(s side) reflect.Value { return reflect.ValueOf(root(s)) }, false)
				t.Logf("%d calls in %v", a.calls, time.Since(began))
			})
		}
	}
}

// openAlike opens two equal nodes and connects a Client to the second.
func openAlike(t *testing.T) (*floe.Node, *floe.Client) {
	var nodes [2]*floe.Node
	for i := range nodes {
		node, err := floe.Open(floe.Config{Shards: 3, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		nodes[i] = node
	}
	client, err := floe.Dial(t.Context(), []string{nodes[1].Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return nodes[0], client
}

type alike struct {
	t      *testing.T
	sides  [2]side
	label  string
	spread bool
	calls  int
	moves  int
	since  time.Time // when the namespaces were created
}

// fresh is how long calls reuse the same namespaces. Default leases last 30 s and do not expire at
// the same moment on both sides.
const fresh = 10 * time.Second

// ofNode lists the roots whose methods change state outside a namespace.
var ofNode = []string{"namespaces", "keys", "stores"}

// move switches to new namespaces or new nodes, because a call that was cut off may have taken
// effect on one side only.
func (a *alike) move() {
	a.moves++
	if slices.Contains(ofNode, a.label) {
		a.sides[0].stores, a.sides[1].stores = openAlike(a.t)
	}
	a.prepare()
}

// prepare creates the data that the plain calls use.
func (a *alike) prepare() {
	ctx := a.t.Context()
	a.since = time.Now()
	for i := range a.sides {
		a.sides[i].name = fmt.Sprintf("ns-%s%d", a.label, a.moves)
	}
	for _, s := range a.sides {
		if a.spread {
			if err := s.stores.Namespaces().Create(ctx, s.name, floe.Spread()); err != nil {
				a.t.Fatal(err)
			}
		}
		_, put := s.stores.KV(s.name).Put(ctx, "x", []byte("1"))
		// as many as are read from an endless iterator
		_, appended := s.stores.Stream(s.name).AppendMany(ctx, "x", slices.Repeat([]stream.Message{{Payload: []byte("v")}}, 3))
		_, enqueued := s.stores.Queue(s.name).Enqueue(ctx, "x", []byte("v"))
		_, registered := s.stores.Action(s.name).Register(ctx, "x")
		_, written := s.stores.TS(s.name).WriteLine(ctx, strings.NewReader("x,a=b v=1\n"), ts.Milliseconds)
		if err := errors.Join(put, appended, s.stores.Stream(s.name).Groups("x").Create(ctx, "x"), enqueued, registered,
			written); err != nil {
			a.t.Fatal(err)
		}
	}
}

// skipped lists methods that end the test's subject or do not belong to a store.
var skipped = []string{"Close", "Drain", "Backup", "Serve", "Metrics", "ServeHTTP", "WriteMetrics", "Bootstrap", "Addr"}

// walk calls the methods of root's value, deletions last. With plain set it omits the extremes.
func (a *alike) walk(path string, root func(side) reflect.Value, plain bool) {
	t := root(a.sides[0]).Type()
	var methods []reflect.Method
	for i := range t.NumMethod() {
		if m := t.Method(i); !slices.Contains(skipped, m.Name) {
			methods = append(methods, m)
		}
	}
	slices.SortStableFunc(methods, func(a, b reflect.Method) int {
		return strings.Compare(strings.Replace(a.Name, "Delete", "~", 1), strings.Replace(b.Name, "Delete", "~", 1))
	})
	for _, m := range methods {
		from := 1
		waits := m.Type.NumIn() > 1 && m.Type.In(1) == aContext
		if waits {
			from = 2
		} else if path == "stores" {
			continue // the accessors
		}
		for i, args := range variations(m.Type, from, 0) {
			if i > 0 && plain {
				break
			}
			name := path + "." + m.Name + named(args)
			if len(name) > 300 {
				name = name[:300]
			}
			method := func(s side) reflect.Value { return root(s).MethodByName(m.Name) }
			if !waits && m.Type.NumOut() == 1 && m.Type.Out(0).NumMethod() > 0 && m.Type.Out(0) != anError &&
				m.Type.Out(0).Kind() != reflect.Interface && strings.Count(path, ".") == 0 {
				a.walk(name, func(s side) reflect.Value { return call(method(s), args)[0] }, i > 0)
				continue
			}
			bad := waits && slices.ContainsFunc(args, func(a arg) bool { return a.bad })
			a.compare(name, bad, func(s side, ctx context.Context) []reflect.Value {
				if waits {
					return call(method(s), args, reflect.ValueOf(ctx))
				}
				return call(method(s), args)
			})
		}
	}
}

// waiting matches calls that may wait until their ctx ends.
var waiting = regexp.MustCompile(`Wait|Watch|Follow|Consume|Await|Lock|\.Run\(`)

// brief matches calls that need a pause of a millisecond on both sides. Durations of 1 ns end
// within it, and points stamped with the current time do not replace each other.
var brief = regexp.MustCompile(`Duration\("1ns"\)|\.(Write|Import)`)

// compare makes a call on both sides. If the outcomes differ because one call ran out of time, it
// repeats both with more time in new namespaces.
func (a *alike) compare(name string, bad bool, f func(side, context.Context) []reflect.Value) {
	a.calls++
	if time.Since(a.since) > fresh {
		a.move()
	}
	var got [2]outcome
	limits := []time.Duration{10 * time.Second} // a call that is cut off may have taken effect on one side only
	if waiting.MatchString(name) {
		limits = []time.Duration{20 * time.Millisecond, 2 * time.Second}
	}
	for _, limit := range limits {
		var both sync.WaitGroup
		for i, s := range a.sides {
			both.Go(func() {
				got[i] = s.outcomeOf(a.t, name, limit, func(ctx context.Context) []reflect.Value { return f(s, ctx) })
			})
		}
		both.Wait()
		if got[0].cut || got[1].cut {
			a.move()
		}
		if brief.MatchString(name) {
			<-time.After(2 * time.Millisecond)
		}
		if got[0].err == got[1].err {
			if bad && !strings.Contains(got[0].err, fmt.Sprintf("[%v]", floe.ErrInvalid)) {
				a.t.Errorf("%s: %q, want ErrInvalid", name, got[0].err)
			}
			if !got[0].cut && !got[1].cut && got[0].result != got[1].result {
				n, c := got[0].result, got[1].result
				i := 0
				for i < min(len(n), len(c)) && n[i] == c[i] {
					i++
				}
				i = max(0, i-40)
				a.t.Errorf("%.120s:\n\tnode:   %.150s\n\tclient: %.150s", name, n[i:], c[i:])
			}
			return
		}
	}
	a.t.Errorf("%s:\n\tnode:   %.300s\n\tclient: %.300s", name, got[0].err, got[1].err)
}
