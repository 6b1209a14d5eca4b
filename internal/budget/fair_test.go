package budget

import "testing"

// TestFair: the first caller gets three fourths, and each later one a part of the rest.
func TestFair(t *testing.T) {
	for _, c := range []struct {
		limit int64
		want  []int64 // what each gets who asks for all there is, one after the other
	}{{0, []int64{0}}, {1, []int64{1, 0}}, {2, []int64{2, 0}}, {3, []int64{3, 0}}, {4, []int64{3, 1, 0}}, {8, []int64{6, 2, 0}}, {64,
		[]int64{48, 12, 3, 1, 0}}} {
		used := int64(0)
		for i, want := range c.want {
			own := int64(0)
			for Fair(own, 1, used, c.limit) {
				own++
				used++
			}
			if own != want {
				t.Errorf("number %d gets %d of %d, want %d", i, own, c.limit, want)
			}
		}
	}
	if Fair(0, 5, 0, 4) || !Fair(0, 4, 0, 4) {
		t.Error("a part of the limit is given to one who asks for more than there is, or all of it refused to one who is alone")
	}
}
