// Floe is the command line of floe; see `floe help`.
package main

import (
	"os"

	"github.com/floedb/floe/cmd/internal/cli"
)

func main() { os.Exit(cli.Main()) }
