package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// watchPushes is the duty that proposes due pushes. Apply determines their batches.
func (m *machine) watchPushes(ctx context.Context, lead *engine.Lead) error {
	most := maxBatches
	for {
		var c pushCommand
		cmd := engine.Command{Machine: engine.MachineStream, Kind: kindPush}
		err := lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(pushTopic()); err != nil {
				return err
			}
			c = pushCommand{most: uint64(most)}
			cmd.Namespace, err = nextPushes(v, &c)
			if err == nil && cmd.Namespace == "" {
				err = engine.ErrWait
			}
			cmd.Spread = v.Spread(cmd.Namespace)
			return err
		})
		if err != nil {
			return err
		}
		cmd.Body = encodeBody(&c, (*pushCommand).code)
		_, err = lead.Propose(ctx, cmd)
		if most == 1 && isTooMuch(err) {
			// The writes for this batch alone exceed the limit. The command names the batch: others
			// may be due by now.
			c.bury, c.batch = err.Error(), m.tried.Load()
			cmd.Body = encodeBody(&c, (*pushCommand).code)
			_, err = lead.Propose(ctx, cmd)
		}
		switch {
		case err == nil || errors.Is(err, ErrConflict):
			most = maxBatches
		case most > 1 && isTooMuch(err):
			most = 1 // the writes for several batches exceed the limit of one command
		default:
			return err
		}
	}
}

// isTooMuch reports whether a command was rejected because of its writes.
func isTooMuch(err error) bool {
	var refused *engine.Error
	return errors.As(err, &refused) && errors.Is(err, ErrInvalid)
}

// nextPushes adds due pushes to a command: those of one namespace, or only the first one if the
// limit is one batch. It returns the namespace, "" if none is due.
func nextPushes(v *engine.View, c *pushCommand) (namespace string, err error) {
	it, err := v.Iter([]byte{rowPushDue}, []byte{rowPushDue + 1})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	of := uint32(0)
	for ok := it.First(); ok && uint64(len(c.pushes)) < c.most; ok = it.Next() {
		due, ns, stream, subscriber, ok := parsePushDue(it.Key())
		if !ok {
			return "", fmt.Errorf("stream: row %x: %w", it.Key(), codec.ErrCorrupt)
		}
		if due > v.Now() {
			v.WakeAt(due)
			break
		}
		if len(c.pushes) > 0 && ns != of {
			break
		}
		c.pushes, of = append(c.pushes, pushRef{stream, subscriber}), ns
	}
	if len(c.pushes) == 0 {
		return "", nil
	}
	namespace, ok := v.NamespaceName(of)
	if !ok {
		return "", fmt.Errorf("stream: pushes of unknown namespace %d", of)
	}
	return namespace, nil
}

// queryPush answers a query for the state of a subscription.
func (m *machine) queryPush(v *engine.View, q *protocol.SubscriptionQuery) error {
	v.Freeze()
	ns, ok := v.Namespace(q.Namespace)
	if !ok {
		return nil
	}
	b, ok, err := v.Get(pushKey(nil, ns, q.Stream, q.Key))
	if err != nil || !ok {
		return err
	}
	f, err := decodePush(b)
	if err != nil {
		return err
	}
	q.Info = protocol.SubscriptionInfo{
		Found: true, Revision: f.Revision, Paused: f.Paused, Full: f.wantsCredit(), Active: f.active, Sent: f.sent,
		Taken: f.delivered, Repeated: f.repeated, Refused: f.refused, Records: f.records, Note: f.note,
	}
	w, err := viewOf(v, q.Namespace, q.Stream)
	if err != nil || w == nil {
		return err
	}
	q.Info.Exists = true
	g, err := w.group(f.Group)
	if err != nil || g == nil {
		return err
	}
	q.Info.Grouped = true
	parts, err := w.all()
	if err != nil {
		return err
	}
	l := look{v: v, w: w, g: g}
	for p := range parts {
		if !w.here(p) {
			continue
		}
		next, err := l.next(p, &parts[p])
		if err != nil {
			return err
		}
		c, err := w.cursor(g, p)
		if err != nil {
			return err
		}
		q.Info.Lag += int64(parts[p].last + 1 - next + c.held + c.pending)
	}
	return nil
}
