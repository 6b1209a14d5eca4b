package engine

import "testing"

// TestLookAgainAtTheEarliest: of several requested times a duty looks again at the earliest.
func TestLookAgainAtTheEarliest(t *testing.T) {
	for _, times := range [][]int64{{5, 9}, {9, 5}, {5}} {
		var v View
		if v.now = func() int64 { return 0 }; v.untilAgain() != nil {
			t.Error("it looks again without being told to")
		}
		for _, at := range times {
			v.LookAgainAt(at)
		}
		if v.again != 5 {
			t.Errorf("%v: it looks again at %d", times, v.again)
		}
	}
}
