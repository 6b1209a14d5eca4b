package workflowtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

const (
	never = engine.NoTimer
	begin = 1_000_000_000_000 // ms
	term  = 1
)

// door is a shard without a log: each command is applied at once, and only the test moves its
// clock.
type door struct {
	t      TB
	x      *engine.Executor
	router *engine.Router
	now    int64
	woken  int64 // next time at which a duty is due
}

var _ engine.Door = (*door)(nil)

// open returns a shard over a store in memory.
func open(t TB) *door {
	t.Helper()
	opts := &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest}
	// compression would only save memory
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open("", opts)
	if err != nil {
		t.Fatalf("workflowtest: %v", err)
	}
	d := &door{t: t, now: begin, woken: never}
	d.x = engine.NewExecutor(engine.Config{
		Shards: 1, DB: db, Primitives: []engine.Primitive{engine.TableOf[action.Store](), engine.TableOf[stream.Store](),
			engine.TableOf[workflow.Store]()},
	})
	if err := d.x.Restore(); err != nil {
		t.Fatalf("workflowtest: %v", err)
	}
	d.router = engine.NewRouter(d)
	t.Cleanup(func() {
		for _, close := range []func() error{d.x.Release, db.Close} {
			if err := close(); err != nil {
				t.Errorf("workflowtest: %v", err)
			}
		}
	})
	return d
}

type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (d *door) flows() *workflow.Store {
	return engine.StoreOf[workflow.Store](d.router, namespace, maxPayload)
}
func (d *door) actions() *action.Store {
	return engine.StoreOf[action.Store](d.router, namespace, maxPayload)
}
func (d *door) streams() *stream.Store {
	return engine.StoreOf[stream.Store](d.router, namespace, maxPayload)
}
func (d *door) Shards() int { return 1 }
func (d *door) Now() int64  { return d.now }

// Propose applies a command.
func (d *door) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := d.x.Check(cmd); err != nil {
		return nil, err
	}
	e := engine.Entry{Stamp: d.now, Commands: [][]byte{cmd.AppendTo(nil)}}
	_, out := d.x.Apply(term, d.x.Applied().Index+1, e.AppendTo(nil), nil)
	if err := d.x.Commit(); err != nil {
		d.t.Fatalf("workflowtest: %v", err)
	}
	return out[0].Result, out[0].Err
}

// Take executes a take.
func (d *door) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	return d.x.TakeAlone(ctx, t, d.Now, func(cmd engine.Command) ([]byte, error) { return d.Propose(ctx, shard, cmd) })
}

// Query answers a query.
func (d *door) Query(ctx context.Context, _ engine.ShardID, q engine.Query) error {
	return d.x.Query(ctx, q, engine.Replica{Now: d.Now})
}

// fire fires the due timers.
func (d *door) fire() {
	for d.x.NextDue() <= d.now {
		if _, err := d.Propose(context.Background(), 0, engine.Fire()); err != nil {
			d.t.Fatalf("workflowtest: %v", err)
		}
	}
}

// nextDue returns when something is due next.
func (d *door) nextDue() int64 { return min(d.x.NextDue(), d.woken) }

// duties does the leader's work besides commands, which makes schedules tick and delivers records
// to triggers, until nothing is left to do now.
func (d *door) duties() {
	for range maxRounds {
		led := &dutyDoor{door: d, next: never}
		for _, duty := range d.x.Duties(term, func() engine.LeadDoor { return led }) {
			if err := duty.Run(context.Background(), duty.Lead); !errors.Is(err, errIdle) {
				d.t.Fatalf("workflowtest: %v: %v", &duty, err)
			}
		}
		if d.woken = led.next; !led.proposed {
			return
		}
		d.fire()
	}
	d.t.Fatalf("workflowtest: schedules and triggers do not come to an end")
}

var errIdle = errors.New("the duty has nothing to do now")

// dutyDoor is a duty's access to its shard. Instead of waiting, it ends the duty.
type dutyDoor struct {
	door     *door
	proposed bool
	next     int64
}

func (l *dutyDoor) Now() int64 { return l.door.now }

func (l *dutyDoor) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	l.proposed = true
	return l.door.Propose(ctx, 0, cmd)
}

func (l *dutyDoor) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	select {
	case <-wake:
		return nil
	default:
	}
	if until <= l.door.now {
		return nil
	}
	l.next = min(l.next, until)
	return errIdle
}
