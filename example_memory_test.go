package floe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/floedb/floe"
)

// greet is the code under test.
func greet(ctx context.Context, db floe.DB, name string) (string, error) {
	n, err := db.KV("default").Incr(ctx, "greeted/"+name, 1)
	return fmt.Sprintf("hello, %s, for the %d. time", name, n.Value), err
}

// TestGreet tests it: the node takes one line and is closed when the test ends.
func TestGreet(t *testing.T) {
	node := floe.OpenMemory(t)

	for _, want := range []string{"hello, ann, for the 1. time", "hello, ann, for the 2. time"} {
		if got, err := greet(t.Context(), node, "ann"); got != want || err != nil {
			t.Errorf("greet = %q, %v, want %q", got, err, want)
		}
	}
}

// A test opens its node in one line. The value t here stands for the *testing.T of the test in this
// file.
func ExampleOpenMemory() {
	t := new(example)
	defer t.end()

	node := floe.OpenMemory(t)

	fmt.Println(greet(context.Background(), node, "ann"))
	// Output: hello, ann, for the 1. time <nil>
}

// example stands in for a *testing.T in an example.
type example struct{ cleanups []func() }

func (e *example) Helper()                           {}
func (e *example) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (e *example) end() {
	for _, f := range e.cleanups {
		f()
	}
}
