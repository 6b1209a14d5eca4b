package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yess\n": false} {
		var out strings.Builder
		err := confirm(t.Context(), strings.NewReader(answer), &out, "sure? ")
		if (err == nil) != want || out.String() != "sure? " {
			t.Errorf("answer %q: %v, asked %q", answer, err, &out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, end := io.Pipe()
	defer end.Close()
	if err := confirm(ctx, in, io.Discard, "sure? "); !errors.Is(err, errInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestNobodyIsAsked: scripts run with files, pipes and /dev/null.
func TestNobodyIsAsked(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, stream := range []any{nil, null, file, strings.NewReader("")} {
		if isPerson(stream) {
			t.Errorf("%T counts as a terminal", stream)
		}
	}
}

// TestDestructive lists the commands that ask for confirmation.
func TestDestructive(t *testing.T) {
	root := newRoot(Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: lookup(nil)})
	for _, path := range []string{
		"stream delete", "stream trim", "stream group delete", "queue purge", "queue delete", "queue dlq delete", "ts delete",
		"action delete", "workflow delete", "workflow version remove", "key revoke",
	} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 || cmd.Flags().Lookup("force") == nil {
			t.Errorf("floe %s has no --force", path)
		}
	}
}
