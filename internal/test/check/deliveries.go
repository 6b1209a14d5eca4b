package check

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Deliveries is what producers and consumers of one queue, or of one consumer group, did and were
// told, and Check whether each item was delivered at least once, none behind its acknowledgement,
// under attempts that only rise, and to whom it may be.
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
// Calls whose outcome is not known may have had any, at any time behind their begin. Times only
// order calls, so any unit will do. It is safe for concurrent use. Bodies name items: they must be
// unique.
type Deliveries struct {
	// Max is how often an item may be delivered; 0 means there is no limit.
	Max int
	// Ordered says that items of a key are delivered in the order of their Place, the later ones
	// only when the earlier ones are done or are with the same consumer: stream.KeyShared.
	Ordered bool
	// Excuses says that not all attempts count against Max: those of an item that was delivered
	// behind another one of its key, which failed. Those that ended with a consumer that Left are
	// excused in any case.
	Excuses bool
	// Rising says that first deliveries come in the order of Place within a Lane, whoever gets
	// them: groups that are not stream.KeyShared.
	Rising bool

	mu    sync.Mutex // guards what follows, and all Reads and Settlements
	items map[string]*item
	lost  map[string]int64 // by consumer: when the first of the reads began that it was never told of
	left  map[string]bool  // consumers that may have left, handing back what they had
	taken int              // items that may have been taken for good by reads that nobody was told of
	since int64            // when the first of those reads began
}

// Item is what a producer sent.
type Item struct {
	Body  string
	Key   string // "" has no order
	At    string // its one place in queue or stream
	Lane  int    // partition
	Place uint64 // its place among those of its lane
}

// Delivery is what a consumer was told of an item.
type Delivery struct {
	Body, At string
	Key      string
	Lane     int
	Place    uint64
	Attempt  int
	LSN      uint64 // grows from one delivery of an item to the next; 0: not told
	Until    int64  // before that a receipt has to be good; 0: not told
}

type item struct {
	Item
	sent       bool // for sure
	known      bool // there was a producer who sent it, perhaps
	deliveries []delivered
	settled    []*Settlement
	dead       *Dead
	taken      bool // perhaps, by a read that nobody was told of
}

type delivered struct {
	Delivery
	consumer        string
	began, returned int64
	index           int // in what its read returned
}

// Outcome is how a consumer ends a delivery.
type Outcome uint8

// The outcomes.
const (
	Acked  Outcome = iota // done: it may never be delivered again
	Nacked                // it is to be delivered again
	Buried                // it is to be a dead letter at once
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

// Dead is a dead letter, as it was found in the end.
type Dead struct {
	Body     string
	Attempts int
}

// NewDeliveries returns Deliveries of a queue or group that was empty.
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

// Sent notes an item whose sending was acknowledged.
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

// NotSent notes that the sending of an item was refused for sure.
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

// Read notes that a consumer asks for items. It must come before the node can have seen the call.
func (d *Deliveries) Read(now int64, consumer string) *Read { return &Read{d, consumer, now} }

// Done notes what the consumer was given.
func (r *Read) Done(now int64, list ...Delivery) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	for n, one := range list {
		i := r.of.itemLocked(one.Body)
		i.deliveries = append(i.deliveries, delivered{one, r.consumer, r.began, now, n})
	}
}

// Taken notes what the consumer was given for good: it is done with that.
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

// UnknownTaken is Unknown for a read that may have been given up to n items for good.
func (r *Read) UnknownTaken(n int) {
	r.Unknown()
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.taken == 0 || r.began < r.of.since {
		r.of.since = r.began
	}
	r.of.taken += n
}

// Left notes that a consumer leaves, or has perhaps left: what it then had does not count as an
// attempt. It must come before the call.
func (d *Deliveries) Left(consumer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left[consumer] = true
}

// Unknown notes that the consumer may have been given items that it does not know of.
func (r *Read) Unknown() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if began, known := r.of.lost[r.consumer]; !known || r.began < began {
		r.of.lost[r.consumer] = r.began
	}
}

// Settle notes that the consumer of a delivery ends it. It must come before the node can have seen
// the call. One that is never ended counts as unknown.
func (d *Deliveries) Settle(now int64, of Delivery, o Outcome) *Settlement {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.itemLocked(of.Body)
	s := &Settlement{of: d, item: i, outcome: o, attempt: of.Attempt, lsn: of.LSN, began: now}
	i.settled = append(i.settled, s)
	return s
}

// Done notes that the delivery was ended so.
func (s *Settlement) Done(now int64) { s.end(now, done) }

// Stale notes a definite refusal: the delivery was over by then.
func (s *Settlement) Stale(now int64) { s.end(now, refused) }

// Never notes that the call had no effect, which says nothing of the delivery.
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

// Totals are what a queue or group says of itself. Of a group, Acked is all that is neither dead
// nor pending.
type Totals struct{ Enqueued, Ready, Delayed, Leased, Dead, Acked int64 }

// Report says how much Check has seen.
type Report struct{ Items, Deliveries, Repeated, Acks, Doubtful, Stale, Dead int }

// Check returns an error unless all of it could have happened, given that in the end nothing was
// left to deliver.
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

// vanish accounts for items that nobody knows to have been sent, nor to have been taken.
func (d *Deliveries) vanish(r *Report, t Totals) {
	for _, i := range d.items {
		if d.taken > 0 && t.Enqueued > int64(r.Items) && i.known && !i.sent && len(i.deliveries) == 0 && i.dead == nil {
			d.taken--
			r.Items++
			r.Doubtful++
		}
	}
}

// Report says how much has been noted so far.
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
		return // it may have been sent, and it was not
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

// compare checks what the queue or group says of itself against what was seen.
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

// order sorts deliveries of an item: by log sequence number, if there are any, else by attempt and
// time.
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

// checkAttempts checks the deliveries of an item by themselves.
func (d *Deliveries) checkAttempts(i *item) error {
	for n := range i.deliveries {
		one := &i.deliveries[n]
		switch {
		case i.At == "":
			i.At, i.Key, i.Lane, i.Place = one.At, one.Key, one.Lane, one.Place // of a sending in doubt
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

// excusable returns how many of the deliveries of an item before an attempt may not count: those to
// consumers that left, also if they were never told.
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

// checkSettled checks what ended the deliveries of an item.
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

// checkRefused checks that a receipt was refused because its lease was over.
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

// checkEnd checks what has become of an item.
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

// String lists what has happened to the item.
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
