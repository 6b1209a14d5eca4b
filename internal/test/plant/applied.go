//go:build plant

package plant

// overlay is the overlay file with which the program was built. The overlay replaces this line.
const overlay = ""
