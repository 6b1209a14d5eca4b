package check

import (
	"cmp"
	"fmt"
	"slices"
)

// maxBefore bounds the number of earlier items of its key that a delivery is compared with. A
// consumer holds no more items of a key at a time.
const maxBefore = 64

// lane is a scope of order between items: a partition, or a key in it.
type lane struct {
	number int
	key    string
}

// checkLanes checks the order between items.
func (d *Deliveries) checkLanes() error {
	whole, keys := make(map[lane][]*item), make(map[lane][]*item)
	for _, i := range d.items {
		if i.At == "" {
			continue
		}
		whole[lane{number: i.Lane}] = append(whole[lane{number: i.Lane}], i)
		if i.Key != "" {
			keys[lane{i.Lane, i.Key}] = append(keys[lane{i.Lane, i.Key}], i)
		}
	}
	for l, items := range whole {
		sortItems(items)
		if err := d.checkLane(items); err != nil {
			return fmt.Errorf("partition %d: %w", l.number, err)
		}
	}
	for l, items := range keys {
		sortItems(items)
		for n, i := range items {
			for _, earlier := range items[max(n-maxBefore, 0):n] {
				if err := d.checkPair(earlier, i); err != nil {
					return fmt.Errorf("key %q in partition %d: %w\n%v%v", l.key, l.number, err, earlier, i)
				}
			}
		}
	}
	return nil
}

func sortItems(items []*item) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.Place, b.Place) })
}

// checkLane checks that no two items have the same place, and that first deliveries come in order.
func (d *Deliveries) checkLane(items []*item) error {
	var latest *delivered // the first delivery so far whose read started last
	for n, i := range items {
		if n > 0 && items[n-1].Place == i.Place && i.Place > 0 {
			return fmt.Errorf("items %q and %q are both at %d", items[n-1].Body, i.Body, i.Place)
		}
		if !d.Rising || len(i.deliveries) == 0 || i.deliveries[0].Attempt != 1 {
			continue
		}
		first := &i.deliveries[0]
		if latest != nil && first.returned < latest.began {
			return fmt.Errorf("item %q was delivered first, before %q, which was sent earlier\n%v", i.Body, latest.Body, i)
		}
		if latest == nil || first.began > latest.began {
			latest = first
		}
	}
	return nil
}

// checkPair checks that no delivery of an item came while an earlier one of its key was neither
// done nor with the same consumer.
func (d *Deliveries) checkPair(earlier, i *item) error {
	if !d.Ordered {
		return nil
	}
	for n := range i.deliveries {
		one := &i.deliveries[n]
		if lost, known := d.lost[one.consumer]; known && lost < one.returned {
			continue // the consumer may have been assigned the earlier one without receiving it
		}
		if earlier.overBefore(one.returned) || earlier.taken && d.since < one.returned {
			continue
		}
		if err := earlier.mayBeWith(one); err != nil {
			return fmt.Errorf("%q was delivered to %s (attempt %d), although %q %w", i.Body, one.consumer, one.Attempt, earlier.Body, err)
		}
	}
	return nil
}

// overBefore reports whether the item may have been done at a time.
func (i *item) overBefore(now int64) bool {
	if i.dead != nil || !i.sent && len(i.deliveries) == 0 {
		return true
	}
	for _, s := range i.settled {
		if s.outcome == Acked && s.state != refused && s.began < now {
			return true
		}
	}
	return false
}

// mayBeWith returns an error if an unfinished item cannot have been with the consumer of another
// delivery.
func (i *item) mayBeWith(one *delivered) error {
	var last *delivered // that had ended when the other read started
	for n := range i.deliveries {
		if of := &i.deliveries[n]; of.returned < one.began {
			last = of
		}
	}
	for n := range i.deliveries {
		of := &i.deliveries[n]
		if of.consumer != one.consumer || of.began >= one.returned || last != nil && of.order(*last) < 0 {
			continue
		}
		switch {
		case of.began == one.began && of.index > one.index:
			return fmt.Errorf("was behind it in the same read")
		case !i.nackedBefore(of, one.began):
			return nil
		}
	}
	if last == nil {
		return fmt.Errorf("was not delivered before")
	}
	return fmt.Errorf("was with %s (attempt %d) and not acked", last.consumer, last.Attempt)
}

// nackedBefore reports whether a delivery had certainly been nacked at a time.
func (i *item) nackedBefore(of *delivered, now int64) bool {
	for _, s := range i.settled {
		if s.outcome != Acked && s.state == done && s.attempt == of.Attempt && s.began > of.returned && s.returned < now {
			return true
		}
	}
	return false
}
