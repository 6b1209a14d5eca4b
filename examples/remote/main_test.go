package main

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestMain is the program itself when the test starts it as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-addr" {
		flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
		main()
		return
	}
	os.Exit(m.Run())
}

// buffer is what several processes print.
type buffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func TestWorkersShare(t *testing.T) {
	var out buffer
	if err := serve(t.Context(), &out, 5); err != nil {
		t.Fatal(err)
	}
	text := out.text.String()
	for _, want := range []string{"ann sold number", "bob sold number", "number 1\n", "number 10\n", "sold: 10\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
