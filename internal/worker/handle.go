package worker

import (
	"bytes"
	"context"
	"runtime/debug"

	"github.com/floedb/floe/internal/plant"
)

// handle runs the handler. A panic is its error. A piece that can be given back is not begun when its context has ended.
func (l *Loop[T]) handle(h *held[T]) (err error) {
	if h.ctx.Err() != nil && l.releaser != nil {
		return context.Cause(h.ctx)
	}
	defer func() {
		if plant.On(plant.PanicUncaught) {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: stack()}
		}
	}()
	return l.cfg.Handle(h.ctx, h.piece)
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
