//go:build languages

package http

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

// TestPrograms: each program prints what the README shows.
func TestPrograms(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(dashboard.New(floe.OpenMemory(t), dashboard.Options{}))
	defer server.Close()
	ran := 0
	for _, block := range strings.Split(string(readme), "```console\n$ ")[1:] {
		block, _, _ = strings.Cut(block, "```")
		command, want, _ := strings.Cut(block, "\n")
		if strings.HasPrefix(command, "go ") || strings.HasPrefix(command, "npm ") {
			continue
		}
		ran++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		name, arg, _ := strings.Cut(command, " ")
		c := exec.CommandContext(ctx, name, arg)
		c.Env = append(os.Environ(), "FLOE_URL="+server.URL)
		got, err := c.CombinedOutput()
		cancel()
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", command, err, got, want)
		}
	}
	if ran != 4 {
		t.Errorf("%d programs ran, want 4", ran)
	}
}

// TestTypeScript: a client that a generator makes of the OpenAPI description type-checks, and the
// program with it prints what the README shows.
func TestTypeScript(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```console\n$ npm ci\n")
	block, _, _ = strings.Cut(block, "```")
	_, want, _ := strings.Cut(block, "$ npm run -s start\n")
	server := httptest.NewServer(dashboard.New(floe.OpenMemory(t), dashboard.Options{}))
	defer server.Close()
	got := ""
	for _, args := range []string{"ci --no-audit --no-fund", "run -s generate", "run -s build", "run -s start"} {
		c := exec.CommandContext(t.Context(), "npm", strings.Fields(args)...)
		c.Dir, c.Env = "typescript", append(os.Environ(), "FLOE_URL="+server.URL)
		out, err := c.CombinedOutput()
		if got = string(out); err != nil {
			t.Fatalf("npm %s: %v\n%s", args, err, out)
		}
	}
	if want == "" || got != want {
		t.Errorf("the program prints\n%s\nwant\n%s", got, want)
	}
}
