package workflow_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// zones is a directory whose files come before the time zones of the machine.
var zones string

// TestMain has package time look into zones, which it asks the environment for once.
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
