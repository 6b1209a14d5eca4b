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

func TestKilledWorker(t *testing.T) {
	var out buffer
	if err := serve(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.text.String())
	}
	const end = "ann is killed\nbob prints a book, attempt 2\nthe run is completed by bob in attempt 2: \"a book on paper\"\n"
	if text := out.text.String(); !strings.HasSuffix(text, end) {
		t.Errorf("printed\n%s\nwant at its end\n%s", text, end)
	}
}
