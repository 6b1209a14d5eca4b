package main

import (
	"strings"
	"testing"
)

func TestNothingIsLost(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, t.TempDir(), 100); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	for _, want := range []string{"node 1 shows 300 of 300 keys", "node 2 shows 300 of 300 keys", "node 3 shows 300 of 300 keys"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
