package check

import (
	"fmt"
	"strings"
	"testing"
)

// story feeds Deliveries with a sequence of calls, each at its own time.
type story struct {
	*Deliveries
	t      *testing.T
	now    int64
	places map[string]Item
}

func newStory(t *testing.T) *story {
	return &story{Deliveries: NewDeliveries(), t: t, places: make(map[string]Item)}
}

func (s *story) tick() int64 {
	s.now++
	return s.now
}

// send sends items with a key; "a/key" is item a.
func (s *story) send(items ...string) {
	for _, name := range items {
		body, key, _ := strings.Cut(name, "/")
		place := uint64(len(s.places) + 1)
		s.places[body] = Item{Body: body, Key: key, At: fmt.Sprint(place), Place: place}
		s.MaybeSent(body)
		s.Sent(s.places[body])
	}
}

// of returns the delivery named "a2": item a, attempt 2.
func (s *story) of(name string) Delivery {
	body, attempt := name[:1], int(name[1]-'0')
	i := s.places[body]
	return Delivery{Body: body, At: i.At, Key: i.Key, Place: i.Place, Attempt: attempt, LSN: uint64(attempt)}
}

// read delivers the named items in one call.
func (s *story) read(consumer string, names ...string) {
	r := s.Read(s.tick(), consumer)
	var list []Delivery
	for _, name := range names {
		list = append(list, s.of(name))
	}
	r.Done(s.tick(), list...)
}

func (s *story) settle(o Outcome, names ...string) {
	for _, name := range names {
		s.Settle(s.tick(), s.of(name), o).Done(s.tick())
	}
}

func (s *story) ack(names ...string) { s.settle(Acked, names...) }

func (s *story) doubt(names ...string) {
	for _, name := range names {
		s.Settle(s.tick(), s.of(name), Acked)
	}
}

func (s *story) bury(body string, attempts int) {
	if err := s.Dead(Dead{body, attempts}); err != nil {
		s.t.Fatal(err)
	}
}

// TestDeliveries feeds possible and impossible histories.
func TestDeliveries(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(s *story)
		all  Totals
		want string // of the error
	}{
		"nothing":  {func(*story) {}, Totals{}, ""},
		"one":      {func(s *story) { s.send("a"); s.read("x", "a1"); s.ack("a1") }, Totals{Enqueued: 1, Acked: 1}, ""},
		"never":    {func(s *story) { s.send("a") }, Totals{Enqueued: 1, Acked: 1}, "lost: it was never delivered"},
		"vanished": {func(s *story) { s.send("a"); s.read("x", "a1") }, Totals{Enqueued: 1, Acked: 1}, "lost: nobody acked it"},
		"in doubt": {func(s *story) { s.send("a"); s.read("x", "a1"); s.doubt("a1"); s.read("x", "a2"); s.ack("a2") },
			Totals{Enqueued: 1, Acked: 1}, ""},
		"doubtful only": {func(s *story) { s.send("a"); s.read("x", "a1"); s.doubt("a1") }, Totals{Enqueued: 1, Acked: 1}, ""},
		"maybe sent": {func(s *story) {
			s.MaybeSent("a")
			s.MaybeSent("b")
			s.read("x", "a1")
			s.ack("a1")
		}, Totals{Enqueued: 1, Acked: 1}, ""},
		"by nobody": {func(s *story) { s.read("x", "a1"); s.ack("a1") }, Totals{Enqueued: 1, Acked: 1}, "nobody sent it"},
		"behind ack": {func(s *story) { s.send("a"); s.read("x", "a1"); s.ack("a1"); s.read("x", "a2") }, Totals{Enqueued: 1, Acked: 1},
			"attempt 2, although an ack of attempt 1 was confirmed"},
		"late ack": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.read("y", "a2")
			s.ack("a1")
		}, Totals{Enqueued: 1, Acked: 1}, "although an ack of attempt 1"},
		"not sent": {func(s *story) {
			s.MaybeSent("a")
			s.NotSent("a")
			s.read("x", "a1")
			s.ack("a1")
		}, Totals{Enqueued: 1, Acked: 1}, "nobody sent it"},
		"an ack that never was": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.Settle(s.tick(), s.of("a1"), Acked).Never()
		}, Totals{Enqueued: 1, Acked: 1}, "lost: nobody acked it"},
		"late nack": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.read("y", "a2")
			s.settle(Nacked, "a1")
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, "the nack of attempt 1 was accepted"},
		"two acks": {func(s *story) { s.send("a"); s.read("x", "a1"); s.ack("a1", "a1") }, Totals{Enqueued: 1, Acked: 1}, "two acks of it"},
		"same attempt": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.read("x", "a1")
			s.ack("a1")
		}, Totals{Enqueued: 1, Acked: 1}, "attempt 1 behind attempt 1"},
		"attempts fall with the log": {func(s *story) {
			s.send("a")
			one, two := s.of("a1"), s.of("a2")
			one.LSN, two.LSN = 9, 8
			s.Read(s.tick(), "x").Done(s.tick(), one)
			s.Read(s.tick(), "x").Done(s.tick(), two)
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, "attempt 1 behind attempt 2"},
		"attempts go back": {func(s *story) {
			s.send("a")
			s.read("x", "a2")
			s.read("x", "a1")
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, "attempt 2 was over when attempt 1 began"},
		"too often": {func(s *story) { s.send("a"); s.read("x", "a4"); s.ack("a4") }, Totals{Enqueued: 1, Acked: 1},
			"attempt 4 of at most 3"},
		"dead": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.bury("a", 3)
		}, Totals{Enqueued: 1, Dead: 1}, ""},
		"dead too early": {func(s *story) { s.send("a"); s.read("x", "a1"); s.bury("a", 2) }, Totals{Enqueued: 1, Dead: 1},
			"a dead letter after 2 attempts of 3"},
		"buried": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.settle(Buried, "a1")
			s.bury("a", 1)
		}, Totals{Enqueued: 1, Dead: 1}, ""},
		"dead and acked": {func(s *story) { s.send("a"); s.read("x", "a3"); s.ack("a3"); s.bury("a", 3) }, Totals{Enqueued: 1, Dead: 1},
			"a dead letter, although"},
		"two places": {func(s *story) {
			s.send("a")
			other := s.of("a2")
			other.At = "77"
			s.read("x", "a1")
			s.Read(s.tick(), "x").Done(s.tick(), other)
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, "it was sent once"},
		"one place": {func(s *story) {
			s.send("a", "b")
			s.places["b"] = Item{Body: "b", At: "1", Place: 1}
			s.Sent(s.places["b"])
			s.read("x", "a1", "b1")
			s.ack("a1", "b1")
		}, Totals{Enqueued: 2, Acked: 2}, "are both at 1"},
		"stale": {func(s *story) {
			s.send("a")
			s.read("x", "a1")
			s.read("y", "a2")
			s.Settle(s.tick(), s.of("a1"), Acked).Stale(s.tick())
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, ""},
		"refused too early": {func(s *story) {
			s.send("a")
			one := s.of("a1")
			one.Until = 1000
			s.Read(s.tick(), "x").Done(s.tick(), one)
			s.Settle(s.tick(), one, Acked).Stale(s.tick())
			s.read("y", "a2")
			s.ack("a2")
		}, Totals{Enqueued: 1, Acked: 1}, "although its lease was good until 1000"},
		"left over": {func(s *story) { s.send("a"); s.read("x", "a1"); s.doubt("a1") }, Totals{Enqueued: 1, Ready: 1},
			"1 items are left"},
		"bad sum": {func(s *story) { s.send("a"); s.read("x", "a1"); s.ack("a1") }, Totals{Enqueued: 2, Acked: 1},
			"that is 1 items of 2"},
		"sent twice": {func(s *story) { s.send("a"); s.read("x", "a1"); s.ack("a1") }, Totals{Enqueued: 2, Acked: 2},
			"but there were 1 items"},
		"unknown acked": {func(s *story) { s.send("a"); s.read("x", "a1"); s.doubt("a1"); s.bury("a", 3) }, Totals{Enqueued: 1, Acked: 1},
			"1 dead letters among them"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.Max = 3
			c.tell(s)
			checkStory(t, s, c.all, c.want)
		})
	}
}

func checkStory(t *testing.T, s *story, all Totals, want string) {
	t.Helper()
	_, err := s.Check(all)
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("Check = %v, want %q", err, want)
	}
}

// TestDeliveriesInOrder feeds histories of keys, with items a and b, one before the other.
func TestDeliveriesInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(s *story)
		want string
	}{
		"one by one":   {func(s *story) { s.read("x", "a1"); s.ack("a1"); s.read("y", "b1"); s.ack("b1") }, ""},
		"together":     {func(s *story) { s.read("x", "a1", "b1"); s.ack("a1", "b1") }, ""},
		"one behind":   {func(s *story) { s.read("x", "a1"); s.read("x", "b1"); s.ack("a1", "b1") }, ""},
		"turned round": {func(s *story) { s.read("x", "b1", "a1"); s.ack("a1", "b1") }, `although "a" was behind it in the same read`},
		"skipped": {func(s *story) { s.read("x", "b1"); s.read("x", "a1"); s.ack("a1", "b1") },
			`although "a" was not delivered before`},
		"elsewhere": {func(s *story) { s.read("x", "a1"); s.read("y", "b1"); s.ack("a1", "b1") },
			`although "a" was with x (attempt 1) and not acked`},
		"after doubt": {func(s *story) { s.read("x", "a1"); s.doubt("a1"); s.read("y", "b1"); s.ack("b1") }, ""},
		"taken over":  {func(s *story) { s.read("x", "a1", "b1"); s.read("y", "a2", "b2"); s.ack("a2", "b2") }, ""},
		"first one alone": {func(s *story) { s.read("x", "a1", "b1"); s.read("y", "a2"); s.read("x", "b2"); s.ack("a2", "b2") },
			`although "a" was with y (attempt 2) and not acked`},
		"nacked": {func(s *story) {
			s.read("x", "a1")
			s.settle(Nacked, "a1")
			s.read("x", "b1")
			s.ack("b1")
			s.read("x", "a2")
			s.ack("a2")
		}, `although "a" was with x (attempt 1) and not acked`},
		"nacked, again": {func(s *story) { s.read("x", "a1"); s.settle(Nacked, "a1"); s.read("x", "a2", "b1"); s.ack("a2", "b1") }, ""},
		"unknowing": {func(s *story) {
			s.Deliveries.Read(s.tick(), "y").Unknown()
			s.read("x", "a1")
			s.read("y", "b1")
			s.ack("a1", "b1")
		}, ""},
		"at the same time": {func(s *story) {
			first, second := s.Read(s.tick(), "x"), s.Read(s.tick(), "y")
			first.Done(s.tick(), s.of("a1"))
			ack := s.Settle(s.tick(), s.of("a1"), Acked)
			second.Done(s.tick(), s.of("b1"))
			ack.Done(s.tick())
			s.ack("b1")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.Max, s.Ordered, s.Excuses = 3, true, true
			s.send("a/key", "b/key")
			c.tell(s)
			checkStory(t, s, Totals{Enqueued: 2, Acked: 2}, c.want)
		})
	}
}

// TestDeliveriesRise feeds histories of a group whose first deliveries come in order.
func TestDeliveriesRise(t *testing.T) {
	for want, names := range map[string][]string{
		"":                           {"a1", "b1", "c1"},
		`before "a", which was sent`: {"b1", "a1", "c1"},
		`before "b", which was sent`: {"a1", "c1", "b1"},
	} {
		s := newStory(t)
		s.Rising = true
		s.send("a", "b", "c")
		for n, name := range names {
			s.read(fmt.Sprint(n), name)
		}
		s.ack(names...)
		checkStory(t, s, Totals{Enqueued: 3, Acked: 3}, want)
	}
}

// TestDeliveriesThatAreExcused feeds histories of a group whose consumers leave while holding
// items.
func TestDeliveriesThatAreExcused(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(s *story)
		end  Totals
		want string
	}{
		"handed back": {func(s *story) { s.read("x", "a1"); s.Left("x"); s.read("y", "a2"); s.read("y", "a3"); s.ack("a3") },
			Totals{Enqueued: 1, Acked: 1}, ""},
		"too often": {func(s *story) {
			s.read("x", "a1")
			s.Left("x")
			s.read("y", "a2")
			s.read("y", "a3")
			s.read("y", "a4")
			s.ack("a4")
		}, Totals{Enqueued: 1, Acked: 1}, "as attempt 4 of at most 2"},
		"nobody left": {func(s *story) { s.read("x", "a1"); s.read("y", "a2"); s.read("y", "a3"); s.ack("a3") },
			Totals{Enqueued: 1, Acked: 1}, "as attempt 3 of at most 2"},
		"dead": {func(s *story) { s.read("x", "a1"); s.Left("x"); s.read("y", "a2"); s.read("y", "a3"); s.bury("a", 3) },
			Totals{Enqueued: 1, Dead: 1}, ""},
		"dead early": {func(s *story) { s.read("x", "a1"); s.Left("x"); s.bury("a", 1) }, Totals{Enqueued: 1, Dead: 1},
			"a dead letter after 1 attempts of 2"},
		"dead late": {func(s *story) { s.read("y", "a1"); s.read("y", "a2"); s.bury("a", 3) }, Totals{Enqueued: 1, Dead: 1},
			"a dead letter after 3 attempts of 2"},
		"left unknown": {func(s *story) {
			s.Deliveries.Read(s.tick(), "x").Unknown()
			s.Left("x")
			s.read("y", "a3")
			s.ack("a3")
		}, Totals{Enqueued: 1, Acked: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.Max = 2
			s.send("a")
			c.tell(s)
			checkStory(t, s, c.end, c.want)
		})
	}
}

// TestDeliveriesForGood feeds histories of reads that need no acknowledgement.
func TestDeliveriesForGood(t *testing.T) {
	take := func(s *story, names ...string) {
		r := s.Deliveries.Read(s.tick(), "x")
		var list []Delivery
		for _, name := range names {
			list = append(list, s.of(name))
		}
		r.Taken(s.tick(), list...)
	}
	for name, c := range map[string]struct {
		tell func(s *story)
		want string
	}{
		"all":       {func(s *story) { take(s, "a1", "b1") }, ""},
		"twice":     {func(s *story) { take(s, "a1"); take(s, "a2", "b1") }, "although an ack of attempt 1 was confirmed"},
		"overtaken": {func(s *story) { take(s, "b1"); take(s, "a1") }, `although "a" was not delivered before`},
		"unknown":   {func(s *story) { s.Deliveries.Read(s.tick(), "y").UnknownTaken(1); take(s, "b1") }, ""},
		"too few":   {func(s *story) { s.Deliveries.Read(s.tick(), "y").UnknownTaken(1) }, "lost: it was never delivered"},
		"unknown, later": {func(s *story) { take(s, "b1"); s.Deliveries.Read(s.tick(), "y").UnknownTaken(1) },
			`although "a" was not delivered before`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.Ordered = true
			s.send("a/key", "b/key")
			c.tell(s)
			checkStory(t, s, Totals{Enqueued: 2, Acked: 2}, c.want)
		})
	}
}
