package expression

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/tidwall/gjson"
)

// equal implements ==: values of different types differ, numbers are equal by value, arrays and
// objects by content.
func (r *run) equal(a, b *value) (bool, error) {
	switch {
	case a.number() && b.number():
		return compareNumbers(a, b) == 0, nil
	case a.array() && b.array():
		return r.equalLists(a, b)
	case a.kind != b.kind:
		return false, nil
	}
	switch a.kind {
	case isBool:
		return a.bits == b.bits, nil
	case isString:
		return a.text == b.text, nil
	case isObject:
		return r.equalObjects(a, b)
	}
	return true, nil
}

func (r *run) equalLists(a, b *value) (bool, error) {
	as, err := r.elements(a)
	if err != nil {
		return false, err
	}
	bs, err := r.elements(b)
	if err != nil || len(as) != len(bs) {
		return false, err
	}
	for i := range as {
		if same, err := r.equal(&as[i], &bs[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// members returns the members of an object by name.
func (r *run) members(v *value) (map[string]gjson.Result, error) {
	if err := r.pay(len(v.text)); err != nil {
		return nil, err
	}
	all := make(map[string]gjson.Result)
	var failed error
	gjson.Parse(v.text).ForEach(func(k, member gjson.Result) bool {
		_, there := all[k.Str]
		if !there {
			failed = r.make(memberBytes)
		}
		if !there || r.last {
			all[k.Str] = member
		}
		return failed == nil
	})
	return all, failed
}

// equalObjects compares all members. A number out of range differs from everything.
func (r *run) equalObjects(a, b *value) (bool, error) {
	as, err := r.members(a)
	if err != nil {
		return false, err
	}
	bs, err := r.members(b)
	if err != nil || len(as) != len(bs) {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(as)) { // sorted: the cost limit may end the loop anywhere
		x := as[name]
		y, there := bs[name]
		if !there {
			return false, nil
		}
		same, err := r.equalJSON(x, y)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// equalJSON compares two JSON values. A number out of range equals nothing.
func (r *run) equalJSON(x, y gjson.Result) (bool, error) {
	a, err := fromJSON(x)
	if err != nil {
		return false, nil
	}
	b, err := fromJSON(y)
	if err != nil {
		return false, nil
	}
	same, err := r.equal(&a, &b)
	if errors.Is(err, ErrCost) || errors.Is(err, errMade) {
		return false, err
	}
	return err == nil && same, nil
}

// EqualJSON compares two valid JSON values: numbers by value, arrays and objects by content. If a
// member is repeated, the last one counts. Numbers out of range are equal if they are written
// alike.
func EqualJSON(x, y []byte) bool {
	r := run{left: math.MaxInt, room: math.MaxInt, last: true}
	same, _ := r.equalJSON(gjson.ParseBytes(x), gjson.ParseBytes(y))
	return same || bytes.Equal(x, y)
}

// compareNumbers compares two numbers by value. It is exact for integers that a float64 cannot
// represent.
func compareNumbers(a, b *value) int {
	switch {
	case a.kind == isInt && b.kind == isInt:
		return cmp.Compare(a.whole(), b.whole())
	case a.kind == isInt:
		return -compareMixed(b.float(), a.whole())
	case b.kind == isInt:
		return compareMixed(a.float(), b.whole())
	}
	return cmp.Compare(a.float(), b.float())
}

func compareMixed(f float64, n int64) int {
	const beyond = 1 << 63
	switch {
	case f >= beyond:
		return 1
	case f < -beyond:
		return -1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(int64(whole), n); c != 0 {
		return c
	}
	return cmp.Compare(f, whole)
}
