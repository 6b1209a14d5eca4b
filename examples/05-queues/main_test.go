package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueues(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	text := out.String()
	const filled = `payment 1 is there already, as number 3
number 3, priority 10, ready: payment 1
number 4, priority 10, ready: payment 2
number 2, priority 100, ready: letter
number 5, priority 100, delayed: reminder
number 1, priority 200, ready: report
`
	if !strings.HasPrefix(text, filled) {
		t.Errorf("printed\n%s\nwant at its beginning\n%s", text, filled)
	}
	for want, times := range map[string]int{
		"payment 1 is done": 1, "payment 2 is done": 1, "report is done": 1, "reminder is done": 1, "letter is done": 1,
		"attempt 1 of letter: ": 1, "attempt 2 of letter: ": 1, "attempt 3 of letter: ": 1, "attempt 4": 0,
		"dead after 3 attempts: letter: the printer is out of order\n": 1, "the printer is mended: 1 requeued\n": 1,
		"5 enqueued, 8 delivered, 5 done, 0 dead\n": 1,
	} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q is there %d times, want %d, in\n%s", want, got, times, text)
		}
	}
}
