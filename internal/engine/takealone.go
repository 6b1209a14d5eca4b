package engine

import (
	"context"

	"github.com/floedb/floe/internal/wait"
)

// TakeAlone executes a take without a leader, for doors of tests that apply commands one by one,
// with propose. It does not order takes by turn.
func (x *Executor) TakeAlone(ctx context.Context, t Take, now func() int64, propose func(Command) ([]byte, error)) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, t.Wait)
	defer cancel()
	w := wait.NewWaiter(0)
	defer x.hub.Unsubscribe(w)
	for k := NewTaking(ctx, t, now); ; {
		l, err := x.look(k)
		if err != nil {
			return nil, err
		}
		if w.Parent != l.Parent {
			x.hub.Unsubscribe(w)
			w.Parent = l.Parent
		}
		for _, topic := range l.Topics {
			if err := subscribed(x.hub.Subscribe(w, topic)); err != nil {
				return nil, err
			}
		}
		if l, err = x.look(k); err != nil {
			return nil, err
		}
		if l.N != 0 {
			result, err := propose(t.Command)
			if t.Wait == 0 || x.machine(t.Command.Machine).(Taker).Took(t.Command.Kind, result, err) {
				return result, err
			}
			continue
		}
		if t.Wait == 0 {
			return nil, nil
		}
		select {
		case <-w.Woken():
		case <-waiting.Done():
			return nil, ctx.Err()
		}
	}
}
