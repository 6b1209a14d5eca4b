package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// problemsOf returns what the API finds in a namespace, a line each.
func problemsOf(t *testing.T, node *floe.Node, ns string) string {
	t.Helper()
	var list problemList
	got := get(New(node, Options{}), "/api/v1/console/problems?namespace="+ns)
	if err := json.Unmarshal(got.body, &list); err != nil || got.status != 200 || len(list.Partial) > 0 || list.Truncated {
		t.Fatalf("GET console/problems = %v, %v", got, err)
	}
	var lines []string
	for _, p := range list.Problems {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s %s", p.Severity, p.Kind, p.Name, p.Text, suffix("of ", p.Of))))
	}
	return strings.Join(lines, "\n")
}

// TestProblems: what needs somebody is found, in the order of what is worst, and is gone when it is
// mended; what is in order is no problem.
func TestProblems(t *testing.T) {
	node, ctx := openNode(t), t.Context()
	queues, streams, actions, flows := node.Queue("shop"), node.Stream("shop"), node.Action("shop"), node.Workflow("shop")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(name string) {
		t.Helper()
		_, err := queues.Enqueue(ctx, name, []byte("x"))
		must(err)
	}
	for range 2 {
		enqueue("mail")
	}
	enqueue("fine")
	dead, err := queues.Dequeue(ctx, "mail", queue.Max(2))
	must(err)
	for _, m := range dead {
		_, err := queues.Nack(ctx, "mail", []queue.Receipt{m.Receipt}, queue.ToDLQ())
		must(err)
	}
	must(queues.Configure(ctx, "small", queue.Settings{MaxLen: 1}))
	enqueue("small")
	enqueue("news")
	must(queues.Pause(ctx, "news"))
	must(streams.Create(ctx, "orders"))
	must(streams.Groups("orders").Create(ctx, "search", stream.FromBeginning()))
	_, err = streams.Append(ctx, "orders", stream.Message{Payload: []byte("x")})
	must(err)
	_, err = actions.Register(ctx, "scan")
	must(err)
	for range 3 {
		_, err = actions.Invoke(ctx, "scan", nil)
		must(err)
	}
	_, err = flows.Create(ctx,
		[]byte("kind: Workflow\nname: hasty\nversion: '1'\nstart:\n  run: '@actions/none'\n  transitions: { success: flo.Completed, "+
			"failure: flo.Failed }\n"))
	must(err)
	_, err = flows.StartAndWait(ctx, "hasty", nil)
	must(err)

	want := []string{
		"crit: action scan 3 runs waiting, no worker",
		"crit: queue mail 2 dead letters of dlq",
		"crit: queue small full: 1 message",
		"crit: workflow hasty 1 run failed within an hour, the last: ",
		"warn: queue news paused, 1 message waiting",
		"warn: group search 1 record behind, no active consumer of orders",
	}
	got := strings.Split(problemsOf(t, node, "shop"), "\n")
	if len(got) != len(want) {
		t.Fatalf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d is %q, want %q", i, got[i], want[i])
		}
	}

	must(queues.Resume(ctx, "news"))
	for _, m := range dead {
		must(queues.DeadLetters("mail").Requeue(ctx, m.Seq))
	}
	_, err = streams.ReadGroup(ctx, "orders", "search", "one")
	must(err)
	for _, mended := range []string{"news", "mail", "search"} {
		if left := problemsOf(t, node, "shop"); strings.Contains(left, mended) {
			t.Errorf("%s is mended, and still a problem:\n%s", mended, left)
		}
	}
	if others := problemsOf(t, node, "default"); others != "" {
		t.Errorf("another namespace has problems:\n%s", others)
	}
}

// TestProblemsOfLongAgo: what failed more than an hour ago was seen.
func TestProblemsOfLongAgo(t *testing.T) {
	node, ctx := openNode(t), t.Context()
	_, err := node.Workflow("shop").Create(ctx,
		[]byte("kind: Workflow\nname: hasty\nversion: '1'\nstart:\n  run: '@actions/none'\n  transitions: { success: flo.Completed, "+
			"failure: flo.Failed }\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = node.Workflow("shop").StartAndWait(ctx, "hasty", nil); err != nil {
		t.Fatal(err)
	}
	h := newHandler(node, Options{})
	for age, want := range map[time.Duration]int{0: 1, 2 * runsOf: 0} {
		h.now = func() time.Time { return time.Now().Add(age) }
		list, err := h.problems(ctx, namespaceRequest{"shop"})
		if err != nil || len(list.Problems) != want {
			t.Errorf("after %v: %v, %v, want %d problems", age, list.Problems, err, want)
		}
	}
}

// TestShardsWithoutLeader: they are named, as the worst of what is wrong.
func TestShardsWithoutLeader(t *testing.T) {
	node := openNode(t)
	h := New(backend{node, func(ctx context.Context) (floe.Stats, error) {
		s, err := node.Stats(ctx)
		s.Shards[2].Leader, s.Shards[2].Commit, s.Shards[2].Applied = 0, 9, 7
		return s, err
	}}, Options{})
	var shards []shardState
	if err := json.Unmarshal(get(h, "/api/v1/console/shards").body, &shards); err != nil || len(shards) != 4 {
		t.Fatalf("GET console/shards: %v, %v", shards, err)
	}
	for i, s := range shards {
		want := shardState{ID: i, Leader: 1, LSN: s.LSN, Queued: s.Queued, Waiting: s.Waiting}
		if i == 2 {
			want.Leader, want.Behind = 0, 2
		}
		if s != want {
			t.Errorf("shard %d is %+v, want %+v", i, s, want)
		}
	}
	var list problemList
	want := finding{Kind: "shard", Name: "2", Severity: "crit", Count: 1,
		Text: "no leader: its data cannot be read or written"}
	if err := json.Unmarshal(get(h, "/api/v1/console/problems").body, &list); err != nil || len(list.Problems) != 1 ||
		list.Problems[0] != want {
		t.Errorf("problems are %+v, %v, want %+v", list.Problems, err, want)
	}
}

// meeting is a node two of whose calls wait for each other.
type meeting struct {
	floe.DB
	asked, answered chan struct{}
}

func (m meeting) Stats(ctx context.Context) (floe.Stats, error) {
	close(m.asked)
	select {
	case <-m.answered:
		return floe.Stats{}, floe.ErrUnavailable
	case <-ctx.Done():
		return floe.Stats{}, ctx.Err()
	}
}

func (m meeting) Queue(ns string, opts ...floe.AccessOption) *queue.Store {
	<-m.asked
	close(m.answered)
	return m.DB.Queue(ns, opts...)
}

// TestProblemsWaitTogether: a part that takes long holds up no other, and what has failed is named.
func TestProblemsWaitTogether(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m := meeting{openNode(t), make(chan struct{}), make(chan struct{})}
	list, err := newHandler(m, Options{}).problems(ctx, namespaceRequest{"shop"})
	if want := (missingPart{"nodes and shards", "unavailable"}); err != nil || len(list.Partial) != 1 || list.Partial[0] != want {
		t.Errorf("problems are %+v, %v, want that %v are missing", list, err, want)
	}
}

// TestProblemsPanic: a bug in one part is an answer like any other, not the end of the program.
func TestProblemsPanic(t *testing.T) {
	h := New(backend{openNode(t), func(context.Context) (floe.Stats, error) { panic("a bug in floe") }}, Options{})
	checkError(t, "GET console/problems", get(h, "/api/v1/console/problems"), 500, "internal error")
}
