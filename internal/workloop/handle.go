package workloop

import (
	"bytes"
	"context"
	"runtime/debug"
)

// handle runs the handler and fills in the result. A panic is an error. If the piece's context has
// ended and the source takes pieces back, the handler is not called, except with Config.Each.
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

// Callback calls a user's function in a separate goroutine and waits for it. A panic of f is
// dropped, and runtime.Goexit ends only that goroutine.
func Callback(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

// stack returns the stack of a panic, starting at the panicking function. The frames above it are
// the same for every panic, and the length of an error text is limited.
func stack() []byte {
	all := debug.Stack()
	_, below, found := bytes.Cut(all, []byte("\npanic("))
	for range 2 { // the two lines of the frame of panic
		_, rest, more := bytes.Cut(below, []byte("\n"))
		below, found = rest, found && more
	}
	if !found {
		return all
	}
	return below
}
