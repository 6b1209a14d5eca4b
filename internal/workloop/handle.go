package workloop

import (
	"bytes"
	"context"
	"runtime/debug"
)

// handle runs the handler and fills in the result. A panic is its error. A piece that can be given back is not begun when its context has ended, see Config.Each.
func (l *Loop[T]) handle(h *held[T], r *Result) {
	if h.ctx.Err() != nil && l.releaser != nil && !l.cfg.Each {
		r.Err, r.Panic = context.Cause(h.ctx), nil
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.Panic = newPanicError(v, stack())
			r.Err = r.Panic
		}
	}()
	r.Err, r.Panic = l.cfg.Handle(h.ctx, h.piece), nil
}

func (l *Loop[T]) report(piece *T, err error) {
	if l.cfg.OnError != nil {
		Callback(func() { l.cfg.OnError(piece, err) })
	}
}

// Callback calls f, a function of the user's, in a goroutine of its own and waits for it. If f panics or calls runtime.Goexit, that harms neither the process nor the
// caller; the panic is dropped.
func Callback(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

// stack returns the stack of a panic, from where it was on: what is above that is the same each time, and reasons are short.
func stack() []byte {
	all := debug.Stack()
	_, below, found := bytes.Cut(all, []byte("\npanic("))
	for range 2 { // the call of panic, and where that is
		_, rest, more := bytes.Cut(below, []byte("\n"))
		below, found = rest, found && more
	}
	if !found {
		return all
	}
	return below
}
