package machinetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Epoch is the start time of every rig, ms.
const Epoch = 1_000_000_000_000

// Config configures a Rig.
type Config struct {
	Shards      int
	Primitives  []engine.Primitive
	CacheBytes  int64 // of the row cache of each executor; 0: none
	Forgetful   bool  // machines drop cached data whenever they may
	DutySpeedup int64 // see engine.Config
}

// Rig is an engine.Door to the shards of an in-memory node. Its rows are verified when the test
// ends.
type Rig struct {
	t      testing.TB
	db     *pebble.DB
	config Config
	wire   *engine.Wire

	delivering sync.Mutex // one caller at a time delivers messages

	mu    sync.Mutex // guards everything below
	execs []*engine.Executor
	now   int64
	leapt int64 // how far the clock was set forward, see Leap
	term  uint64
	hold  bool
	log   []logged

	failing  failing                      // see FailReads
	fault    atomic.Pointer[func() error] // see EachRead
	efforts  []engine.Effort              // of executors before the last restart
	tampered bool                         // the rows are no longer verified
}

// logged is an applied entry.
type logged struct {
	shard engine.ShardID
	term  uint64
	data  []byte
}

// stateOptions are those of an in-memory database. A node gains by compressing its tables, but
// tests of large values would pay for it with each row lookup.
func stateOptions(t testing.TB) *pebble.Options {
	opts := &pebble.Options{
		FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{t}, FormatMajorVersion: pebble.FormatNewest, CacheSize: 64 << 20,
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// New returns a Rig with a number of shards, each with the primitives.
func New(t testing.TB, shards int, primitives ...engine.Primitive) *Rig {
	t.Helper()
	return Open(t, Config{Shards: shards, Primitives: primitives})
}

// Open returns a Rig.
func Open(t testing.TB, c Config) *Rig {
	t.Helper()
	db, err := pebble.Open("", stateOptions(t))
	if err != nil {
		t.Fatalf("open pebble: %v", err)
	}
	r := &Rig{t: t, db: db, config: c, wire: engine.NewWire(c.Primitives), execs: make([]*engine.Executor, c.Shards), now: Epoch, term: 1}
	r.Restart()
	t.Cleanup(func() {
		if !t.Failed() && !r.tampered {
			r.Verify()
			for i, x := range r.execs {
				r.eachRead(fmt.Sprintf("Verify of shard %d", i), func() error { _, err := verify(x); return err })
			}
		}
		for _, e := range r.Efforts() {
			t.Logf("largest %v", e)
		}
		r.release()
		if err := db.Close(); err != nil {
			t.Errorf("close pebble: %v", err)
		}
	})
	return r
}

type quiet struct{ t testing.TB }

func (quiet) Infof(string, ...any)           {}
func (q quiet) Errorf(f string, args ...any) { q.t.Logf(f, args...) }
func (q quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func (r *Rig) release() {
	for _, x := range r.execs {
		if x == nil {
			continue
		}
		if err := x.Release(); err != nil {
			r.t.Errorf("Release: %v", err)
		}
	}
}

// Restart gives all shards new executors, which have nothing but the rows.
func (r *Rig) Restart() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
	r.efforts = r.Efforts()
	for i := range r.execs {
		c := engine.Config{Shard: engine.ShardID(i), Shards: len(r.execs), DB: r.db, Primitives: r.config.Primitives, Strict: true,
			Forgetful: r.config.Forgetful, DutySpeedup: r.config.DutySpeedup, Fault: r.faulted}
		start := time.Now()
		c.Watch = func() time.Duration { return time.Since(start) }
		if r.config.CacheBytes > 0 {
			c.RowCache = engine.NewRowCache(r.config.CacheBytes)
		}
		r.eachRead("Restore", func() error {
			x := engine.NewExecutor(c)
			return errors.Join(x.Restore(), x.Release())
		})
		r.execs[i] = engine.NewExecutor(c)
		if err := r.execs[i].Restore(); err != nil {
			r.t.Fatalf("Restore: %v", err)
		}
	}
}

// DB returns the state. Use Tamper to change rows in it.
func (r *Rig) DB() *pebble.DB { return r.db }

// Executor returns the executor of a shard, until the next Restart.
func (r *Rig) Executor(shard engine.ShardID) *engine.Executor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.execs[shard]
}

// SetTerm simulates a new leader for the following entries.
func (r *Rig) SetTerm(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term = term
}

// Router returns a router to the rig.
func (r *Rig) Router() *engine.Router { return engine.NewRouter(r) }

// Txn starts a transaction in a namespace.
func (r *Rig) Txn(namespace string) *engine.Txn { return engine.NewTxn(r.Router(), namespace, 1<<20) }

// Shards implements engine.Door.
func (r *Rig) Shards() int { return len(r.execs) }

// Propose implements engine.Door. When it returns, the command's messages to other shards have
// arrived, unless messages are held.
func (r *Rig) Propose(_ context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	out := r.Entry(shard, cmd)
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if !hold {
		r.Deliver()
	}
	r.admits(cmd, out[0].Err)
	return out[0].Result, r.carry(out[0].Err)
}

// admits checks that an applied command that only users send would have been admitted from another
// process.
func (r *Rig) admits(cmd engine.Command, err error) {
	if err != nil || engine.CheckWritable(cmd.Namespace) != nil {
		return
	}
	for _, p := range r.config.Primitives {
		if p.ID != cmd.Machine {
			continue
		}
		if c := p.Command(cmd.Kind); c != nil && c.From&(engine.FromUsers|engine.FromShards) == engine.FromUsers {
			if err := r.wire.Admit(cmd, math.MaxInt32); err != nil {
				r.t.Errorf("%s %s: applied, and not admitted from another process: %v", p.Name, c.Name, err)
			}
		}
	}
}

// carry encodes and decodes an error, as between two nodes.
func (r *Rig) carry(err error) error {
	if err == nil {
		return nil
	}
	return r.wire.DecodeError(r.wire.AppendError(nil, err))
}

// Entry applies one log entry of several commands.
func (r *Rig) Entry(shard engine.ShardID, cmds ...engine.Command) []engine.Outcome {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.execs[shard]
	e := engine.Entry{Stamp: r.now}
	for _, c := range cmds {
		if err := x.Check(c); err != nil {
			return []engine.Outcome{{Err: err}}
		}
		e.Commands = append(e.Commands, c.AppendTo(nil))
	}
	data := e.AppendTo(nil)
	r.log = append(r.log, logged{shard, r.term, data})
	_, out := x.Apply(r.term, x.Applied().Index+1, data, nil)
	if err := x.Commit(); err != nil {
		r.t.Fatalf("Commit: %v", err)
	}
	return out
}

// Try is Entry for one command without admission. It reports whether the body stops the shard
// because it does not decode, which ends the rig: its rows are no longer verified.
func (r *Rig) Try(shard engine.ShardID, cmd engine.Command) (out engine.Outcome, stopped bool) {
	r.t.Helper()
	defer func() {
		if p := recover(); p != nil {
			if stopped = strings.Contains(fmt.Sprint(p), "does not decode"); !stopped {
				panic(p)
			}
			r.tampered = true
		}
	}()
	return r.Entry(shard, cmd)[0], false
}

// Take implements engine.Door.
func (r *Rig) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	r.mu.Lock()
	x := r.execs[shard]
	r.mu.Unlock()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r.eachRead(fmt.Sprintf("take %d of machine %d", t.Command.Kind, t.Command.Machine), func() error {
		_, err := x.TakeAlone(cancelled, t, r.Now, func(engine.Command) ([]byte, error) { return nil, nil })
		return err
	})
	result, err := x.TakeAlone(ctx, t, r.Now, func(cmd engine.Command) ([]byte, error) { return r.Propose(ctx, shard, cmd) })
	return result, r.carry(err)
}

// Query implements engine.Door. The query and its answer are encoded and decoded, as between two
// nodes.
func (r *Rig) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	r.mu.Lock()
	x := r.execs[shard]
	r.mu.Unlock()
	asked, reads := code(q), 0
	there := q
	if asked != nil {
		var err error
		if there, err = r.wire.DecodeQuery(asked); err != nil {
			r.t.Errorf("%T does not decode: %v", q, err)
			return err
		}
	}
	err := x.Query(ctx, there, engine.Replica{Now: r.Now, Mono: r.Mono, Fault: func() error { reads++; return r.faulted() }})
	if errors.Is(err, errFault) {
		return err
	}
	if err != nil {
		return r.carry(err)
	}
	if asked == nil {
		return nil
	}
	if early(q) {
		r.fails(ctx, x, q, asked, reads)
		arguments := func(q *engine.Query, f *codec.Fields) { (*q).Arguments(f) }
		results := func(q *engine.Query, f *codec.Fields) { (*q).Results(f) }
		ReadsBack(r.t, again(r.wire, asked), there, arguments)
		ReadsBack(r.t, again(r.wire, asked), there, results)
	}
	return engine.DecodeResults(q, engine.AppendResults(nil, there))
}

// Now returns the time, ms.
func (r *Rig) Now() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Mono returns the elapsed time.
func (r *Rig) Mono() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now - r.leapt
}

// Leap sets the clock forward, as an administrator may do on a node's machine; no time passes.
func (r *Rig) Leap(millis int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += millis
	r.leapt += millis
}

// Pass advances the time, and does nothing else.
func (r *Rig) Pass(millis int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += millis
}

// Advance advances the time, fires the timers that are due then, and runs duties. It returns the
// number of timers.
func (r *Rig) Advance(millis int64) (fired int) {
	r.t.Helper()
	r.Pass(millis)
	fired = r.Fire()
	if r.doDuties() {
		fired += r.Fire()
	}
	return fired
}

// Fire acts as the leaders do: it proposes Fire while a timer is due.
func (r *Rig) Fire() (fired int) {
	r.t.Helper()
	for shard, x := range r.execs {
		for x.NextDue() <= r.Now() {
			before := x.NextDue()
			out := r.Entry(engine.ShardID(shard), engine.Fire())
			if out[0].Err != nil {
				r.t.Fatalf("Fire: %v", out[0].Err)
			}
			n, _ := binary.Uvarint(out[0].Result)
			if fired += int(n); n == 0 && x.NextDue() <= before {
				r.t.Fatalf("Fire at %d handed out nothing and left the next due time at %d", r.Now()-Epoch, before-Epoch)
			}
		}
	}
	r.Deliver()
	return fired
}

// Hold starts or stops holding back messages between shards, until Deliver is called.
func (r *Rig) Hold(hold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

// Deliver delivers the messages between shards. Messages that a shard does not accept now wait for
// the next call.
func (r *Rig) Deliver() {
	r.t.Helper()
	r.delivering.Lock()
	defer r.delivering.Unlock()
	type pair struct{ from, to engine.ShardID }
	begun := make(map[pair]*engine.Dispatch)
	for more := true; more; {
		more = false
		for i, x := range r.execs {
			for _, target := range x.PendingTargets() {
				way, before := pair{engine.ShardID(i), target}, 0
				if begun[way] == nil {
					before, begun[way] = 2, x.NewDispatch(target) // steps that it takes in any case
				}
				more = r.dispatch(x, begun[way]) > before || more
			}
		}
	}
}

// dispatch delivers a shard's messages for another, and returns the number of steps.
func (r *Rig) dispatch(x *engine.Executor, d *engine.Dispatch) int {
	r.t.Helper()
	for n := 0; ; n++ {
		step, _, ok, err := d.Next(r.Now(), r.applied(x))
		if err != nil {
			r.t.Fatalf("deliver: %v", err)
		}
		if !ok {
			return n
		}
		out := r.Entry(step.Shard, step.Command)[0]
		d.Done(out.Result, out.Err, r.Now())
	}
}

// applied returns the index of the newest entry that a shard has applied.
func (r *Rig) applied(x *engine.Executor) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return x.Applied().Index
}

// Efforts returns the maximum effort of each kind of command in any shard. The executors fail if
// one exceeds its bound.
func (r *Rig) Efforts() []engine.Effort {
	parts := [][]engine.Effort{r.efforts}
	for _, x := range r.execs {
		if x != nil {
			parts = append(parts, x.Efforts())
		}
	}
	return engine.MostEfforts(parts...)
}

// Verify reports errors in the rows, as found by Executor.Verify.
func (r *Rig) Verify() {
	r.t.Helper()
	for i, x := range r.execs {
		_, err := x.Verify(context.Background(), func(p string) { r.t.Errorf("shard %d: Verify reports: %s", i, p) })
		if err != nil {
			r.t.Errorf("shard %d: Verify: %v", i, err)
		}
	}
}

// Problems returns the reports of Executor.Verify for a shard.
func (r *Rig) Problems(shard engine.ShardID) (found []string) {
	r.t.Helper()
	if _, err := r.execs[shard].Verify(context.Background(), func(p string) { found = append(found, p) }); err != nil {
		r.t.Errorf("shard %d: Verify: %v", shard, err)
	}
	return found
}

// Distrust disables verifying the rows when the test ends.
func (r *Rig) Distrust() { r.tampered = true }

// Tamper writes a row without its machine, or removes it if its value is nil. The rows are not
// verified when the test ends.
func (r *Rig) Tamper(shard engine.ShardID, row Row) {
	r.t.Helper()
	r.tampered = true
	lower, _ := engine.Bounds(shard)
	k := append(append(lower, byte(row.Machine)), row.Key...)
	err := r.db.Delete(k, pebble.NoSync)
	if row.Value != nil {
		err = r.db.Set(k, row.Value, pebble.NoSync)
	}
	if err != nil {
		r.t.Fatalf("write row %x: %v", k, err)
	}
}

// NextDue returns the due time of the earliest timer of any shard, or engine.NoTimer.
func (r *Rig) NextDue() int64 {
	due := int64(engine.NoTimer)
	for _, x := range r.execs {
		due = min(due, x.NextDue())
	}
	return due
}

// Replay checks that another replica that applies the same entries reaches the same state. It
// commits after as many of them as pause returns each time, and restarts after a commit when
// restart returns true.
func (r *Rig) Replay(pause func() int, restart func() bool) {
	r.t.Helper()
	other := Open(r.t, r.config)
	left := pause()
	for _, e := range r.log {
		x := other.execs[e.shard]
		x.Apply(e.term, x.Applied().Index+1, e.data, nil)
		if left--; left > 0 {
			continue
		}
		left = pause()
		other.commitAll()
		if restart() {
			other.Restart()
		}
	}
	other.commitAll()
	for i, hash := range other.Hashes() {
		if want := r.Hashes()[i]; hash != want {
			r.t.Errorf("shard %d: a replica that applied the same entries has the state hash %x, want %x", i, hash, want)
		}
	}
}

func (r *Rig) commitAll() {
	r.t.Helper()
	for _, x := range r.execs {
		if err := x.Commit(); err != nil {
			r.t.Fatalf("Commit: %v", err)
		}
	}
}

// Log returns the entries of a shard.
func (r *Rig) Log(shard engine.ShardID) (log [][]byte) {
	for _, e := range r.log {
		if e.shard == shard {
			log = append(log, e.data)
		}
	}
	return log
}

// Hashes returns the state hash of each shard.
func (r *Rig) Hashes() (hashes []uint64) {
	for _, x := range r.execs {
		hashes = append(hashes, x.Applied().Hash)
	}
	return hashes
}

// Row is a row of the state, without its shard.
type Row struct {
	Machine    engine.MachineID
	Key, Value []byte
}

// Rows returns the rows of a shard in order.
func (r *Rig) Rows(shard engine.ShardID) (rows []Row) {
	r.t.Helper()
	lower, upper := engine.Bounds(shard)
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		r.t.Fatalf("iterate over the state: %v", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		rows = append(rows, Row{engine.MachineID(it.Key()[2]), bytes.Clone(it.Key()[3:]), bytes.Clone(it.Value())})
	}
	if err := it.Close(); err != nil {
		r.t.Fatalf("iterate over the state: %v", err)
	}
	return rows
}
