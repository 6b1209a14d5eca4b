package engine

import "testing"

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
