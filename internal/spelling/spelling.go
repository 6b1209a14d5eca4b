// Package spelling finds the known name for which an unknown one was probably mistyped.
package spelling

import "strings"

// longest is the maximum length of a name that is compared, because the time grows with its square.
const longest = 64

// Nearest returns the known name that differs least from an unknown one, in up to a third of its
// letters, or "" if no name does. Case is ignored.
func Nearest(unknown string, known []string) string {
	best, distance := "", 1+(len(unknown)+1)/3
	for _, k := range known {
		if d := edits(strings.ToLower(unknown), strings.ToLower(k), distance); d < min(distance, len(k)) {
			best, distance = k, d
		}
	}
	return best
}

// edits returns the number of insertions, deletions, replacements and swaps of neighbours that turn
// a into b, or most if it is not smaller.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most || len(a) > longest {
		return most
	}
	before, latest, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range latest {
		latest[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			changed := latest[j]
			if a[i] != b[j] {
				changed++
			}
			d := min(changed, latest[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
		before, latest, row = latest, row, before
	}
	return min(latest[len(b)], most)
}
