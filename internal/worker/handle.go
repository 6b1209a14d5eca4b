package worker

import (
	"context"
	"runtime/debug"

	"github.com/floedb/floe/internal/plant"
)

// handle runs the handler. A panic is its error. A piece that can be given back is not begun when its context has ended.
func (l *Loop[T]) handle(h *held[T]) (err error) {
	if h.ctx.Err() != nil && l.returner != nil {
		return context.Cause(h.ctx)
	}
	defer func() {
		if plant.On(plant.PanicUncaught) {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return l.cfg.Handle(h.ctx, h.piece)
}
