//go:build noconsole

package console

import "io/fs"

// built returns nil: the program was built without the console.
func built() fs.FS { return nil }
