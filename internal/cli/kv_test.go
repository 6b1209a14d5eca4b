package cli

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"testing"
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
			`{"type":"put","key":"w/old","namespace":"default","value":"before","version":1,"lsn":1,"size":6,"timestamp_ms":N}`,
			`{"type":"put","key":"w/new","namespace":"default","value":"after","version":5,"lsn":9,"size":5,"timestamp_ms":N}`,
			`{"type":"delete","key":"w/new","namespace":"default","value":"","version":6,"lsn":10,"size":0,"timestamp_ms":N}`,
		}},
	} {
		if tc.format == "table" {
			c.typed("kv set w/old before")
		}
		ctx, cancel := context.WithCancel(t.Context())
		out, stdout := io.Pipe()
		exited := make(chan int, 1)
		go func() {
			defer stdout.Close()
			args := []string{"kv", "watch", "w/", "-o", tc.format, "--timeout", "1m"}
			exited <- Run(ctx, Process{Args: args, Stdout: stdout, Stderr: io.Discard, LookupEnv: lookup(env)})
		}()
		lines := bufio.NewScanner(out)
		for i, want := range tc.lines {
			if !lines.Scan() {
				t.Fatalf("watch -o %s ended before %q: %v", tc.format, want, lines.Err())
			}
			got := regexp.MustCompile(`("timestamp_ms":)\d+`).ReplaceAllString(lines.Text(), "${1}N")
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
		cancel()
		if code := <-exited; code != exitOK || lines.Scan() {
			t.Errorf("watch -o %s, stopped: exit code %d, then %q", tc.format, code, lines.Text())
		}
	}
}
