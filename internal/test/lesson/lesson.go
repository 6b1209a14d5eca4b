// Package lesson tests the lessons of examples: a lesson prints exactly what its README shows.
package lesson

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Run runs a lesson and compares its output with the README in the current directory. It also
// checks that the lesson leaves no goroutine behind.
func Run(t *testing.T, run func(ctx context.Context, out io.Writer) error) {
	t.Helper()
	var out Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("run: %v, after it printed\n%s", err, out.String())
	}
	if got, want := out.String(), Output(t); got != want {
		t.Errorf("the lesson printed\n%s\nthe README shows\n%s", got, want)
	}
	goleak.VerifyNone(t)
}

// Output returns the expected output of the lesson in the current directory: the first code block
// of its README without a language.
func Output(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllSubmatch(readme, -1) {
		if len(block[1]) == 0 {
			return string(block[2])
		}
	}
	t.Fatal("README.md has no code block with the expected output")
	return ""
}

// Buffer is a bytes.Buffer for concurrent use: the processes of a lesson print into one.
type Buffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
