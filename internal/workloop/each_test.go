package workloop

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

// TestEach: the handler is not called for a piece whose context has ended, unless Config.Each is
// set. Without Each, a handler that counts its pieces missed such a piece and its slot was never
// freed.
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
