//go:build !noconsole

package console

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// built returns the files of the console.
func built() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return files
}
