package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestMan: the manual pages have all commands and flags, and only requests that they mean.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, _, stderr := run(t, nil, "man", dir, "--date", "2026-11-28"); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	root := newRoot(Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: lookup(nil)})
	request := regexp.MustCompile(`(?m)^\.(TH|SH|SS|PP|TP|BI?|BR|I|RI|nf|fi)( |$)`)
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if !cmd.IsAvailableCommand() {
			continue
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		b, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		page := string(b)
		if !strings.HasPrefix(page, ".TH "+strings.ToUpper(roff(name))+" 1 \"2026-11-28\"") {
			t.Errorf("%s begins with %.80s", name, page)
		}
		for line := range strings.Lines(page) {
			if (line[0] == '.' || line[0] == '\'') && !request.MatchString(line) {
				t.Errorf("%s: %q", name, line)
			}
		}
		eachCommand(cmd, func(sub *cobra.Command) {
			if cmd != root && cmd != sub && !sub.HasAvailableSubCommands() && !strings.Contains(page, "\n.SS "+roff(sub.CommandPath())) {
				t.Errorf("%s lacks %s", name, sub.CommandPath())
			}
			sub.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if cmd != root && !f.Hidden && f.Name != "help" && !strings.Contains(page, roff("--"+f.Name)) {
					t.Errorf("%s lacks --%s of %s", name, f.Name, sub.CommandPath())
				}
			})
		})
	}
	if code, _, stderr := run(t, nil, "man"); code != exitUsage || !strings.Contains(stderr, "DIR is missing") {
		t.Errorf("without a directory: exit code %d, %s", code, stderr)
	}
}

// eachCommand calls do for a command and all available commands below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, do)
		}
	}
}
