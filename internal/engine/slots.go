package engine

// Slots is a set of 256 kinds. A take that wants only what is of some of them (View.Only) is passed over by what is made of others. The zero value
// stands for all.
type Slots struct {
	of   [4]uint64
	some bool // only those of of are meant
}

// NoSlots returns the empty set.
func NoSlots() Slots { return Slots{some: true} }

// Add adds one of the 256 kinds to a set that is not that of all.
func (s *Slots) Add(slot uint8) { s.of[slot/64] |= 1 << (slot % 64) }

// Has reports whether one of the kinds is in the set.
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

// with returns the kinds of both.
func (s Slots) with(o *Slots) Slots {
	if !s.some || !o.some {
		return Slots{}
	}
	for i := range s.of {
		s.of[i] |= o.of[i]
	}
	return s
}
