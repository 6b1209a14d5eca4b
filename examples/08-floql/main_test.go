package main

import (
	"strings"
	"testing"
)

func TestFloQL(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	for _, want := range []string{
		"    temperature room=101:  21:30 18.02  21:40 18.01  21:50 18\n",
		"    temperature room=101:  21:30 18  21:45 18\n",
		"    temperature:  21:30 19.5\n",
		"    requests server=b:  21:00 1  21:30 1.5\n",
		"    requests:  18:00 2.5  21:00 2.5\n",
		"    light:  23:00 7.833333333333333\n",
		"    used server=b:  21:50 84\n",
		"    used server=b:  21:50 81\n",
		"    used server=b:  21:50 6720000000\n",
		"\n  temperature[30m] | window(15m) | agv()\n                                   ^\n    col 34: unknown stage \"agv\" (did you " +
			"mean \"avg\"?)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
