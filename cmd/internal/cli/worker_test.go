package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerScript: the script in the help of floe worker await does what it says, and ends no
// attempt but its own: while it sends, its first attempt is over and the same worker has got the
// second one, which its end was taken for.
func TestWorkerScript(t *testing.T) {
	path := build(t)
	s := startBy(t, binary(path, nil), "--data-dir", t.TempDir())
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	_, help, found := strings.Cut(expectRun(t, env, 0, "worker", "await", "--help"), "Examples:\n")
	script, _, _ := strings.Cut(help, "\n\n")
	if !found || !strings.Contains(script, "while IFS") {
		t.Fatalf("the help has the script %q", script)
	}
	bin := t.TempDir()
	run := func(send string) {
		t.Helper()
		for name, text := range map[string]string{"floe": `exec ` + path + ` "$@"`, "send": send} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FLOE_ADDR="+s.addr)
		if out, err := cmd.CombinedOutput(); err != nil && exitCode(err) != exitConflict {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	status := func(id string) string {
		return strings.Join(strings.Fields(expectRun(t, env, 0, "action", "status", id)), " ")
	}
	expectRun(t, env, 0, "action", "register", "send-email", "--backoff", "0s")
	invoke := func() string {
		return strings.Split(expectRun(t, env, 0, "action", "invoke", "send-email", `{"to": "ada"}`, "-o", "raw"), "\t")[1]
	}

	id := invoke()
	run(`exit 1`)
	if got := status(id); !strings.Contains(got, "pending") || !strings.Contains(got, "no luck") {
		t.Errorf("when it could not be sent: %s", got)
	}
	run(`test "$1" = '{"to":"ada"}'`)
	if got := status(id); !strings.Contains(got, "completed") || !strings.Contains(got, "2/4") {
		t.Errorf("when it was sent: %s", got)
	}

	id = invoke()
	run(`floe worker fail ` + id + ` --worker-id mailer-1 --error slow --retry && floe worker await send-email --worker-id mailer-1`)
	if got := status(id); !strings.Contains(got, "running") || !strings.Contains(got, "2/4") {
		t.Errorf("when its attempt was over: %s", got)
	}
	expectRun(t, env, 0, "worker", "complete", id, "--attempt", "2", "--worker-id", "mailer-1")
	if got := status(id); !strings.Contains(got, "completed") {
		t.Errorf("when the second attempt has ended: %s", got)
	}
}
