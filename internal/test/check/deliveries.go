package check

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Deliveries records the calls of producers and consumers of one queue, or of one consumer group,
// and their results. Check verifies that each item was delivered at least once, never after its
// acknowledgement, with rising attempts, and only to permitted consumers.
//
//	d.MaybeSent("a")
//	e, err := jobs.Enqueue(ctx, "q", []byte("a"))
//	d.Sent(check.Item{Body: "a", At: "17"}) // or d.NotSent("a"), or nothing
//	r := d.Read(now(), "consumer 1")
//	messages, err := jobs.Dequeue(ctx, "q")
//	one := check.Delivery{Body: "a", At: "17", Attempt: 1, LSN: 2041}
//	r.Done(now(), one) // or r.Unknown()
//	s := d.Settle(now(), one, check.Acked)
//	_, err = jobs.Ack(ctx, "q", messages[0].Receipt)
//	s.Done(now()) // or s.Stale(now()), or s.Never(), or nothing
//
// Calls of unknown outcome may have had any, at any time after their start. Times only order calls,
// so any unit will do. It is safe for concurrent use. Bodies identify items: they must be unique.
type Deliveries struct {
	// Max is the maximum number of deliveries of an item; 0 means no limit.
	Max int
	// Ordered requires that items of a key are delivered in order of Place. A later one may only be
	// delivered when the earlier ones are done or with the same consumer: stream.KeyShared.
	Ordered bool
	// Excuses permits attempts that do not count against Max: those of an item that was delivered
	// after another one of its key, which failed. Attempts that ended with a consumer that Left are
	// excused in any case.
	Excuses bool
	// Rising requires that first deliveries come in order of Place within a Lane, to any consumer:
	// groups that are not stream.KeyShared.
	Rising bool

	mu    sync.Mutex // guards what follows, and all Reads and Settlements
	items map[string]*item
	lost  map[string]int64 // by consumer: start of its first read without a result
	left  map[string]bool  // consumers that may have left, releasing their items
	taken int              // items that may have been taken for good by reads without a result
	since int64            // start of the first of those reads
}

// Item is an item sent by a producer.
type Item struct {
	Body  string
	Key   string // "": unordered
	At    string // its unique place in the queue or stream
	Lane  int    // partition
	Place uint64 // its place among those of its lane
}

// Delivery is a delivery of an item as reported to a consumer.
type Delivery struct {
	Body, At string
	Key      string
	Lane     int
	Place    uint64
	Attempt  int
	LSN      uint64 // grows from one delivery of an item to the next; 0: unknown
	Until    int64  // the receipt must be valid until then; 0: unknown
}

type item struct {
	Item
	sent       bool // certainly
	known      bool // perhaps sent by a producer
	deliveries []delivered
	settled    []*Settlement
	dead       *Dead
	taken      bool // perhaps, by a read without a result
}

type delivered struct {
	Delivery
	consumer        string
	began, returned int64
	index           int // in the result of its read
}

// Outcome is how a consumer ends a delivery.
type Outcome uint8

// The outcomes.
const (
	Acked  Outcome = iota // done: it must never be delivered again
	Nacked                // must be delivered again
	Buried                // must become a dead letter at once
)

func (o Outcome) String() string { return [...]string{"ack", "nack", "burial"}[o] }

// Settlement is a call that ends a delivery.
type Settlement struct {
	of              *Deliveries
	item            *item
	outcome         Outcome
	attempt         int
	lsn             uint64
	state           outcome
	began, returned int64
}

// Dead is a dead letter found at the end.
type Dead struct {
	Body     string
	Attempts int
}

// NewDeliveries returns Deliveries for an empty queue or group.
func NewDeliveries() *Deliveries {
	return &Deliveries{items: make(map[string]*item), lost: make(map[string]int64), left: make(map[string]bool)}
}

func (d *Deliveries) itemLocked(body string) *item {
	i := d.items[body]
	if i == nil {
		i = &item{Item: Item{Body: body}}
		d.items[body] = i
	}
	return i
}

// Sent notes that the sending of an item was acknowledged.
func (d *Deliveries) Sent(i Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have := d.itemLocked(i.Body)
	have.Item, have.sent, have.known = i, true, true
}

// MaybeSent notes an item before it is sent.
func (d *Deliveries) MaybeSent(body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.itemLocked(body).known = true
}

// NotSent notes that the sending of an item was definitely refused.
func (d *Deliveries) NotSent(body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.itemLocked(body).known = false
}

// Read is a call for items.
type Read struct {
	of       *Deliveries
	consumer string
	began    int64
}

// Read notes that a consumer requests items. Call it before the node can have seen the request.
func (d *Deliveries) Read(now int64, consumer string) *Read { return &Read{d, consumer, now} }

// Done notes the items that the consumer received.
func (r *Read) Done(now int64, list ...Delivery) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	for n, one := range list {
		i := r.of.itemLocked(one.Body)
		i.deliveries = append(i.deliveries, delivered{one, r.consumer, r.began, now, n})
	}
}

// Taken notes items that the consumer received for good, without an acknowledgement.
func (r *Read) Taken(now int64, list ...Delivery) {
	r.Done(now, list...)
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	for _, one := range list {
		i := r.of.itemLocked(one.Body)
		i.settled = append(i.settled, &Settlement{
			of: r.of, item: i, outcome: Acked, attempt: one.Attempt, lsn: one.LSN, state: done, began: r.began, returned: now,
		})
	}
}

// UnknownTaken is Unknown for a read that may have taken up to n items for good.
func (r *Read) UnknownTaken(n int) {
	r.Unknown()
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.taken == 0 || r.began < r.of.since {
		r.of.since = r.began
	}
	r.of.taken += n
}

// Left notes that a consumer leaves, or may have left. The items that it holds do not count as
// attempts. Call it before the call itself.
func (d *Deliveries) Left(consumer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left[consumer] = true
}

// Unknown notes that the consumer may have been assigned items without receiving them.
func (r *Read) Unknown() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if began, known := r.of.lost[r.consumer]; !known || r.began < began {
		r.of.lost[r.consumer] = r.began
	}
}

// Settle notes that a consumer ends a delivery. Call it before the node can have seen the call. A
// settlement that is never ended counts as unknown.
func (d *Deliveries) Settle(now int64, of Delivery, o Outcome) *Settlement {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.itemLocked(of.Body)
	s := &Settlement{of: d, item: i, outcome: o, attempt: of.Attempt, lsn: of.LSN, began: now}
	i.settled = append(i.settled, s)
	return s
}

// Done notes that the delivery ended that way.
func (s *Settlement) Done(now int64) { s.end(now, done) }

// Stale notes a definite refusal: the delivery had already ended.
func (s *Settlement) Stale(now int64) { s.end(now, refused) }

// Never notes that the call had no effect, which implies nothing about the delivery.
func (s *Settlement) Never() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.item.settled = slices.DeleteFunc(s.item.settled, func(other *Settlement) bool { return other == s })
}

func (s *Settlement) end(now int64, o outcome) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.state, s.returned = o, now
}

// Dead notes a dead letter.
func (d *Deliveries) Dead(dead Dead) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.itemLocked(dead.Body)
	if i.dead != nil {
		return fmt.Errorf("%q is a dead letter twice", dead.Body)
	}
	i.dead = &dead
	return nil
}

// Totals are the counters of a queue or group. For a group, Acked is the number of items that are
// neither dead nor pending.
type Totals struct{ Enqueued, Ready, Delayed, Leased, Dead, Acked int64 }

// Report counts what Check has seen.
type Report struct{ Items, Deliveries, Repeated, Acks, Doubtful, Stale, Dead int }

// Check returns an error unless the whole history is possible, given that nothing was left to
// deliver at the end.
func (d *Deliveries) Check(t Totals) (Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var r Report
	for _, body := range slices.Sorted(maps.Keys(d.items)) {
		i := d.items[body]
		slices.SortStableFunc(i.deliveries, func(a, b delivered) int { return a.order(b) })
		if err := d.checkItem(i); err != nil {
			return r, fmt.Errorf("item %q: %w\n%v", body, err, i)
		}
		r.count(i)
	}
	if err := d.checkLanes(); err != nil {
		return r, err
	}
	d.vanish(&r, t)
	return r, r.compare(t)
}

// vanish accounts for items of unknown outcome, possibly sent and possibly taken by a read without
// a result.
func (d *Deliveries) vanish(r *Report, t Totals) {
	for _, i := range d.items {
		if d.taken > 0 && t.Enqueued > int64(r.Items) && i.known && !i.sent && len(i.deliveries) == 0 && i.dead == nil {
			d.taken--
			r.Items++
			r.Doubtful++
		}
	}
}

// Report returns the counts so far.
func (d *Deliveries) Report() (r Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.items {
		r.count(i)
	}
	return r
}

func (r *Report) count(i *item) {
	if !i.sent && len(i.deliveries) == 0 && i.dead == nil {
		return // it may have been sent, but was not
	}
	r.Items++
	r.Deliveries += len(i.deliveries)
	r.Repeated += max(len(i.deliveries)-1, 0)
	if i.dead != nil {
		r.Dead++
	}
	acked, doubtful := false, i.taken
	for _, s := range i.settled {
		acked = acked || s.outcome == Acked && s.state == done
		doubtful = doubtful || s.outcome == Acked && s.state == unknown
		if s.state == refused {
			r.Stale++
		}
	}
	if acked {
		r.Acks++
	} else if doubtful {
		r.Doubtful++
	}
}

// compare compares the counters of the queue or group with the history.
func (r *Report) compare(t Totals) error {
	if sum := t.Ready + t.Delayed + t.Leased + t.Dead + t.Acked; sum != t.Enqueued {
		return fmt.Errorf("%+v: that is %d items of %d", t, sum, t.Enqueued)
	}
	if left := t.Ready + t.Delayed + t.Leased; left != 0 {
		return fmt.Errorf("%+v: %d items are left", t, left)
	}
	if t.Enqueued != int64(r.Items) || t.Dead != int64(r.Dead) {
		return fmt.Errorf("%+v, but there were %d items, %d dead letters among them", t, r.Items, r.Dead)
	}
	if t.Acked < int64(r.Acks) || t.Acked > int64(r.Acks+r.Doubtful) {
		return fmt.Errorf("%+v, but %d acks were confirmed and %d are in doubt", t, r.Acks, r.Doubtful)
	}
	return nil
}

// order sorts deliveries of an item: by log sequence number if they have one, otherwise by attempt
// and time.
func (a *delivered) order(b delivered) int {
	switch {
	case a.LSN != b.LSN:
		return sign(a.LSN < b.LSN)
	case a.Attempt != b.Attempt:
		return sign(a.Attempt < b.Attempt)
	case a.returned != b.returned:
		return sign(a.returned < b.returned)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

func (d *Deliveries) checkItem(i *item) error {
	if !i.known {
		return fmt.Errorf("nobody sent it")
	}
	if err := d.checkAttempts(i); err != nil {
		return err
	}
	if err := i.checkSettled(); err != nil {
		return err
	}
	return d.checkEnd(i)
}

// checkAttempts checks the deliveries of one item.
func (d *Deliveries) checkAttempts(i *item) error {
	for n := range i.deliveries {
		one := &i.deliveries[n]
		switch {
		case i.At == "":
			i.At, i.Key, i.Lane, i.Place = one.At, one.Key, one.Lane, one.Place // for a send of unknown outcome
		case one.At != i.At:
			return fmt.Errorf("delivered from %s, but it was sent once, to %s", one.At, i.At)
		}
		switch {
		case one.Attempt < 1 || d.Max > 0 && one.Attempt-d.excusable(i, one.Attempt) > d.Max && !d.Excuses:
			return fmt.Errorf("delivered as attempt %d of at most %d", one.Attempt, d.Max)
		case n == 0:
			continue
		}
		switch before := &i.deliveries[n-1]; {
		case one.Attempt <= before.Attempt:
			return fmt.Errorf("delivered as attempt %d behind attempt %d", one.Attempt, before.Attempt)
		case one.returned < before.began:
			return fmt.Errorf("attempt %d was over when attempt %d began", one.Attempt, before.Attempt)
		}
	}
	return nil
}

// excusable returns how many deliveries of an item before an attempt may not count: those to
// consumers that left, whether they were received or not.
func (d *Deliveries) excusable(i *item, before int) (n int) {
	unseen := before - 1
	for k := range i.deliveries {
		if one := &i.deliveries[k]; one.Attempt < before {
			unseen--
			if d.left[one.consumer] {
				n++
			}
		}
	}
	for consumer := range d.lost {
		if d.left[consumer] {
			return n + unseen
		}
	}
	return n
}

// checkSettled checks the settlements of an item.
func (i *item) checkSettled() error {
	var acked *Settlement
	for _, s := range i.settled {
		if s.state == refused {
			if err := i.checkRefused(s); err != nil {
				return err
			}
		}
		if s.state != done {
			continue
		}
		if s.outcome == Acked {
			if acked != nil {
				return fmt.Errorf("two acks of it were confirmed, of attempts %d and %d", acked.attempt, s.attempt)
			}
			acked = s
		}
		for n := range i.deliveries {
			one := &i.deliveries[n]
			later := one.Attempt > s.attempt || one.LSN > s.lsn
			switch {
			case s.outcome == Acked && later:
				return fmt.Errorf("delivered as attempt %d, although an ack of attempt %d was confirmed", one.Attempt, s.attempt)
			case s.outcome == Acked && one.began > s.returned:
				return fmt.Errorf("delivered as attempt %d behind its ack", one.Attempt)
			case later && one.returned < s.began:
				return fmt.Errorf("the %v of attempt %d was accepted, although attempt %d had been delivered", s.outcome, s.attempt,
					one.Attempt)
			}
		}
	}
	return nil
}

// checkRefused checks that a receipt was refused because its lease had ended.
func (i *item) checkRefused(s *Settlement) error {
	for _, other := range i.settled {
		if other != s && other.attempt == s.attempt && other.state != refused && other.began < s.returned {
			return nil
		}
	}
	for n := range i.deliveries {
		if one := &i.deliveries[n]; one.Attempt == s.attempt && one.LSN == s.lsn && s.returned < one.Until {
			return fmt.Errorf("the %v of attempt %d was refused at %d, although its lease was good until %d", s.outcome, s.attempt,
				s.returned, one.Until)
		}
	}
	return nil
}

// checkEnd checks the final state of an item.
func (d *Deliveries) checkEnd(i *item) error {
	acked, maybe, buried := false, false, false
	for _, s := range i.settled {
		switch {
		case s.state == refused:
		case s.outcome == Acked:
			acked = acked || s.state == done
			maybe = true
		case s.outcome == Buried:
			buried = true
		}
	}
	last := 0
	if n := len(i.deliveries); n > 0 {
		last = i.deliveries[n-1].Attempt
	}
	vanished := i.dead == nil && !maybe && (i.sent || len(i.deliveries) > 0)
	switch {
	case vanished && d.taken > 0:
		d.taken--
		i.taken = true
		return nil
	case i.dead == nil && i.sent && len(i.deliveries) == 0:
		return fmt.Errorf("lost: it was never delivered")
	case i.dead == nil && len(i.deliveries) > 0 && !maybe:
		return fmt.Errorf("lost: nobody acked it, and it is no dead letter")
	case i.dead == nil:
		return nil
	case acked:
		return fmt.Errorf("a dead letter, although an ack of it was confirmed")
	case i.dead.Attempts < last:
		return fmt.Errorf("a dead letter after %d attempts, but attempt %d was delivered", i.dead.Attempts, last)
	case d.Max == 0 || !buried && i.dead.Attempts < d.Max || !buried && !d.Excuses &&
		i.dead.Attempts-d.excusable(i, i.dead.Attempts+1) > d.Max:
		return fmt.Errorf("a dead letter after %d attempts of %d", i.dead.Attempts, d.Max)
	}
	return nil
}

// String lists the events of the item.
func (i *item) String() string {
	s := fmt.Sprintf("  %+v, sent for sure: %v, dead: %v\n", i.Item, i.sent, i.dead != nil)
	for _, one := range i.deliveries {
		s += fmt.Sprintf("  attempt %d, lsn %d, to %s, asked for at %d, told at %d\n", one.Attempt, one.LSN, one.consumer, one.began,
			one.returned)
	}
	for _, x := range i.settled {
		s += fmt.Sprintf("  %v of attempt %d at %d, %s at %d\n", x.outcome, x.attempt, x.began,
			[...]string{"unknown", "done", "refused"}[x.state], x.returned)
	}
	return s
}
