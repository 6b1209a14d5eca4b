package machinetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// doDuties runs the duties of all machines until they have no more work. A duty is ended when it
// sleeps, and restarted the next time. doDuties reports whether that changed anything.
func (r *Rig) doDuties() (changed bool) {
	r.t.Helper()
	for shard, x := range r.execs {
		door := &dutyDoor{r: r, shard: engine.ShardID(shard)}
		for _, d := range x.Duties(r.term, func() engine.LeadDoor { return door }) {
			run := func() error { return d.Run(context.Background(), d.Lead) }
			r.eachRead(fmt.Sprintf("shard %d: duty %v", shard, &d), run)
			if err := run(); !errors.Is(err, errIdle) {
				r.t.Errorf("shard %d: duty %v: %v", shard, &d, err)
			}
		}
		changed = changed || door.proposed
	}
	return changed
}

var errIdle = errors.New("the duty has nothing to do now")

// dutyDoor is an engine.LeadDoor.
type dutyDoor struct {
	r        *Rig
	shard    engine.ShardID
	proposed bool
}

// Now returns the rig's time.
func (d *dutyDoor) Now() int64 { return d.r.Now() }

// Mono returns the elapsed time.
func (d *dutyDoor) Mono() int64 { return d.r.Mono() }

// Propose applies the command.
func (d *dutyDoor) Propose(_ context.Context, cmd engine.Command) ([]byte, error) {
	d.proposed = true
	out := d.r.Entry(d.shard, cmd)[0]
	return out.Result, out.Err
}

// Sleep ends the duty, unless it is woken already.
func (d *dutyDoor) Sleep(_ context.Context, wake <-chan struct{}, until int64) error {
	d.r.failing.asleep()
	select {
	case <-wake:
		return nil
	default:
	}
	if until <= d.Now() {
		return nil
	}
	return errIdle
}
