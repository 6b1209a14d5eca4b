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
	if ran != 5 {
		t.Errorf("%d programs ran, want 5", ran)
	}
}

// TestReadme runs the Python program of the project's README.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	node := floe.OpenMemory(t)
	server := httptest.NewServer(dashboard.New(node, dashboard.Options{}))
	defer server.Close()
	if _, err := node.Queue("default").Enqueue(t.Context(), "mail", []byte("to: ada")); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "python3", "-c", strings.ReplaceAll(program, "http://127.0.0.1:9002", server.URL))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	records, err := node.Stream("default").Read(t.Context(), "log")
	if err != nil || len(records) != 1 || string(records[0].Payload) != "sent to: ada" {
		t.Errorf("records of the log: %v, %v", records, err)
	}
	left, err := node.Queue("default").Messages("mail").Page(t.Context())
	if err != nil || len(left.Items) != 0 {
		t.Errorf("messages %v, %v; want none", left.Items, err)
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
