package wait

// Slots is a set of kinds of items, numbered from 0 to 255. Items of other kinds do not wake a
// claim. The zero value contains all kinds.
type Slots struct {
	of   [4]uint64
	some bool // only the kinds in of are in the set
}

// NoSlots returns the empty set.
func NoSlots() Slots { return Slots{some: true} }

// Add adds a kind to a set made by NoSlots.
func (s *Slots) Add(slot uint8) { s.of[slot/64] |= 1 << (slot % 64) }

// Has reports whether a kind is in the set.
func (s *Slots) Has(slot uint8) bool { return !s.some || s.of[slot/64]>>(slot%64)&1 == 1 }

func (s *Slots) meets(o *Slots) bool {
	if !s.some || !o.some {
		return true
	}
	for i := range s.of {
		if s.of[i]&o.of[i] != 0 {
			return true
		}
	}
	return false
}

// with returns the union of two sets.
func (s Slots) with(o *Slots) Slots {
	if !s.some || !o.some {
		return Slots{}
	}
	for i := range s.of {
		s.of[i] |= o.of[i]
	}
	return s
}
