// Floe is the command line of floe; `floe help` says what it does.
package main

import (
	"os"

	"github.com/floedb/floe/cmd/internal/cli"
)

func main() { os.Exit(cli.Main()) }
