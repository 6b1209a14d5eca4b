package workflow_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// zones is a directory whose files take precedence over the machine's time zones.
var zones string

// TestMain makes package time search zones; it reads the environment variable only once.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "floe-zones-")
	if err == nil {
		err = os.Setenv("ZONEINFO", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	zones = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
