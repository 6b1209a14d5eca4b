package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is the program itself when the test starts it as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-work" {
		flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestNothingIsHalfDone(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, t.TempDir()); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{
		"worker 3 was killed\n", "the slow worker is told: transaction: operation 0: queue \"orders\": receipt ",
		"\n250 sold, 0 in stock; 50 refused; 0 orders to go\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
