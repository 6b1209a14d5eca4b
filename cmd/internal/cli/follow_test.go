package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// TestFollow follows a stream, alone and in a group, and a queue, while messages come.
func TestFollow(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}, dir: t.TempDir()}
	for i, tc := range []struct {
		command   string // on NAME
		add       string // adds a message with the payload p
		table     string // the end of a line
		raw, json string
	}{
		{
			command: "stream read NAME --follow", add: "stream append NAME p --key k",
			table: "-0       0  k    p", raw: "-0\t0\tk\t\tp", json: `"key":"k","headers":{},"payload":"p","size":1}`,
		},
		{
			command: "stream read NAME --tail --limit 1 --follow", add: "stream append NAME p",
			table: "-0       0      p", raw: "-0\t0\t\t\tp", json: `"key":"","headers":{},"payload":"p","size":1}`,
		},
		{
			command: "stream group read NAME all ann --follow --ack", add: "stream append NAME p",
			table: "-0       0   1      p", raw: "-0\t0\t1\t\t\tp", json: `"payload":"p","size":1,"attempt":1,"ack_deadline":`,
		},
		{
			command: "queue dequeue NAME --follow --ack", add: "queue enqueue NAME p --header k=v",
			table: "  100   1  k=v  p", raw: "\t100\t1\tk=v\tp", json: `"last_error":"","headers":{"k":"v"},"payload":"p","size":1}`,
		},
	} {
		for format, want := range map[string]string{"table": tc.table, "raw": tc.raw, "json": tc.json} {
			named := strings.NewReplacer("NAME", fmt.Sprint(format, i))
			f := c.follow(named.Replace(tc.command) + " --timeout 1m -o " + format)
			for range 3 {
				c.typed(named.Replace(tc.add))
				if line := f.next(); !strings.Contains(line, want) {
					t.Errorf("floe %s: printed\n%q, want in it\n%q", f.line, line, want)
				}
			}
			f.stop()
		}
	}
}

// TestFollowAcknowledges takes messages with --ack, until there are no more.
func TestFollowAcknowledges(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}, dir: t.TempDir()}
	client, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.typed("stream append s p")
	c.typed("queue enqueue q p")
	// What follows in the log says that the acknowledgement before it is there.
	read := c.follow("stream group read s g ann --follow --ack --limit 1")
	read.next()
	c.typed("stream append s p")
	read.next()
	read.stop()
	// Stopped, it has acknowledged what it printed, and left.
	if g, err := client.Stream("default").Groups("s").Get(t.Context(), "g"); err != nil || g.Pending() != 0 || g.Lag() != 0 ||
		len(g.Members) != 0 {
		t.Errorf("group: %d records pending, lag %d, members %v, %v, want nothing and nobody", g.Pending(), g.Lag(), g.Members, err)
	}
	c.typed("stream append s q")
	for range 6 {
		c.typed("stream group read s g bob")
		c.typed("stream group leave s g bob")
	}
	if g, err := client.Stream("default").Groups("s").Get(t.Context(), "g"); err != nil || g.Pending() != 1 || len(g.Members) != 0 {
		t.Errorf("group: %d records pending, members %v, %v, want the one that is left and nobody", g.Pending(), g.Members, err)
	}
	if _, err := client.Stream("default").Read(t.Context(), "s.dlq"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("dead letters after six clean stops: %v", err)
	}
	dequeue := c.follow("queue dequeue q --follow --ack")
	dequeue.next()
	c.typed("queue enqueue q p")
	dequeue.next()
	dequeue.stop()
	if q, err := client.Queue("default").Get(t.Context(), "q"); err != nil || q.Acked < 1 || q.Ready != 0 {
		t.Errorf("queue: %+v, %v, want at least the first message acknowledged", q, err)
	}
}

// TestManyPages reads and lists more than a page holds.
func TestManyPages(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	client, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const all = 2*stream.MaxReadLimit + 1
	records, messages := make([]stream.Message, all), make([]queue.NewMessage, queue.MaxBatch)
	for i := range records {
		records[i].Payload = fmt.Appendf(nil, "p%04d", i)
	}
	if _, err := client.Stream("default").AppendMany(t.Context(), "s", records); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := client.Queue("default").EnqueueMany(t.Context(), "q", messages); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := client.Stream("default").ReadGroup(t.Context(), "s", "g", "c", stream.Limit(stream.MaxReadLimit)); err != nil {
			t.Fatal(err)
		}
		ms, err := client.Queue("default").Dequeue(t.Context(), "q", queue.Max(queue.MaxBatch))
		if err != nil {
			t.Fatal(err)
		}
		txn := client.Txn("default")
		for _, m := range ms {
			txn.Do(queue.NackOp("q", []queue.Receipt{m.Receipt}, queue.ToDLQ()))
		}
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"FLOE_ADDR": s.addr}
	for line, want := range map[string]int{
		"stream read s --limit 1500":          1500,
		"stream read s --limit 100000":        all,
		"stream read s --follow --limit 2001": all,
		"stream read s --tail --limit 1000":   1000,
		"stream group pending s g":            all,
		"queue dlq list q --limit 2500":       2500,
		"queue dlq list q --limit 5000":       3000,
		"queue dlq list q":                    100,
		"queue peek q":                        0,
	} {
		code, stdout, stderr := run(t, env, append(strings.Fields(line), "-o", "raw")...)
		if got := strings.Count(stdout, "\n"); code != 0 || got != want {
			t.Errorf("floe %s: exit code %d, %d lines, want %d; stderr\n%s", line, code, got, want, stderr)
		}
	}
	var list recordList
	mustDecode(t, env, &list, "stream", "read", "s", "--limit", "3000", "-o", "json")
	if first, last := list.Records[0].Payload, list.Records[len(list.Records)-1].Payload; list.Count != all || first != "p0000" ||
		last != "p2000" {
		t.Errorf("stream read: %d records from %s to %s, want %d from p0000 to p2000", list.Count, first, last, all)
	}
	var done seqsDone
	if mustDecode(t, env, &done, "queue", "dlq", "delete", "q", "--all", "-o", "json"); done.Count != 3000 {
		t.Errorf("queue dlq delete --all: %d, want 3000", done.Count)
	}
}

// TestFailedJob: the status of a job that failed on a record has the record's position.
func TestFailedJob(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir(), "--shards", "1")
	defer s.stop()
	c := &console{t: t, env: map[string]string{"FLOE_ADDR": s.addr}, dir: t.TempDir()}
	client, err := floe.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.typed("stream create orders --partitions 4")
	c.typed("stream append orders no-JSON --partition 2")
	c.typed(`echo {"kind":"Processing","name":"strict","on_error":"fail","sources":[{"name":"in","stream":{"name":"orders"}}],` +
		`"operators":[{"name":"only","type":"filter","condition":"expr:n>0"}],"sinks":[{"stream":"copy"}]} | processing submit -`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for failed := false; !failed; {
		page, err := client.Processing("default").Page(ctx)
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("jobs %+v, %v", page.Items, err)
		}
		failed = page.Items[0].Status == processing.Failed
	}
	const want = "FAILED AT  SOURCE  INPUT   PARTITION  OFFSET  RECORD\nonly       in      orders  2          1       ID1\n"
	if got := c.typed("processing status strict"); !strings.Contains(got, want) {
		t.Errorf("%s\nwant in it\n%s", got, want)
	}
	const document = `"failure": {
    "operator": "only",
    "reason": "the value is no JSON",
    "source": "in",
    "stream": "orders",
    "measurement": "",
    "partition": 2,
    "record_id": "ID1",
    "offset": 1
  }`
	if got := c.typed("processing status strict -o json"); !strings.Contains(got, document) {
		t.Errorf("%s\nwant in it\n%s", got, document)
	}
}
