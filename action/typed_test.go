package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
)

// TestTypedBytes: an invoker receives the bytes that a handler of bytes returns. They used to be
// read as JSON.
func TestTypedBytes(t *testing.T) {
	s := openWith(t, "bytes", "raw")
	w := s.Worker(action.WorkerConfig{})
	action.Handle(w, "bytes", func(_ context.Context, in []byte) ([]byte, error) { return append(in, 0xff, '"'), nil })
	action.Handle(w, "raw", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	working(t, w)
	if got, err := action.Invoke[[]byte](short(t), s, "bytes", []byte("x")); err != nil || string(got) != "x\xff\"" {
		t.Errorf("Invoke = %q, %v", got, err)
	}
	if got, err := action.Invoke[json.RawMessage](short(t), s, "raw", map[string]int{"a": 1}); err != nil || string(got) != `{"a":1}` {
		t.Errorf("Invoke = %q, %v", got, err)
	}
	if _, err := action.Invoke[string](short(t), s, "bytes", []byte("x")); !errors.Is(err, action.ErrInvalid) {
		t.Errorf("Invoke = %v", err)
	}
}

// TestMessagesAreShort: errors do not repeat long arguments, inputs and outputs.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", 5000)
	s := openWith(t, "a")
	_, invoked := action.Invoke[int](short(t), s, "a", json.Number(long))
	_, named := s.Invoke(short(t), long, nil)
	_, parsed := action.ParseStatus(long)
	_, input := s.Invoke(short(t), "a", []byte(long))
	for _, err := range []error{
		invoked, named, parsed, input, action.Outcome(long, nil), &action.RunError{Run: action.Run{Action: long, Error: long}},
	} {
		if err == nil || len(err.Error()) > 700 {
			t.Errorf("%d bytes: %.60s", len(err.Error()), err)
		}
	}
}
