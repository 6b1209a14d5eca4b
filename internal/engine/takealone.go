package engine

import "context"

// TakeAlone carries out a take where nobody leads: for doors of tests that apply commands one by one, with propose. It knows nothing of turns.
func (x *Executor) TakeAlone(ctx context.Context, t Take, now func() int64, propose func(Command) ([]byte, error)) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, t.Wait)
	defer cancel()
	w := &waiter{c: make(chan struct{}, 1)}
	defer x.hub.unsubscribe(w)
	for k := NewTaking(ctx, t, now); ; {
		l, err := x.look(k)
		if err != nil {
			return nil, err
		}
		if w.parent != l.parent {
			x.hub.unsubscribe(w)
			w.parent = l.parent
		}
		for _, topic := range l.topics {
			if err := x.hub.subscribe(w, topic); err != nil {
				return nil, err
			}
		}
		if l, err = x.look(k); err != nil {
			return nil, err
		}
		if l.n != 0 {
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
		case <-w.c:
		case <-waiting.Done():
			return nil, ctx.Err()
		}
	}
}
