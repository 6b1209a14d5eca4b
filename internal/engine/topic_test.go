package engine

import (
	"errors"
	"testing"
)

// TestWakeUpIsPassedOn: a wake-up meant for one waiter was lost when that one gave up at the same moment.
func TestWakeUpIsPassedOn(t *testing.T) {
	h := newHub()
	a, b := &waiter{c: make(chan struct{}, 1)}, &waiter{c: make(chan struct{}, 1)}
	for _, w := range []*waiter{a, b} {
		if err := h.subscribe(w, 1); err != nil {
			t.Fatal(err)
		}
	}
	h.notify(1, 1)
	h.unsubscribe(a)
	select {
	case <-b.c:
	default:
		t.Error("the first waiter was woken and left; the second still sleeps")
	}
}

// TestTooManyWaiters checks that a query which would be one too many is refused, and that one which waits already may wait for more.
func TestTooManyWaiters(t *testing.T) {
	h := newHub()
	a, b := &waiter{c: make(chan struct{}, 1)}, &waiter{c: make(chan struct{}, 1)}
	h.count.Store(MaxWaiters - 1)
	if err := h.subscribe(a, 1); err != nil {
		t.Fatal(err)
	}
	if err := h.subscribe(b, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("subscribe of one too many = %v, want ErrBusy", err)
	}
	h.unsubscribe(b)
	if err := h.subscribe(a, 2); err != nil {
		t.Errorf("subscribe to a second topic = %v", err)
	}
	h.unsubscribe(a)
	if err := h.subscribe(b, 1); err != nil {
		t.Errorf("subscribe when there is room = %v", err)
	}
}
