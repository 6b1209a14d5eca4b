package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestActions(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	const want = `order 1: 1000 cents paid
order 2 is charged in attempt 2
order 2: 250 cents paid
order 3 is failed after 1 attempt: the card is stolen (stolen_card)
order 4: a duplicate: false, completed with {"Order":4,"Paid":5}
order 4: a duplicate: true, completed with {"Order":4,"Paid":5}
5 runs: 3 completed, 1 failed, 1 cancelled
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
