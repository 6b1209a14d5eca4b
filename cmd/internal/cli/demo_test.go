package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestDemoPorts: the other ports follow the one for clients.
func TestDemoPorts(t *testing.T) {
	for port, want := range map[string]string{"65535": "--metrics-port=65536: not a port", "65534": "--dashboard-port=65536: not a port"} {
		if code, _, stderr := run(t, nil, "demo", "--no-open", "--port", port); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("--port %s: exit code %d, %s, want %q", port, code, stderr, want)
		}
	}
}

// TestDemo: the demo says where it is, has something in every primitive when it says so, and ends
// in order.
func TestDemo(t *testing.T) {
	t.Parallel()
	out, stdout := io.Pipe()
	var stderr lockedBuffer
	signal, exited := inProcess(t, []string{"demo", "--port", "0", "--metrics-port", "0", "--dashboard-port", "0", "--seed", "7",
		"--no-open"}, stdout, &stderr)
	url, scrape := "", ""
	lines := bufio.NewScanner(out)
	if lines.Scan(); !strings.Contains(lines.Text(), "loads a demo shop into memory") {
		t.Errorf("the demo begins with %q", lines.Text())
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "All of it") {
		if _, after, found := strings.Cut(lines.Text(), "metrics    "); found {
			scrape = after
		}
		if _, after, found := strings.Cut(lines.Text(), "dashboard  "); found {
			url = after
		}
	}
	if url == "" {
		t.Fatalf("demo said nothing of its dashboard; stderr\n%s", stderr.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the command
	for _, path := range []string{
		"kv/namespaces/shop/keys?x=", "streams?namespace=shop", "queues?namespace=shop", "timeseries?namespace=shop",
		"actions?namespace=shop", "workers?namespace=shop",
		"processing/jobs?namespace=shop", "workflow/runs?namespace=shop", "streams?namespace=warehouse", "timeseries?namespace=analytics",
	} {
		var items []json.RawMessage
		body := mustCall(t, 200, "GET", url+"/api/v1/"+path, "")
		if strings.HasPrefix(path, "kv/") {
			var page struct{ Keys []json.RawMessage }
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatal(err)
			}
			items = page.Keys
		} else if err := json.Unmarshal([]byte(body), &items); err != nil {
			t.Fatal(err)
		}
		if len(items) == 0 {
			t.Errorf("GET %s has nothing", path)
		}
	}
	if text := mustCall(t, 200, "GET", scrape, ""); !strings.Contains(text, `floe_queue_enqueued_total{namespace="shop",`) {
		t.Error("the metrics know no queue of the shop")
	}
	signal(syscall.SIGTERM)
	if code := <-exited; code != 0 {
		t.Errorf("exit code %d; stderr\n%s", code, stderr.String())
	}
}
