//go:build plant

package plant

// overlay is the file that the program was built with. The one that it names replaces this line.
const overlay = ""
