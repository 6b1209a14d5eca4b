package floe_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// TestOpenErrors: each error of Open matches its sentinel and names its cause once.
func TestOpenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	node, err := floe.Open(floe.Config{DataDir: open, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	made := func(name string, change func(path string)) string {
		path := filepath.Join(dir, name)
		n, err := floe.Open(floe.Config{DataDir: path, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		change(path)
		return path
	}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(old, new string) func(string) {
		return func(path string) {
			b, err := os.ReadFile(filepath.Join(path, "FORMAT"))
			if err != nil {
				t.Fatal(err)
			}
			write(filepath.Join(path, "FORMAT"), strings.Replace(string(b), old, new, 1))
		}
	}
	file := filepath.Join(dir, "file")
	write(file, "")
	three := []floe.Peer{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: "127.0.0.1:2"}, {ID: 3, Addr: "127.0.0.1:3"}}
	secret := make([]byte, 16)
	rand.Read(secret)
	for name, c := range map[string]struct {
		config floe.Config
		is     error
		want   []string
	}{
		"in use": {floe.Config{DataDir: open}, floe.ErrInUse, []string{open, "in use by another node"}},
		"shards": {floe.Config{DataDir: made("shards", func(string) {}), Shards: 3}, floe.ErrInvalid,
			[]string{"was created with 2 shards, not 3"}},
		"cluster": {floe.Config{DataDir: made("cluster", func(string) {}), NodeID: 2, Peers: three, Secret: secret,
			Listen: "127.0.0.1:0"}, floe.ErrInvalid, []string{"belongs to node 1, not 2", "nodes [1], not [1 2 3]"}},
		"damaged FORMAT": {floe.Config{DataDir: made("damaged", func(p string) { write(filepath.Join(p, "FORMAT"), "{") })},
			floe.ErrUnavailable, []string{"FORMAT is damaged"}},
		"changed FORMAT": {floe.Config{DataDir: made("changed", edit(`"shards": 2`, `"shards": 3`))}, floe.ErrUnavailable,
			[]string{"FORMAT is damaged", "checksum"}},
		"newer": {floe.Config{DataDir: made("newer", edit(`"floe_format": 3`, `"floe_format": 77`))}, floe.ErrInvalid,
			[]string{"format 77", "floe " + floe.Version, "use a newer floe"}},
		"older": {floe.Config{DataDir: made("older", edit(`"floe_format": 3`, `"floe_format": 1`))}, floe.ErrInvalid,
			[]string{"format 1", "before the first release", "floe " + floe.Version}},
		"no FORMAT": {floe.Config{DataDir: made("lost", func(p string) { os.Remove(filepath.Join(p, "FORMAT")) })},
			floe.ErrUnavailable, []string{"no FORMAT file"}},
		"no log": {floe.Config{DataDir: made("nolog", func(p string) { os.RemoveAll(filepath.Join(p, "log")) })},
			floe.ErrUnavailable, []string{"the log holds 0 of 2 shards"}},
		"a file":       {floe.Config{DataDir: file}, floe.ErrInvalid, []string{file, "not a directory"}},
		"below a file": {floe.Config{DataDir: filepath.Join(file, "data")}, floe.ErrInvalid, []string{file, "not a directory"}},
		"no path":      {floe.Config{DataDir: "a\x00b"}, floe.ErrInvalid, []string{"create data directory", "invalid argument"}},
		"too long": {floe.Config{DataDir: strings.Repeat("x", 5000)}, floe.ErrInvalid,
			[]string{"create data directory", "file name too long"}},
		"port": {floe.Config{Listen: taken.Addr().String()}, syscall.EADDRINUSE, []string{taken.Addr().String()}},
		"port number": {floe.Config{Listen: "127.0.0.1:99999"}, floe.ErrInvalid,
			[]string{`listen address "127.0.0.1:99999" is not host:port`}},
		"address": {floe.Config{Listen: "9000"}, floe.ErrInvalid, []string{`listen address "9000" is not host:port`}},
		"functions": {floe.Config{Funcs: map[string]processing.Func{"": nil, "score": nil}}, floe.ErrInvalid,
			[]string{"function name is empty", `function "score" is nil`}},
		"many": {floe.Config{Shards: -1, Durability: 7, SyncInterval: -1, CacheSize: -1, Memory: 5, MaxConnections: -1, MaxInFlight: -2,
			MaxWaiting: -3, MaxValueSize: 1 << 30, NodeID: 9}, floe.ErrInvalid,
			[]string{"shards -1", "durability", "sync interval", "cache size -1", "memory 5", "connections -1", "calls in flight -2",
				"waiting calls -3", "max value size", "node id 9 without peers"}},
		"peers": {floe.Config{NodeID: 9, Memory: 1, Peers: append(three[:2:2], floe.Peer{Addr: "x"})}, floe.ErrInvalid,
			[]string{"node id 9 is not among the peers", "peer id 0", `address "x"`, "secret of 0 bytes", "memory 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := floe.Open(c.config)
			if err == nil {
				n.Close()
				t.Fatal("Open succeeded")
			}
			if !errors.Is(err, c.is) || !errors.Is(err, floe.ErrInvalid) && !errors.Is(err, floe.ErrUnavailable) {
				t.Errorf("error %v (%T) does not match %v and a sentinel", err, err, c.is)
			}
			for _, want := range append(c.want, "data directory", "configuration", c.config.DataDir) {
				if n := strings.Count(err.Error(), want); n > 1 || n == 0 && want != "data directory" && want != "configuration" {
					if want != "" {
						t.Errorf("error %q has %q %d times", err, want, n)
					}
				}
			}
		})
	}
}

// TestDialAddresses: an invalid address is refused at once, instead of being dialled for 5 seconds.
func TestDialAddresses(t *testing.T) {
	for _, addr := range []string{"", "here", "127.0.0.1", "127.0.0.1:99999", "::1:9000"} {
		_, err := floe.Dial(t.Context(), []string{"127.0.0.1:1", addr})
		if !errors.Is(err, floe.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("address %q is not host:port", addr)) {
			t.Errorf("Dial(%q) = %v, want ErrInvalid", addr, err)
		}
	}
}

// TestOpenOnePeer: to users and clients, a cluster of one node is a single node.
func TestOpenOnePeer(t *testing.T) {
	addr := machinetest.FreeAddr(t)
	c := floe.Config{DataDir: t.TempDir(), NodeID: 3, Peers: []floe.Peer{{ID: 3, Addr: addr}}}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		n, err := floe.OpenContext(ctx, c)
		cancel() // no longer needed
		if err != nil {
			t.Fatal(err)
		}
		client, err := floe.Dial(t.Context(), []string{addr})
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []floe.DB{n, client} {
			if _, err := db.KV("n").Incr(t.Context(), "k", 1); err != nil {
				t.Error(err)
			}
			if s, err := db.Stats(t.Context()); err != nil || len(s.Nodes) != 1 || s.Nodes[0].ID != "3" || s.Nodes[0].Addr != addr {
				t.Errorf("Stats = %+v, %v; want node 3 at %s", s.Nodes, err, addr)
			}
		}
		if err := errors.Join(client.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenContext: an Open that is cancelled leaves nothing behind.
func TestOpenContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := floe.OpenContext(ctx, floe.Config{DataDir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("OpenContext with a context that is done = %v, want context.Canceled", err)
	}
	n, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}

// TestVerifyNamesBuild: a directory records the build that created it and the last one that wrote
// it.
func TestVerifyNamesBuild(t *testing.T) {
	dir := t.TempDir()
	n, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	r, err := floe.Verify(t.Context(), dir)
	if err != nil || r.Format != 3 || !strings.HasPrefix(r.CreatedBy, "floe "+floe.Version) || r.WrittenBy != r.CreatedBy ||
		len(r.Problems) > 0 {
		b, _ := json.Marshal(r)
		t.Errorf("Verify = %s, %v", b, err)
	}
}

// TestClosedIsNamed: the error of a call says whether the node or the client is closed.
func TestClosedIsNamed(t *testing.T) {
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	client, err := floe.Dial(t.Context(), []string{node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := client.KV("default").Wait(t.Context(), "never")
		waiting <- err
	}()
	client.Close()
	said := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, floe.ErrClosed) || err.Error() != what+" is closed" {
			t.Errorf("error %v, want ErrClosed: %s is closed", err, what)
		}
	}
	said("client", <-waiting)
	_, err = client.KV("default").Get(t.Context(), "k")
	said("client", err)
	_, err = client.KV("default").Put(t.Context(), "k", nil)
	said("client", err)
	_, err = client.Stats(t.Context())
	said("client", err)
	_, err = client.StatsOf(t.Context(), 1)
	said("client", err)
	_, _, err = client.Keys().Create(t.Context(), floe.RoleRead)
	said("client", err)
	node.Close()
	_, err = node.KV("default").Get(t.Context(), "k")
	said("node", err)
	_, err = node.Stats(t.Context())
	said("node", err)
}

// TestCountsSurviveRestarts (D16 of the decisions about the API): the read counts of keys and
// records survive a restart. If their file is damaged, they restart at zero and the log says so.
func TestCountsSurviveRestarts(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	var log bytes.Buffer
	var node *floe.Node
	open := func() {
		t.Helper()
		log.Reset()
		var err error
		if node, err = floe.Open(floe.Config{DataDir: dir, Shards: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() {
		t.Helper()
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(times int) {
		t.Helper()
		for range times {
			if _, err := node.KV("a").Get(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			if _, err := node.Stream("b").Read(ctx, "s"); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string, want int64) {
		t.Helper()
		ns, err := node.Namespaces().Get(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		s, err := node.Stream("b").Get(ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		if ns.Counts.KeyReads != want || s.Reads != want {
			t.Errorf("%s: %d reads of keys, %d of records, want %d", when, ns.Counts.KeyReads, s.Reads, want)
		}
	}
	open()
	if _, err := node.KV("a").Put(ctx, "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Stream("b").Append(ctx, "s", stream.Message{Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	read(5)
	check("at first", 5)
	closed()
	open()
	check("after a restart", 5)
	read(2)
	closed()
	open()
	check("after another", 7)
	closed()
	open()
	check("after one without reads", 7)
	closed()
	open()
	before, err := node.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	node.AddTraffic(1000, 2000)
	read(1)
	closed()
	open()
	after, err := node.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Commands < before.Commands+2 || before.Commands < 20 || after.Port.BytesReceived != before.Port.BytesReceived+1000 ||
		after.Port.BytesSent != before.Port.BytesSent+2000 {
		t.Errorf("after a restart the node has done %d, %+v; before %d, %+v", after.Commands, after.Port, before.Commands, before.Port)
	}
	closed()
	path := filepath.Join(dir, "COUNTS")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := floe.Verify(ctx, dir); err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "COUNTS") {
		t.Errorf("Verify of a damaged file: %+v, %v", report, err)
	}
	open()
	check("with a damaged file", 0)
	closed() // close first: log lines would race with the check
	if !strings.Contains(log.String(), "begin at zero") {
		t.Errorf("the log does not say so:\n%s", &log)
	}
}
