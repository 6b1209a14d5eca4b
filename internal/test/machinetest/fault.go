package machinetest

import (
	"context"
	"errors"
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

// reads makes one read of an executor fail.
type reads struct {
	enabled bool
	held    func() error
	at, n   int  // the failing one, or 0, and those so far
	kept    bool // held has returned the error
}

func (f *reads) next() error {
	if f.at == 0 {
		return nil
	}
	if f.n++; f.n != f.at {
		return nil
	}
	return errFault
}

// eachRead repeats do with its first read failing, then its second and so on, if FailReads was
// called. do must return the error each time. Some of more than 50 reads are left out.
func (r *Rig) eachRead(what string, do func() error) {
	if !r.failing.enabled {
		return
	}
	defer func() { r.failing.at = 0 }()
	for at := 1; ; at += 1 + at/50 {
		r.failing.at, r.failing.n, r.failing.kept = at, 0, false
		if err := do(); r.failing.n < at {
			return
		} else if !errors.Is(err, errFault) && !r.failing.kept {
			r.t.Errorf("%s: read %d fails, and it returns %v", what, at, err)
			return
		}
	}
}

// asleep is called when a duty sleeps.
func (f *reads) asleep() {
	if f.at > 0 && f.n >= f.at && f.held != nil {
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
