package wait

import (
	"context"
	"slices"
	"testing"
)

func newClaim(ctx context.Context, since int64) *Claim {
	c := &Claim{Blocking: true}
	c.Init(ctx, since)
	return c
}

// lookAt is a look at one topic.
func lookAt(t Topic, n int) *Look { return &Look{N: n, Most: 1, Topics: []Topic{t}, WakeAt: Never} }

// parkAll parks claims on a topic that have waited since these times.
func parkAll(t *testing.T, h *Hub, topic Topic, since ...int64) (claims []*Claim) {
	t.Helper()
	for _, at := range since {
		c := newClaim(t.Context(), at)
		if waits, err := h.Park(c, lookAt(topic, 0)); !waits || err != nil {
			t.Fatalf("Park = %t, %v", waits, err)
		}
		claims = append(claims, c)
	}
	return claims
}

// TestClaimStates follows a claim along each arrow of the drawing in the package comment.
func TestClaimStates(t *testing.T) {
	h := NewHub()
	expect := func(c *Claim, s state, waiting int) {
		t.Helper()
		if c.state != s || h.Waiting() != waiting || h.HasParked() != (waiting > 0) || h.HasQueries() {
			t.Fatalf("state %d with %d waiting, want %d with %d", c.state, h.Waiting(), s, waiting)
		}
	}
	c := newClaim(t.Context(), 0)
	if !h.Begin(c, lookAt(1, 1)) || h.Pull(c) || h.Unpark(c) {
		t.Fatal("Begin of a new claim")
	}
	expect(c, underWay, 0)
	if !h.Awaited(1) {
		t.Error("the topic of a claim that is under way is not awaited")
	}
	h.End(c)
	if h.Awaited(1) {
		t.Error("a topic is awaited after the claim has ended")
	}
	for range 2 {
		h.Park(c, lookAt(1, 0))
		expect(c, parked, 1)
		if !h.Pull(c) {
			t.Fatal("Pull of a parked claim")
		}
		expect(c, underWay, 0)
		h.End(c)
		h.Park(c, lookAt(1, 0))
		if !h.Unpark(c) {
			t.Fatal("Unpark of a parked claim")
		}
		expect(c, underWay, 0)
		h.End(c)
	}
	h.Park(c, lookAt(1, 0))
	for range 2 {
		if !h.Abandon(c) || h.Pull(c) {
			t.Fatal("Abandon of a parked claim")
		}
	}
	expect(c, answered, 0)

	c = parkAll(t, h, 1, 0)[0]
	h.Pull(c)
	if h.Abandon(c) {
		t.Fatal("Abandon of a claim that is under way")
	}
	h.End(c)
	if waits, err := h.Park(c, lookAt(1, 0)); waits || err != nil {
		t.Errorf("Park after Abandon = %t, %v", waits, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	c = newClaim(ctx, 0)
	h.Park(c, lookAt(1, 0))
	cancel()
	if got := h.PullFirst(nil, Wakeup{Topic: 1, N: 1}, 1); len(got) > 0 {
		t.Error("a claim was pulled after its caller had left")
	}
	expect(c, answered, 0)
	if len(h.lines) > 0 {
		t.Errorf("left without waiters: %v", h.lines)
	}
}

// TestReservations checks that no more claims get under way than the available items are enough
// for, and that End releases what a claim had reserved.
func TestReservations(t *testing.T) {
	h := NewHub()
	first, second := newClaim(t.Context(), 0), newClaim(t.Context(), 0)
	if !h.Begin(first, lookAt(1, 1)) || h.Begin(second, lookAt(1, 1)) {
		t.Fatal("one item is not reserved for one claim")
	}
	if other := newClaim(t.Context(), 0); !h.Begin(other, lookAt(1, Any)) || h.End(other).Topic != 0 {
		t.Fatal("Begin refused a claim for a number of items that is not known")
	}
	claims := parkAll(t, h, 1, 0, 0, 0)
	if got := h.PullFirst(nil, Wakeup{Topic: 1, N: MaxClaims}, 1); len(got) > 0 {
		t.Fatalf("%d claims are under way for a reserved item", len(got))
	}
	if got := h.PullProduced(nil, Wakeup{Topic: 1, N: 1}, 10); !slices.Equal(got, claims[:1]) {
		t.Fatalf("%d claims are under way for a produced item, want the first one", len(got))
	}
	if w := h.End(first); w.Topic != 1 || w.N != MaxClaims {
		t.Fatalf("End = %+v, want a wake-up for the other claims", w)
	}
	if w := h.End(first); w.Topic != 0 {
		t.Fatalf("second End = %+v", w)
	}
	if got := h.PullFirst(claims[:0:0], Wakeup{Topic: 1, N: 1}, 9); !slices.Equal(got, claims[1:2]) {
		t.Fatalf("%d claims are under way after End, want the next one", len(got))
	}
	if h.Begin(second, lookAt(1, 9)) {
		t.Error("a new claim got ahead of a parked one")
	}
	second.Blocking = false
	if !h.Begin(second, lookAt(1, 9)) || second.Among() != 2 {
		t.Errorf("a claim that does not block is under way among %d, want 2", second.Among())
	}
	for _, c := range []*Claim{second, claims[0], claims[1]} {
		h.End(c)
	}
	if l := h.lines[1]; l.reserved != 0 {
		t.Errorf("%d items are reserved after all claims have ended", l.reserved)
	}
}

// TestClaimsProceedInTurn checks the order of claims, that those for other kinds are passed over,
// and that a claim which found nothing returns to its place.
func TestClaimsProceedInTurn(t *testing.T) {
	h := NewHub()
	claims := parkAll(t, h, 1, 20, 10, 30, 10)
	want := []*Claim{claims[1], claims[3], claims[0], claims[2]}
	if got := h.ParkedOn(Wakeup{Topic: 1}, 9); !slices.Equal(got, want) {
		t.Error("parked in another order")
	}
	got := h.PullFirst(nil, Wakeup{Topic: 1, N: 2}, 9)
	if !slices.Equal(got, want[:2]) || got[0].Among() != 4 || got[1].Among() != 3 {
		t.Fatalf("pulled %d claims, want the first two", len(got))
	}
	for i := range got { // the later one returns first
		c := got[1-i]
		h.End(c)
		h.Park(c, lookAt(1, 0))
	}
	if got := h.ParkedOn(Wakeup{Topic: 1}, 9); !slices.Equal(got, want) {
		t.Error("claims that found nothing have lost their places")
	}
	if got := h.ParkedOn(Wakeup{Topic: 1}, 1); !slices.Equal(got, want[:1]) {
		t.Error("ParkedOn exceeds its limit")
	}

	of := NoSlots()
	of.Add(7)
	only := lookAt(2, 0)
	only.Only = NoSlots()
	only.Only.Add(70)
	c := newClaim(t.Context(), 0)
	h.Park(c, only)
	if len(h.PullFirst(nil, Wakeup{Topic: 2, N: 1, Of: of}, 1))+len(h.ParkedOn(Wakeup{Topic: 2, Of: of}, 1)) > 0 {
		t.Error("a claim is woken for a kind that it does not want")
	}
	of.Add(70)
	if got := h.PullFirst(nil, Wakeup{Topic: 2, N: 1, Of: of}, 1); len(got) != 1 {
		t.Error("a claim is not woken for the kind that it wants")
	}
}

// TestPullProducedWithin checks that a limit holds for all topics within a parent together, in the
// order of their first waiters.
func TestPullProducedWithin(t *testing.T) {
	h := NewHub()
	var claims []*Claim
	for _, topic := range []Topic{3, 1, 3, 2} {
		l := lookAt(topic, 0)
		l.Parent = 9
		c := newClaim(t.Context(), 0)
		h.Park(c, l)
		claims = append(claims, c)
	}
	if got := h.Children(9); !slices.Equal(got, []Topic{3, 1, 2}) {
		t.Errorf("children = %v", got)
	}
	before := newClaim(t.Context(), 0)
	got := h.PullProduced([]*Claim{before}, Wakeup{Topic: 9, N: 1, Within: true}, 2)
	if !slices.Equal(got, []*Claim{before, claims[0], claims[1]}) {
		t.Errorf("pulled %d claims, want the first of topics 3 and 1", len(got)-1)
	}
	if got := h.PullProduced(nil, Wakeup{Topic: 9, N: 5, Within: true}, 9); !slices.Equal(got, []*Claim{claims[2], claims[3]}) {
		t.Errorf("pulled %d claims, want the other two", len(got))
	}
}

// TestFits checks that a parked claim adopts a new look at the same topics, and reports another
// one.
func TestFits(t *testing.T) {
	h := NewHub()
	c := parkAll(t, h, 1, 0)[0]
	l := lookAt(1, 0)
	if !h.Fits(c, l) || h.WakeAt(c) != Never || len(c.moved) > 0 {
		t.Error("the same look does not fit")
	}
	if l.WakeAt = 5; !h.Fits(c, l) || h.WakeAt(c) != 5 {
		t.Error("a look with another time does not fit")
	}
	select {
	case <-c.Moved():
	default:
		t.Error("Moved has no value after WakeAt has changed")
	}
	l.WaitFor(2)
	if h.Fits(c, l) {
		t.Error("a look at more topics fits")
	}
	if l = lookAt(1, 0); !h.Fits(c, l) {
		t.Error("the first look does not fit any longer")
	}
	if l.Parent = 9; h.Fits(c, l) {
		t.Error("a look with another parent fits")
	}
	if h.Unpark(c); !h.Fits(c, l) {
		t.Error("a claim that is not parked does not fit")
	}
}

// TestExpel checks that all claims are expelled, once each, in the order of arrival.
func TestExpel(t *testing.T) {
	h := NewHub()
	claims := parkAll(t, h, 1, 30, 20)
	both := newClaim(t.Context(), 10)
	l := lookAt(2, 0)
	for topic := range Topic(3 * fewTopics) {
		l.WaitFor(topic)
		l.WaitFor(topic)
	}
	if len(l.Topics) != 3*fewTopics {
		t.Fatalf("%d topics, want each once", len(l.Topics))
	}
	h.Park(both, l)
	if got := h.Expel(); !slices.Equal(got, append(claims, both)) {
		t.Errorf("%d claims are expelled, want 3 in the order of arrival", len(got))
	}
	if h.Waiting() != 0 || len(h.lines) > 0 {
		t.Errorf("%d wait after Expel", h.Waiting())
	}
}

// TestFullHub checks that a new claim is refused when MaxWaiters wait, but not one that returns.
func TestFullHub(t *testing.T) {
	h := NewHub()
	c := parkAll(t, h, 1, 0)[0]
	h.Pull(c)
	h.End(c)
	h.waiters.Store(MaxWaiters)
	if waits, err := h.Park(newClaim(t.Context(), 0), lookAt(1, 0)); waits || err == nil {
		t.Errorf("Park of one too many = %t, %v", waits, err)
	}
	if waits, err := h.Park(c, lookAt(1, 0)); !waits || err != nil {
		t.Errorf("Park of a claim that returns = %t, %v", waits, err)
	}
}

// TestMerge checks that wake-ups of one topic are merged, with the kinds of both.
func TestMerge(t *testing.T) {
	some, others := NoSlots(), NoSlots()
	some.Add(1)
	others.Add(2)
	due := Merge(nil, Wakeup{Topic: 1, N: 2, Of: some})
	due = Merge(due, Wakeup{Topic: 1, N: 3, Within: true, Of: some})
	due = Merge(due, Wakeup{Topic: 1, N: 3, Of: others})
	if len(due) != 2 || due[0].N != 5 || !due[0].Of.Has(1) || !due[0].Of.Has(2) || due[0].Of.Has(3) {
		t.Errorf("merged: %+v", due)
	}
	due = Merge(due, Wakeup{Topic: 1, N: -1})
	if due = Merge(due, Wakeup{Topic: 1, N: 4}); len(due) != 2 || due[0].N != -1 || !due[0].Of.Has(3) {
		t.Errorf("merged with a wake-up for all: %+v", due)
	}
}

// BenchmarkSubscribe measures a query that waits behind 100 others, is woken and leaves.
func BenchmarkSubscribe(b *testing.B) {
	h := NewHub()
	b.ReportAllocs()
	for i := range int64(100) {
		if err := h.Subscribe(NewWaiter(i), 1); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		w := NewWaiter(1000)
		if err := h.Subscribe(w, 1); err != nil {
			b.Fatal(err)
		}
		h.Notify(1, 1)
		h.Unsubscribe(w)
	}
}

// BenchmarkClaim measures 4 of 100 claims that are pulled, find nothing and are parked again.
func BenchmarkClaim(b *testing.B) {
	h := NewHub()
	b.ReportAllocs()
	for range 100 {
		h.Park(newClaim(b.Context(), 0), lookAt(1, 0))
	}
	l := lookAt(1, 0)
	for b.Loop() {
		var few [16]*Claim
		for _, c := range h.PullProduced(few[:0], Wakeup{Topic: 1, N: 4}, 100) {
			h.End(c)
			h.Park(c, l)
		}
	}
}
