package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func TestWatch(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	env := map[string]string{"FLOE_ADDR": s.addr}
	c := &console{t: t, env: env, dir: t.TempDir()}
	for _, tc := range []struct {
		format string
		lines  []string // events of a snapshot, a put and a delete
	}{
		{"table", []string{"put               1  w/old  before", "put               3  w/new  after", "delete            4  w/new  "}},
		{"raw", []string{"put\t1\tw/old\tbefore", "put\t6\tw/new\tafter", "delete\t7\tw/new\t"}},
		{"json", []string{
			`{"type":"put","key":"w/old","namespace":"default","value":"before","version":1,"revision":1,"lsn":1,"size":6,"timestamp_ms":N}`,
			`{"type":"put","key":"w/new","namespace":"default","value":"after","version":5,"revision":9,"lsn":9,"size":5,"timestamp_ms":N}`,
			`{"type":"delete","key":"w/new","namespace":"default","value":"","version":6,"revision":10,"lsn":10,"size":0,"timestamp_ms":N}`,
		}},
	} {
		if tc.format == "table" {
			c.typed("kv set w/old before")
		}
		watch := c.follow("kv watch w/ --timeout 1m -o " + tc.format)
		for i, want := range tc.lines {
			got := regexp.MustCompile(`("timestamp_ms":)\d+`).ReplaceAllString(watch.next(), "${1}N")
			if got != want {
				t.Errorf("watch -o %s: line %d is\n%q, want\n%q", tc.format, i, got, want)
			}
			switch i {
			case 0:
				c.typed("kv set outside x")
				c.typed("kv set w/new after")
			case 1:
				c.typed("kv delete w/new")
			}
		}
		watch.stop()
	}
}

// TestListPages lists more keys than a page holds, with one among them that is not text.
func TestListPages(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	client, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const keys, odd = 2*kv.MaxPageItems + 1, "\x1b[31m\xff"
	var load sync.WaitGroup
	for i := range keys {
		key := fmt.Sprintf("k%05d", i)
		if i == 0 {
			key = odd
		}
		load.Go(func() {
			if _, err := client.KV("default").Put(t.Context(), key, nil); err != nil {
				t.Error(err)
			}
		})
	}
	load.Wait()
	env := map[string]string{"FLOE_ADDR": s.addr}
	for format, first := range map[string]string{"table": "KEY  ", "raw": odd + "\t0\t"} {
		code, stdout, stderr := run(t, env, "kv", "list", "-o", format)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if format == "table" && !strings.HasPrefix(lines[1], `"\x1b[31m\xff"  0     `) {
			t.Errorf("kv list: the odd key is shown as %q", lines[1])
		}
		if format == "table" {
			lines = slices.Delete(lines, 1, 2)
		}
		last := fmt.Sprintf("k%05d", keys-1)
		if code != 0 || len(lines) != keys || !strings.HasPrefix(lines[0], first) || !strings.HasPrefix(lines[keys-1], last) {
			t.Errorf("kv list -o %s: exit code %d, %d lines from %q to %q, stderr\n%s", format, code, len(lines), lines[0],
				lines[len(lines)-1], stderr)
		}
	}
	var list keyList
	mustDecode(t, env, &list, "kv", "list", "-o", "json")
	if list.Count != keys || len(list.Keys) != keys || list.HasMore || list.Cursor != "" {
		t.Errorf("kv list -o json: %d keys, %d, %v, %q", len(list.Keys), list.Count, list.HasMore, list.Cursor)
	}
	if got, want := list.Keys[0].keyText, (keyText{"G1szMW3/", "base64"}); got != want {
		t.Errorf("kv list -o json: the odd key is %v, want %v", got, want)
	}
}
