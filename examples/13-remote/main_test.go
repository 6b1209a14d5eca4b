package main

import (
	"flag"
	"os"
	"testing"

	"github.com/floedb/floe/internal/test/lesson"
)

// TestMain runs the program itself if the lesson has started the test as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-addr" {
		flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRemote(t *testing.T) { lesson.Run(t, run) }
