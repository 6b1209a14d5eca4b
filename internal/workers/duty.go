package workers

import (
	"context"
	"encoding/binary"

	"github.com/floedb/floe/internal/engine"
)

// Duty returns the duty of a shard's leader for its workers.
func (r *Registry) Duty() engine.Duty { return engine.Duty{Name: "workers", Run: r.watch} }

// watch scans the rows every 10 s, while there are any, and writes changed heartbeats to them.
func (r *Registry) watch(ctx context.Context, lead *engine.Lead) error {
	r.lead(lead.Term(), moment{lead.Now(), lead.Mono()})
	defer func() {
		if ctx.Err() != nil { // otherwise this replica still leads
			r.stepDown()
		}
	}()
	next := int64(0) // start of the next pass
	var p pass
	for {
		err := lead.View(ctx, func(v *engine.View) error {
			if err := v.WaitOn(topic()); err != nil {
				return err
			}
			if v.Now() < next {
				v.WakeAt(next)
				return engine.ErrWait
			}
			if err := r.walk(v, &p); err != nil || !p.note.empty() {
				return err
			}
			if p.rows > 0 {
				next = v.Now() + lead.Patience(reportMillis)
				v.WakeAt(next)
			}
			p = pass{}
			return engine.ErrWait
		})
		if err != nil {
			return err
		}
		if _, err := lead.Propose(ctx, p.command()); err != nil {
			return err
		}
		p.note, p.bytes = noteBody{}, 0
	}
}

// pass is a scan of the rows and the next command that it will propose.
type pass struct {
	from   []byte // first key not scanned yet; nil: all
	rows   int
	note   noteBody
	bytes  int
	ns     uint32 // namespace of the command
	name   string // of ns
	spread bool
}

func (n *noteBody) empty() bool { return len(n.list)+len(n.gone) == 0 }

func (p *pass) command() engine.Command {
	cmd := note.Op("", p.note, nil).Command
	cmd.Namespace, cmd.Spread = p.name, p.spread
	return cmd
}

// walk continues the scan until the command is full, the namespace ends and the command is not
// empty, or there are no more rows.
func (r *Registry) walk(v *engine.View, p *pass) error {
	lower := p.from
	if lower == nil {
		lower = []byte{rowWorker}
	}
	return scanRows(v, lower, []byte{rowWorker + 1}, func(w workerRef, value []byte) (more bool, err error) {
		if full := len(p.note.list)+len(p.note.gone) >= maxBatch || p.bytes >= maxBatchBytes; full || w.ns != p.ns && !p.note.empty() {
			p.from = workerKey(w.ns, w.id)
			return false, nil
		}
		if p.rows == 0 || w.ns != p.ns {
			p.ns, p.spread = w.ns, false
			if p.name, _ = v.NamespaceName(w.ns); p.name != "" {
				p.spread = v.Spread(p.name)
			}
		}
		p.from = append(workerKey(w.ns, w.id), 0)
		if p.rows++; p.name == "" {
			return true, nil
		}
		return true, r.examine(v, p, w, value)
	})
}

// examine adds a worker's update or removal to the command, if its row is out of date.
func (r *Registry) examine(v *engine.View, p *pass, w workerRef, value []byte) error {
	kept, err := decodeRow(value)
	if err != nil {
		return err
	}
	at, now := kept, present(v)
	age := r.overlay(w, &at, now)
	if kept.silent && at.silent {
		if age >= goneMillis && r.settled(now) {
			p.note.gone = append(p.note.gone, going{w.id, kept.seen})
			p.bytes += len(w.id)
		}
		return nil
	}
	if at.silent = age >= silentMillis; at.silent {
		held, err := r.held(v, w, &at)
		if err != nil {
			return err
		}
		at.silent = held == 0
	}
	if at.silent == kept.silent && (!at.silent || at.seen == kept.seen) && at.present.equal(&kept.present) {
		return nil
	}
	p.note.list = append(p.note.list, noting{w.id, kept.life, kept.seen, at.silent, at.seen, at.load, at.present})
	p.bytes += len(value)
	return nil
}

// scanRows calls f for the workers with lower <= key < upper until f returns false.
func scanRows(v *engine.View, lower, upper []byte, f func(w workerRef, value []byte) (more bool, err error)) error {
	return v.Scan(lower, upper, func(k, value []byte) (bool, error) {
		if len(k) <= idAt {
			return true, nil
		}
		return f(refOf(k), value)
	})
}

func refOf(k []byte) workerRef { return workerRef{binary.BigEndian.Uint32(k[1:]), string(k[idAt:])} }
