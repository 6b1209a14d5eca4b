package wait

import (
	"slices"
	"testing"
)

// TestPredictor checks that the topics on which commands of a cause produced items are predicted,
// the latest first, until maxMisses commands in a row have produced nothing there.
func TestPredictor(t *testing.T) {
	var p Predictor
	expect := func(cause Topic, known bool, want ...Topic) {
		t.Helper()
		if all, ok := p.Topics(cause); ok != known || !slices.Equal(all, want) {
			t.Errorf("topics of cause %d = %v, %t; want %v, %t", cause, all, ok, want, known)
		}
	}
	expect(1, false)
	p.Note([]Topic{1, 2}, []Wakeup{{Topic: 10, N: 1}, {Topic: 11, N: -1}, {Topic: 12, N: 1, Within: true}})
	expect(1, true, 10) // no claims wait for what wakes all
	p.Note([]Topic{1}, []Wakeup{{Topic: 20, N: 2}})
	expect(1, true, 20, 10)
	expect(2, true, 10)
	for range maxMisses - 2 {
		p.Note([]Topic{1}, []Wakeup{{Topic: 20, N: 1}})
	}
	expect(1, true, 20, 10)
	p.Note([]Topic{1}, nil)
	expect(1, true, 20)
	p.Note([]Topic{3}, nil)
	expect(3, true)
	p.Note([]Topic{4}, []Wakeup{{Topic: 1, N: 1}, {Topic: 2, N: 1}, {Topic: 3, N: 1}, {Topic: 4, N: 1}, {Topic: 5, N: 1}})
	expect(4, true, 5, 4, 3, 2)
	for c := range Topic(maxCauses + 1) {
		p.Note([]Topic{100 + c}, nil)
	}
	if expect(1, false); len(p.topics) > maxCauses+1 {
		t.Errorf("%d causes are known", len(p.topics))
	}
}
