package machinetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// errFault is the error of failed reads.
var errFault = errors.New("rig: a read fails")

// Answered queries are repeated with a failing read, first one, then the next. The query must
// return the error, not a result computed from incomplete rows. Enough queries of each kind are
// repeated that each path through it is likely to be covered.
const (
	faultyQueries = 60 // of a kind, in a process
	faultyReads   = 12 // of a query
)

var faulty struct {
	sync.Mutex
	asked map[reflect.Type]int
}

// fails repeats a query that was answered after the given number of reads.
func (r *Rig) fails(ctx context.Context, x *engine.Executor, q engine.Query, asked []byte, reads int) {
	if _, changes := q.(engine.LeaderQuery); changes || reads == 0 {
		return
	}
	for i := range min(reads, faultyReads) {
		if reads > faultyReads && i >= faultyReads/2 {
			i = reads - faultyReads + i // the first and the last
		}
		again, err := r.wire.DecodeQuery(asked)
		if err != nil {
			r.t.Errorf("%T does not decode: %v", q, err)
			return
		}
		n, failed := 0, false
		fault := func() error {
			if n++; n != i+1 {
				return nil
			}
			failed = true
			return errFault
		}
		if err := x.Query(context.WithoutCancel(ctx), again,
			engine.Replica{Now: r.Now, Mono: r.Mono, NoWait: true, Fault: fault}); failed && !errors.Is(err, errFault) {
			r.t.Errorf("%T: read %d of %d fails, and the answer is %v: %+v", q, i+1, reads, err, q)
			return
		}
	}
}

// FailReads makes each read of the following takes, duties, restarts, and of Verify at the end fail
// once, which must return the error. A duty may sleep instead if held, which may be nil, returns
// the error then. Only one goroutine may use the rig.
func (r *Rig) FailReads(held func() error) { r.failing.enabled, r.failing.held = true, held }

// failing is the state of eachRead.
type failing struct {
	enabled bool
	held    func() error
	failed  bool
	kept    bool // held has returned the error
}

// eachRead repeats do with its first read failing, then its second and so on, if FailReads was
// called. do must return the error each time. Some of more than 50 reads are left out.
func (r *Rig) eachRead(what string, do func() error) {
	if !r.failing.enabled {
		return
	}
	defer r.setFault(nil)
	for at := 1; ; at += 1 + at/50 {
		n := 0
		r.failing.failed, r.failing.kept = false, false
		r.setFault(func() error {
			if n++; n != at {
				return nil
			}
			r.failing.failed = true
			return errFault
		})
		if err := do(); !r.failing.failed {
			return
		} else if !errors.Is(err, errFault) && !r.failing.kept {
			r.t.Errorf("%s: read %d fails, and it returns %v", what, at, err)
			return
		}
	}
}

// asleep is called when a duty sleeps.
func (f *failing) asleep() {
	if f.failed && f.held != nil {
		err := f.held()
		f.kept = err != nil && strings.Contains(err.Error(), errFault.Error())
	}
}

// code encodes a query; it returns nil for a query of a test, which has no wire form.
func code(q engine.Query) (b []byte) {
	if f := reflect.ValueOf(q).Elem().FieldByName("Query"); f.IsValid() {
		return nil
	}
	return engine.AppendQuery(nil, q)
}

// again decodes a query that has been decoded before.
func again(w *engine.Wire, asked []byte) engine.Query {
	q, err := w.DecodeQuery(asked)
	if err != nil {
		panic(err)
	}
	return q
}

// early reports whether a query is one of the first of its kind in the process, which are tried in
// more ways than one.
func early(q engine.Query) bool {
	faulty.Lock()
	defer faulty.Unlock()
	if faulty.asked == nil {
		faulty.asked = make(map[reflect.Type]int)
	}
	t := reflect.TypeOf(q)
	faulty.asked[t]++
	return faulty.asked[t] <= faultyQueries
}

// Failing is a door to a rig where one call fails.
type Failing struct {
	*Rig
	at, calls int
	written   bool // something has been proposed
	late      bool // the call that failed was a query after that
}

func (f *Failing) fails() error {
	if f.calls++; f.calls == f.at {
		return errFault
	}
	return nil
}

// Propose implements engine.Door.
func (f *Failing) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	f.written = true
	return f.Rig.Propose(ctx, shard, cmd)
}

// Take implements engine.Door.
func (f *Failing) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Rig.Take(ctx, shard, t)
}

// Query implements engine.Door.
func (f *Failing) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if err := f.fails(); err != nil {
		f.late = f.written
		return err
	}
	return f.Rig.Query(ctx, shard, q)
}

// Pause implements engine.SerialDoor. No time passes, since nothing else happens in the meantime.
func (*Failing) Pause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// LastError reads a listing to its end and returns the last error, or nil.
func LastError[T any](seq iter.Seq2[T, error]) (err error) {
	for _, e := range seq {
		err = e
	}
	return err
}

// Except returns err, or nil if it is the expected error.
func Except(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// EachFailure makes each engine call of an operation fail once: the first, then the second and so
// on. The operation must return that error. Operations are repeated, so each must succeed any
// number of times. The operations named in waiting poll other shards after their write; they may
// ignore a failed poll.
func (r *Rig) EachFailure(calls map[string]func(engine.Door) error, waiting ...string) {
	r.t.Helper()
	for name, call := range calls {
		for at := 1; ; at++ {
			f := &Failing{Rig: r, at: at}
			err := call(f)
			if f.calls < at {
				if err != nil {
					r.t.Errorf("%s: %v", name, err)
				}
				break
			}
			if !errors.Is(err, errFault) && !(err == nil && f.late && slices.Contains(waiting, name)) {
				r.t.Errorf("%s: question %d fails, and the call returns %v", name, at, err)
			}
		}
	}
}

// faulted returns the error of a read that fails now, or nil.
func (r *Rig) faulted() error {
	if fault := r.fault.Load(); fault != nil {
		return (*fault)()
	}
	return nil
}

// EachRead makes each read of rows by an operation fail once: those of queries and duties.
// The operation must return that error, or the same as without a failure.
func (r *Rig) EachRead(calls map[string]func() (any, error)) {
	r.t.Helper()
	for name, call := range calls {
		want, err := call()
		if err != nil {
			r.t.Errorf("%s: %v", name, err)
			continue
		}
		r.eachFault(call, func(at int, got any, err error) {
			if !errors.Is(err, errFault) && (err != nil || fmt.Sprint(got) != fmt.Sprint(want)) {
				r.t.Errorf("%s: read %d fails, and the call returns %v, %v, want %v", name, at, got, err, want)
			}
		})
	}
}

// eachFault makes each read of a call fail once and passes its results to check.
func (r *Rig) eachFault(call func() (any, error), check func(at int, got any, err error)) {
	for at := 1; ; at++ {
		n := 0
		r.setFault(func() error {
			if n++; n == at {
				return errFault
			}
			return nil
		})
		got, err := call()
		r.setFault(nil)
		if n < at {
			return
		}
		check(at, got, err)
	}
}

func (r *Rig) setFault(fault func() error) {
	if r.fault.Store(nil); fault != nil {
		r.fault.Store(&fault)
	}
}

// EachReadOfVerify makes each read of Verify fail once, which Verify must report.
func (r *Rig) EachReadOfVerify() {
	r.t.Helper()
	for shard, x := range r.execs {
		r.eachFault(func() (any, error) { return verify(x) }, func(at int, _ any, err error) {
			if !errors.Is(err, errFault) {
				r.t.Errorf("Verify of shard %d: read %d fails, and it returns %v", shard, at, err)
			}
		})
	}
}

// verify returns the problems that Verify reports. Its error may be in one of them.
func verify(x *engine.Executor) (problems []string, err error) {
	_, err = x.Verify(context.Background(), func(problem string) { problems = append(problems, problem) })
	if strings.Contains(strings.Join(problems, "\n"), errFault.Error()) {
		err = errFault
	}
	return problems, err
}

// EachReadOfDuties runs the duties of all machines like Advance. Each read of each step fails once
// before the step is taken.
func (r *Rig) EachReadOfDuties() { r.EachStep(r.EachRead) }

// EachStep runs the duties of all machines like Advance. Before each step it passes to try a call
// that returns the step, by the name of the duty.
func (r *Rig) EachStep(try func(next map[string]func() (any, error))) {
	r.t.Helper()
	for shard, x := range r.execs {
		door := &trialDoor{dutyDoor: dutyDoor{r: r, shard: engine.ShardID(shard)}}
		for _, d := range x.Duties(r.term, func() engine.LeadDoor { return door }) {
			next := func() (any, error) {
				door.next = nil
				err := d.Run(context.Background(), d.Lead)
				return door.next, Except(err, errIdle)
			}
			for {
				try(map[string]func() (any, error){d.String(): next})
				if _, err := next(); err != nil || door.next == nil {
					break
				}
				r.Entry(door.shard, *door.next)
			}
		}
	}
}

// trialDoor is a dutyDoor that ends a duty at its first proposal, which it keeps.
type trialDoor struct {
	dutyDoor
	next *engine.Command
}

// Propose keeps the command.
func (d *trialDoor) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	d.next = &cmd
	return nil, errIdle
}

// CutShort returns the first byte of a row's value.
func CutShort(row Row) [][]byte {
	if len(row.Value) > 1 {
		return [][]byte{row.Value[:1]}
	}
	return nil
}

// EachDamage damages each row of a machine in turn. damage returns the damaged values of a row.
// With a damaged row, an operation must return an error other than ErrNotFound, or the same as
// without. Restart the rig before if something remembers rows.
func (r *Rig) EachDamage(m engine.MachineID, damage func(row Row) [][]byte, calls map[string]func() (any, error)) {
	r.t.Helper()
	tampered := r.tampered
	for name, call := range calls {
		want, err := call()
		if err != nil {
			r.t.Errorf("%s: %v", name, err)
			continue
		}
		for shard := range engine.ShardID(len(r.execs)) {
			for _, row := range r.Rows(shard) {
				if row.Machine != m {
					continue
				}
				values := damage(row)
				if len(values) == 0 {
					continue
				}
				for _, value := range values {
					r.Tamper(shard, Row{m, row.Key, value})
					got, err := call()
					if err == nil && fmt.Sprint(got) != fmt.Sprint(want) || errors.Is(err, engine.ErrNotFound) {
						r.t.Errorf("%s: row %q is damaged: %x, and the call returns %v, %v, want another error or %v", name, row.Key,
							value, got, err, want)
					}
				}
				r.Tamper(shard, Row{m, row.Key, append([]byte{}, row.Value...)})
			}
		}
	}
	r.tampered = tampered
}
