// Package exercise holds the tests that use floe as its users do: whole nodes, real disks, killed processes.
package exercise

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of randomised tests; 0 chooses one")
	roundsFlag = flag.Int("kills", 50, "how often TestKill kills its child")
)

// childEnv makes the test binary run as the child of TestKill, on the directory it names.
const childEnv = "FLOE_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: go test ./internal/exercise -run '^%s$' -seed %d", t.Name(), s)
	return s
}

const (
	killWriters = 8
	killKeys    = 20
	killSpace   = "kill"
)

// step is what writer w does as its n-th step: always the same. It is committed together with the writer's position, so
// that after a crash the state has to be that of exactly the steps up to the position.
func step(w, n int, exists bool) floe.Op {
	key := stepKey(w, n)
	switch {
	case n%7 == 3 && exists:
		return kv.DeleteOp(key)
	case n%5 == 2:
		return kv.IncrOp(counterKey(w), int64(n))
	case n%11 == 4:
		return kv.PutOp(key, stepValue(w, n), kv.TTL(time.Hour))
	}
	return kv.PutOp(key, stepValue(w, n))
}

func stepKey(w, n int) string   { return fmt.Sprintf("data/%d/%d", w, n%killKeys) }
func counterKey(w int) string   { return fmt.Sprintf("counter/%d", w) }
func positionKey(w int) string  { return fmt.Sprintf("position/%d", w) }
func stepValue(w, n int) []byte { return []byte(strings.Repeat(fmt.Sprintf("%d.%d ", w, n), n*n%300)) }

// writerState is the fold of a writer's steps.
type writerState struct {
	position int
	data     map[string]string
	counter  int64
}

// advance is the model of step.
func (s *writerState) advance(w int) {
	n := s.position + 1
	key := stepKey(w, n)
	_, exists := s.data[key]
	switch {
	case n%7 == 3 && exists:
		delete(s.data, key)
	case n%5 == 2:
		s.counter += int64(n)
	default:
		s.data[key] = string(stepValue(w, n))
	}
	s.position = n
}

// child writes until it is killed and prints every acknowledgement.
func child(dir string) {
	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("open")
	acks := make(chan string, 64)
	for w := range killWriters {
		go write(node, w, acks)
	}
	for ack := range acks {
		fmt.Println(ack)
	}
}

func write(node *floe.Node, w int, acks chan<- string) {
	ctx := context.Background()
	store := node.KV(killSpace)
	n := 0
	if e, err := store.Get(ctx, positionKey(w)); err == nil {
		n, _ = strconv.Atoi(string(e.Value))
	}
	for {
		n++
		exists, err := store.Exists(ctx, stepKey(w, n))
		if err == nil {
			_, err = node.Txn(killSpace).Do(step(w, n, exists), kv.PutOp(positionKey(w), []byte(strconv.Itoa(n)))).Commit(ctx)
		}
		if err != nil {
			acks <- fmt.Sprint("error ", err)
			return
		}
		acks <- fmt.Sprintf("%d %d", w, n)
	}
}

// TestKill kills a process with 8 writers at random moments, also while it opens, and checks after each kill that every
// acknowledged transaction is there as a whole, that history and counts agree with it, and that opening was quick.
func TestKill(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	dir := filepath.Join(t.TempDir(), "data")
	states := make([]writerState, killWriters)
	for w := range states {
		states[w].data = make(map[string]string)
	}
	rounds, acked := *roundsFlag, 0
	if testing.Short() {
		rounds = 5
	}
	var slowest time.Duration
	for round := range rounds {
		acks := killed(t, dir, rng)
		start := time.Now()
		node, err := floe.Open(floe.Config{DataDir: dir})
		took := time.Since(start)
		if err != nil {
			t.Fatalf("round %d: open after the kill: %v", round, err)
		}
		slowest = max(slowest, took)
		for w := range states {
			checkWriter(t, node, w, &states[w], acks[w])
		}
		checkCounts(t, node)
		if err := node.Close(); err != nil {
			t.Fatalf("round %d: close: %v", round, err)
		}
		if t.Failed() {
			t.Fatalf("round %d failed", round)
		}
	}
	for _, s := range states {
		acked += s.position
	}
	t.Logf("%d kills, %d transactions survived, slowest open %v", rounds, acked, slowest)
	if limit := 2 * time.Second; slowest > limit {
		t.Errorf("slowest open took %v, want at most %v", slowest, limit)
	}
	if acked == 0 {
		t.Error("no transaction was ever acknowledged: the test has tested nothing")
	}
}

// killed runs the child until a random moment and returns the last acknowledged step of each writer.
func killed(t *testing.T, dir string, rng *rand.Rand) [killWriters]int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// One kill in ten comes while the child may still be opening, the others some time after it has opened.
	kill := func(within int) *time.Timer {
		return time.AfterFunc(time.Duration(rng.IntN(within))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	}
	if rng.IntN(10) == 0 {
		defer kill(40).Stop()
	}
	var acks [killWriters]int
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		var w, n int
		switch _, err := fmt.Sscanf(line, "%d %d", &w, &n); {
		case line == "open":
			defer kill(150).Stop()
		case err == nil:
			acks[w] = n
		default:
			t.Errorf("child: %s", line)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return acks
}

func checkWriter(t *testing.T, node *floe.Node, w int, s *writerState, acked int) {
	t.Helper()
	ctx := context.Background()
	store := node.KV(killSpace)
	position := 0
	if e, err := store.Get(ctx, positionKey(w)); err == nil {
		position, _ = strconv.Atoi(string(e.Value))
	} else if !errors.Is(err, floe.ErrNotFound) {
		t.Fatal(err)
	}
	if position < max(acked, s.position) {
		t.Errorf("writer %d: position %d, but %d was acknowledged", w, position, max(acked, s.position))
	}
	for s.position < position {
		s.advance(w)
	}
	got := make(map[string]string)
	for it, err := range store.Scan(ctx, fmt.Sprintf("data/%d/", w)) {
		if err != nil {
			t.Fatal(err)
		}
		got[it.Key] = string(it.Value)
		checkHistory(t, store, it.Key, it.Revision)
	}
	for key, want := range s.data {
		if got[key] != want {
			t.Errorf("writer %d at step %d: %s = %.40q, want %.40q", w, position, key, got[key], want)
		}
	}
	if len(got) != len(s.data) {
		t.Errorf("writer %d at step %d: %d keys, want %d", w, position, len(got), len(s.data))
	}
	counter := int64(0)
	if e, err := store.Get(ctx, counterKey(w)); err == nil {
		counter, _ = strconv.ParseInt(string(e.Value), 10, 64)
	}
	if counter != s.counter {
		t.Errorf("writer %d at step %d: counter %d, want %d", w, position, counter, s.counter)
	}
}

// checkHistory checks that versions and revisions fall without a gap in the versions, from the present one.
func checkHistory(t *testing.T, store *kv.Store, key string, revision uint64) {
	t.Helper()
	versions, err := store.History(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if versions[0].Revision != revision {
		t.Errorf("history of %s begins at revision %d, the key is at %d", key, versions[0].Revision, revision)
	}
	if want := min(int(versions[0].Version), kv.MaxVersions); len(versions) != want {
		t.Errorf("history of %s at version %d has %d versions, want %d", key, versions[0].Version, len(versions), want)
	}
	for i := 1; i < len(versions); i++ {
		if a, b := versions[i-1], versions[i]; b.Version != a.Version-1 || b.Revision >= a.Revision {
			t.Errorf("history of %s: version %d at revision %d follows version %d at %d", key, a.Version, a.Revision, b.Version, b.Revision)
		}
	}
}

// checkCounts compares the counters kept for the namespace with a recount.
func checkCounts(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := context.Background()
	info, err := node.Namespaces().Get(ctx, killSpace)
	if errors.Is(err, floe.ErrNotFound) {
		return // killed before the first write
	}
	if err != nil {
		t.Fatal(err)
	}
	var keys, bytes int64
	for it, err := range node.KV(killSpace).Scan(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys, bytes = keys+1, bytes+int64(len(it.Key)+it.Size)
	}
	if info.Counts.Keys != keys || info.Counts.KeyBytes != bytes {
		t.Errorf("counted %d keys with %d bytes, there are %d with %d", info.Counts.Keys,
			info.Counts.KeyBytes, keys, bytes)
	}
}
