package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/cron"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Due holds the due ticks of a schedule, decided together. All times are Unix ms.
type Due struct {
	Revision uint64 // of the schedule
	After    int64  // the time up to which ticks were already decided
	Run      []int64
	Missed   int64
	Last     int64 // the time up to which these ticks are decided
	Next     int64 // or cron.Never
	Release  bool  // a tick that waited for a run to end can run
	Problem  string
}

// Code codes the ticks; release selects whether Release is coded.
func (d *Due) Code(c *codec.Coder, release bool) {
	c.Uvarint(&d.Revision)
	c.Varint(&d.After)
	codec.List(c, &d.Run, (*codec.Coder).Varint)
	c.Varint(&d.Missed)
	c.Varint(&d.Last)
	if c.Deadline(&d.Next); release {
		c.Bool(&d.Release)
	}
	c.String(&d.Problem)
}

// Follows reports whether the ticks continue a schedule with the given revision whose ticks are
// decided up to last.
func (d *Due) Follows(revision uint64, last int64) bool {
	if d.Revision != revision || d.After != last {
		return false
	}
	for _, at := range d.Run {
		if at <= last {
			return false
		}
		last = at
	}
	return d.Last >= last && d.Next > d.Last && d.Missed >= 0
}

// State is a schedule as seen by a view.
type State struct {
	Namespace uint32
	Spec      cron.Spec
	CatchUp   cron.CatchUp
	Limit     int // of cron.CatchUpAll
	Revision  uint64
	Last      int64
	Release   bool
	Input     int64 // bytes that a tick writes
}

// Machine gives the duty access to the schedules of a machine. T is the machine's command entry for
// a schedule.
type Machine[T any] struct {
	ID    engine.MachineID
	Topic engine.Topic // notified when a schedule becomes due earlier
	Row   byte         // of the index, whose keys continue with a time (ms, as key.AppendInt64)
	Kind  uint8        // of the command, whose body is a list
	Code  func(*T, *codec.Coder)
	// Most is the maximum number of ticks per command, which bounds their writes.
	Most int
	// Read returns the schedule of an index row, whose key ends in rest, and its entry for the
	// command. due is filled in afterwards.
	Read func(v *engine.View, rest []byte) (s State, item T, err error)
	Due  func(*T) *Due
	// Problem describes a Spec that can no longer be parsed.
	Problem func(error) string
}

// maxInputs is the maximum size, in bytes, of the inputs of a command's ticks.
const maxInputs = 8 << 20

// Watch is the duty: it proposes ticks when they are due, until ctx is done.
func (m *Machine[T]) Watch(ctx context.Context, lead *engine.Lead) error {
	var p cron.Parser
	for {
		var cmd engine.Command
		err := lead.View(ctx, func(v *engine.View) error {
			if err := v.WaitOn(m.Topic); err != nil {
				return err
			}
			found, err := m.next(v, &p, &cmd)
			if err == nil && !found {
				err = engine.ErrWait
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := lead.Propose(ctx, cmd); err != nil && !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
}

// room is the remaining capacity of a command for ticks.
type room struct {
	ticks  int
	inputs int64
}

func (r *room) take(n int, size int64) { r.ticks, r.inputs = r.ticks-n, r.inputs-int64(n)*size }

// next builds a command for the schedules of one namespace that are due now, as many as fit into a
// command.
func (m *Machine[T]) next(v *engine.View, p *cron.Parser, cmd *engine.Command) (found bool, err error) {
	var all []T
	left, of := room{m.Most, maxInputs}, uint32(0)
	err = v.Scan([]byte{m.Row}, []byte{m.Row + 1}, func(k, _ []byte) (bool, error) {
		if len(k) < restAt {
			return false, fmt.Errorf("machine %d: row %x is not when a schedule is due", m.ID, k)
		}
		if at := key.Int64(k[1:]); at > v.Now() {
			v.WakeAt(at)
			return false, nil
		}
		s, item, err := m.Read(v, k[restAt:])
		if err != nil || len(all) > 0 && s.Namespace != of {
			return false, err
		}
		due := m.Due(&item)
		*due = Due{Revision: s.Revision, After: s.Last, Last: s.Last, Next: cron.Never, Release: s.Release}
		if times, err := p.Parse(s.Spec); err != nil {
			due.Problem = m.Problem(err)
		} else {
			s.due(due, times, v.Now(), &left)
		}
		all, of = append(all, item), s.Namespace
		return len(all) < m.Most && left.ticks > 0 && left.inputs > 0, nil
	})
	if err != nil || len(all) == 0 {
		return false, err
	}
	name, ok := v.NamespaceName(of)
	if !ok {
		return false, fmt.Errorf("machine %d: schedules of unknown namespace %d", m.ID, of)
	}
	body := codec.Encode(nil, &all, m.CodeAll)
	*cmd = engine.Command{Machine: m.ID, Kind: m.Kind, Namespace: name, Spread: v.Spread(name), Body: body}
	return true, nil
}

const restAt = 9 // after the time in an index key

// CodeAll codes the body of the command.
func (m *Machine[T]) CodeAll(all *[]T, c *codec.Coder) {
	codec.List(c, all, func(c *codec.Coder, item *T) { m.Code(item, c) })
}

// due sets the ticks up to now, as many as fit, but at least one.
func (s *State) due(d *Due, times *cron.Schedule, now int64, left *room) {
	if d.Release {
		left.take(1, s.Input)
	}
	most := min(left.ticks, int(max(left.inputs, 0)/max(s.Input, 1)))
	t := times.Ticks(s.Last, now, s.CatchUp, s.Limit, max(most, 1))
	d.Run, d.Missed, d.Last, d.Next = t.Run, t.Missed, t.Last, t.Next
	left.take(len(d.Run), s.Input)
}
