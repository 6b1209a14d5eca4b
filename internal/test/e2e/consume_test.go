package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// consumerEnv makes the test binary consume a queue and a stream, until its standard input ends;
// then it drains.
const consumerEnv = "FLOE_EXERCISE_CONSUMER"

var consumerKillsFlag = flag.Int("consumer-kills", 3, "how many processes TestConsumers kills, of consumers and of nodes")

// The work of TestConsumers.
const (
	consumedPlace = "work" // namespace, queue, stream and group
	consumedItems = 400    // messages and records each
	consumedKeys  = 20
)

// workThrough runs work with a client connected to the addresses in text, which is JSON. The
// context ends when the parent process closes the input or is gone. If that happens before there is
// a connection, there was no work.
func workThrough(text string, work func(context.Context, *floe.Client) error) error {
	var addrs []string
	if err := json.Unmarshal([]byte(text), &addrs); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	db, err := floe.Dial(ctx, addrs)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	return work(ctx, db)
}

// runConsumer consumes through a client with the given addresses, and reports what it takes. A
// message with an even number is acknowledged by its handler, together with a key that records it.
// For all other items the executions are counted.
func runConsumer(text string) error { return workThrough(text, consume) }

func consume(ctx context.Context, db *floe.Client) error {
	store := db.KV(consumedPlace)
	said := make(chan error, 2)
	go func() {
		said <- db.Queue(consumedPlace).Consume(ctx, consumedPlace, func(ctx context.Context, m queue.Message) error {
			n := string(m.Payload)
			say("message", n, m.Receipt)
			if i, _ := strconv.Atoi(n); i%2 == 1 {
				_, err := store.Incr(ctx, "runs/"+n, 1)
				return err
			}
			done := db.Txn(consumedPlace).Do(queue.AckOp(consumedPlace, m.Receipt), kv.PutOp("done/"+n, nil, kv.IfAbsent()))
			if _, err := done.Commit(ctx); err != nil {
				return err
			}
			return queue.ErrSettled
		}, queue.Concurrency(8), queue.Lease(time.Second))
	}()
	go func() {
		said <- db.Stream(consumedPlace).Consume(ctx, consumedPlace, consumedPlace, func(ctx context.Context, d stream.Delivery) error {
			say("record", string(d.Payload), d.Attempt)
			_, err := store.Incr(ctx, "records/"+string(d.Payload), 1)
			return err
		}, stream.Concurrency(8))
	}()
	for range cap(said) {
		if err := <-said; err != nil {
			return err
		}
	}
	return nil
}

// say writes a line without buffering.
func say(words ...any) {
	_, _ = os.Stdout.WriteString(fmt.Sprintln(words...))
}

// TestConsumers has three processes consume, which are killed at times, as are nodes. Nothing may
// be lost, and nothing may be delivered after its acknowledgement.
func TestConsumers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *processes{"three": newProcesses, "one": newProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &consumers{t: t, nodes: start(t)}
			c.run()
		})
	}
}

type consumers struct {
	t     *testing.T
	nodes *processes
	cmds  [3]*exec.Cmd
	stdin [3]io.Closer
	read  [3]chan struct{} // closed when the whole output of the consumer has been read
	taken atomic.Int64

	mu       sync.Mutex
	receipts map[string][]string // of the deliveries of each message
}

func (c *consumers) run() {
	t, ctx := c.t, c.t.Context()
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	c.receipts = make(map[string][]string)
	db := c.nodes.client()
	defer db.Close()
	c.fill(ctx, db)
	for i := range c.cmds {
		c.start(i)
	}
	for range *consumerKillsFlag {
		for want := c.taken.Load() + consumedItems/10; c.taken.Load() < want && !c.idle(ctx, db); <-time.After(5 * time.Millisecond) {
		}
		if n := rng.IntN(len(c.cmds) + 1); n < len(c.cmds) {
			_ = c.cmds[n].Process.Kill()
			_ = c.wait(n)
			c.start(n)
			continue
		}
		i := rng.IntN(len(c.nodes.cmds))
		c.nodes.kill(i)
		c.nodes.start(i)
	}
	for !c.idle(ctx, db) {
		<-time.After(20 * time.Millisecond)
	}
	for i := range c.cmds {
		_ = c.stdin[i].Close()
		if err := c.wait(i); err != nil {
			t.Errorf("consumer %d: %v", i, err)
		}
	}
	c.audit(ctx, db)
}

// fill creates the work. Failed items are delivered again without limit.
func (c *consumers) fill(ctx context.Context, db *floe.Client) {
	t, jobs, log := c.t, db.Queue(consumedPlace), db.Stream(consumedPlace)
	settings := queue.Settings{BackoffMin: queue.NoBackoff, MaxAttempts: queue.MaxAttemptsLimit}
	if err := jobs.Configure(ctx, consumedPlace, settings); err != nil {
		t.Fatal(err)
	}
	if err := log.Create(ctx, consumedPlace, stream.Partitions(3)); err != nil {
		t.Fatal(err)
	}
	opts := []stream.GroupOption{stream.InMode(stream.KeyShared), stream.AckTimeout(time.Second), stream.MaxAttempts(0),
		stream.Backoff(0, 0)}
	if err := log.Groups(consumedPlace).Create(ctx, consumedPlace, opts...); err != nil {
		t.Fatal(err)
	}
	var messages []queue.NewMessage
	var records []stream.Message
	for i := range consumedItems {
		messages = append(messages, queue.NewMessage{Payload: fmt.Append(nil, i)})
		records = append(records, stream.Message{Key: fmt.Sprint(i % consumedKeys), Payload: fmt.Append(nil, i)})
	}
	ok[[]queue.Enqueued](t)(jobs.EnqueueMany(ctx, consumedPlace, messages))
	ok[[]stream.Appended](t)(log.AppendMany(ctx, consumedPlace, records))
}

func (c *consumers) start(i int) {
	text, err := json.Marshal(c.nodes.addrs())
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), consumerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if c.stdin[i], err = cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.cmds[i] = cmd
	c.t.Cleanup(func() { _ = cmd.Process.Kill() })
	read := make(chan struct{})
	c.read[i] = read
	go func() {
		defer close(read)
		c.note(out)
	}()
}

// wait waits until a consumer has ended.
func (c *consumers) wait(i int) error {
	<-c.read[i]
	return c.cmds[i].Wait()
}

// note records the output of a consumer.
func (c *consumers) note(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue
		}
		c.taken.Add(1)
		if words[0] == "message" {
			c.mu.Lock()
			c.receipts[words[1]] = append(c.receipts[words[1]], words[2])
			c.mu.Unlock()
		}
	}
}

// idle reports whether no work is left.
func (c *consumers) idle(ctx context.Context, db *floe.Client) bool {
	q, err := db.Queue(consumedPlace).Get(ctx, consumedPlace)
	if err != nil || q.Ready+q.Delayed+q.Inflight > 0 {
		return false
	}
	g, err := db.Stream(consumedPlace).Groups(consumedPlace).Get(ctx, consumedPlace)
	return err == nil && g.Pending() == 0 && g.Lag() == 0
}

func (c *consumers) audit(ctx context.Context, db *floe.Client) {
	t, store := c.t, db.KV(consumedPlace)
	again := 0
	for i := range consumedItems {
		n := fmt.Sprint(i)
		key := "runs/" + n
		if i%2 == 0 {
			key = "done/" + n
		}
		e, err := store.Get(ctx, key)
		if err != nil {
			t.Errorf("message %s was lost: %v", n, err)
		}
		if _, err := store.Get(ctx, "records/"+n); err != nil {
			t.Errorf("record %s was lost: %v", n, err)
		}
		again += len(c.receipts[n]) - 1
		for _, r := range c.receipts[n] {
			_, text, _ := strings.Cut(r, "-")
			if lsn, err := strconv.ParseUint(text, 10, 64); i%2 == 0 && (err != nil || lsn >= e.Revision) {
				t.Errorf("message %s was acknowledged at %d and delivered at %s", n, e.Revision, text)
			}
		}
	}
	q := ok[queue.Stats](t)(db.Queue(consumedPlace).Get(ctx, consumedPlace))
	if q.Acked != consumedItems || q.Dead != 0 {
		t.Errorf("Stats = %+v, want all acknowledged", q)
	}
	g := ok[stream.GroupStats](t)(db.Stream(consumedPlace).Groups(consumedPlace).Get(ctx, consumedPlace))
	if len(g.Members) > *consumerKillsFlag {
		t.Errorf("members %+v, want those that were killed at most", g.Members)
	}
	t.Logf("%d things were taken, %d messages again", c.taken.Load(), again)
}

// suiteConsume consumes everything, on any kind of database.
func suiteConsume(t *testing.T, db database) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	jobs, log, store := queue.JSON[int](db.Queue("loops")), stream.JSON[int](db.Stream("loops")), db.KV("loops")
	for i := range 20 {
		ok[queue.Enqueued](t)(jobs.Enqueue(ctx, "q", i))
		ok[stream.Appended](t)(log.Append(ctx, "s", "k", i))
	}
	add := func(key string, n int, enough func()) error {
		_, err := kv.JSON[int](store).Update(ctx, key, func(e kv.EntryOf[int]) (int, error) {
			if e.Value+n == 190 {
				enough()
			}
			return e.Value + n, nil
		})
		return err
	}
	working, enough := context.WithCancel(ctx)
	err := jobs.Consume(working, "q", func(ctx context.Context, m queue.MessageOf[int]) error { return add("q", m.Value, enough) },
		queue.Concurrency(5))
	if err != nil || ctx.Err() != nil {
		t.Errorf("Consume of a queue = %v, %v", err, ctx.Err())
	}
	next := 0
	working, enough = context.WithCancel(ctx)
	err = log.Consume(working, "s", "g", func(ctx context.Context, d stream.DeliveryOf[int]) error {
		if d.Value != next {
			t.Errorf("record %d comes when %d is next", d.Value, next)
		}
		next++
		return add("s", d.Value, enough)
	}, stream.Concurrency(5), stream.InMode(stream.KeyShared))
	if err != nil || ctx.Err() != nil {
		t.Errorf("Consume of a stream = %v, %v", err, ctx.Err())
	}
	err = store.WithLock(ctx, "lock", time.Minute, func(ctx context.Context) error {
		_, err := db.Txn("loops").If(kv.LockOf(ctx).Held()).Do(kv.DeleteOp("q"), kv.DeleteOp("s")).Commit(ctx)
		return err
	})
	if err != nil {
		t.Errorf("WithLock = %v", err)
	}
	if stats := ok[queue.Stats](t)(db.Queue("loops").Get(ctx, "q")); stats.Acked != 20 || stats.Inflight != 0 {
		t.Errorf("Stats = %+v", stats)
	}
}

// TestConsumersOutlastOutages: consumers keep waiting for a node whose outage is longer than leases
// and than the patience of a client's calls.
func TestConsumersOutlastOutages(t *testing.T) {
	t.Parallel()
	node := newProcess(t)
	db := node.client()
	jobs, log := db.Queue("q"), db.Stream("s")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	handled := make(chan string, 100)
	ended := make(chan error, 2)
	ok[stream.Appended](t)(log.Append(ctx, "s", stream.Message{Payload: []byte("first record")}))
	ok[queue.Enqueued](t)(jobs.Enqueue(ctx, "q", []byte("first message")))
	cut := make(chan struct{})
	go func() {
		ended <- jobs.Consume(ctx, "q", func(ctx context.Context, m queue.Message) error {
			if handled <- string(m.Payload); m.Attempts == 1 && string(m.Payload) == "first message" {
				<-cut // and then the lease is lost
			}
			return nil
		}, queue.Lease(500*time.Millisecond))
	}()
	go func() {
		ended <- log.Consume(ctx, "s", "g", func(ctx context.Context, d stream.Delivery) error {
			handled <- string(d.Payload)
			return nil
		})
	}()
	<-handled
	<-handled
	node.kill(0)
	close(cut)
	<-time.After(6 * time.Second)
	node.start(0)
	ok[queue.Enqueued](t)(jobs.Enqueue(ctx, "q", []byte("last message")))
	ok[stream.Appended](t)(log.Append(ctx, "s", stream.Message{Payload: []byte("last record")}))
	for last := 0; last < 2; {
		select {
		case what := <-handled:
			if strings.HasPrefix(what, "last") {
				last++
			}
		case <-ctx.Done():
			t.Fatal("what came after the outage was not handled")
		}
	}
	await(t, "nothing is left", func() bool {
		s, err := jobs.Get(ctx, "q")
		return err == nil && s.Acked == 2
	})
	stop()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Errorf("Consume = %v", err)
		}
	}
}
