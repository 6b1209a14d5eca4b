package worker

import (
	"context"
	"errors"
	"testing"
)

// gives is a Source that takes pieces back.
type gives struct{}

func (gives) Take(context.Context, int) ([]int, error)  { return nil, nil }
func (gives) Settle(context.Context, int, Result) error { return nil }
func (gives) Release(context.Context, []int) error      { return nil }

// TestEach: a piece whose context has ended before its handler began is not handled, unless the handler is to look at that itself. One that kept count of what it had been
// given lost slots for good, because it never heard of a piece that was lost by then.
func TestEach(t *testing.T) {
	over := errors.New("its time is over")
	for _, each := range []bool{false, true} {
		handled := false
		l := New(Config[int]{Source: gives{}, Each: each, Handle: func(ctx context.Context, _ int) error {
			handled = true
			return context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		r := Result{Err: errors.New("none")}
		l.handle(&held[int]{ctx: ctx, cancel: cancel}, &r)
		if handled != each || r.Err != over || r.Panic != nil {
			t.Errorf("each %t: handled %t, %+v", each, handled, r)
		}
	}
}
