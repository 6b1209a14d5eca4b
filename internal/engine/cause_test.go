package engine

import (
	"slices"
	"testing"
)

// TestForesight: what commands with a cause have made is foreseen, newest first, until they have not made it for a while.
func TestForesight(t *testing.T) {
	var f foresight
	of := func(cause Topic) (all []Topic, known bool) {
		known = f.of(cause, func(t Topic) { all = append(all, t) })
		return all, known
	}
	expect := func(cause Topic, known bool, want ...Topic) {
		t.Helper()
		if all, ok := of(cause); ok != known || !slices.Equal(all, want) {
			t.Errorf("of cause %d are foreseen %v, known: %t; want %v, %t", cause, all, ok, want, known)
		}
	}
	expect(1, false)
	f.note([]Topic{1, 2}, []wake{{topic: 10, n: 1}, {topic: 11, n: -1}, {topic: 12, n: 1, within: true}})
	expect(1, true, 10) // queries alone wait for what all are told of
	f.note([]Topic{1}, []wake{{topic: 20, n: 2}})
	expect(1, true, 20, 10)
	expect(2, true, 10)
	for range foreseenFor - 2 {
		f.note([]Topic{1}, []wake{{topic: 20, n: 1}})
	}
	expect(1, true, 20, 10)
	f.note([]Topic{1}, nil)
	expect(1, true, 20)
	f.note([]Topic{3}, nil)
	expect(3, true)
	f.note([]Topic{4}, []wake{{topic: 1, n: 1}, {topic: 2, n: 1}, {topic: 3, n: 1}, {topic: 4, n: 1}, {topic: 5, n: 1}})
	expect(4, true, 5, 4, 3, 2)
	for c := range Topic(maxCauses + 1) {
		f.note([]Topic{100 + c}, nil)
	}
	if expect(1, false); len(f.made) > maxCauses+1 {
		t.Errorf("%d causes are known", len(f.made))
	}
}
