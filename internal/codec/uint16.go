package codec

import (
	"fmt"
	"math"
)

// Uint16 codes an unsigned integer of at most two bytes.
func (f *Fields) Uint16(name string, v *uint16) {
	if c := f.Binary(); c != nil {
		c.Uint16(v)
		return
	}
	wide := uint64(*v)
	if f.Uvarint(name, &wide, Range{Max: math.MaxUint16}); wide > math.MaxUint16 {
		f.Refuse(fmt.Errorf("%s %d is not in 0-%d", label(name), wide, math.MaxUint16))
		return
	}
	*v = uint16(wide)
}
