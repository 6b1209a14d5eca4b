package floe_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// refusing reads a page of a listing and the first pair of its iterator, with an option of package
// floe. taken is false if the listing does not accept the option.
type refusing func(ctx context.Context, option any) (page, all error, taken bool)

func refusingOf[T, O any](page func(context.Context, ...O) (floe.Page[T], error),
	all func(context.Context, ...O) iter.Seq2[T, error]) refusing {
	return func(ctx context.Context, option any) (error, error, bool) {
		o, ok := option.(O)
		if !ok {
			return nil, nil, false
		}
		_, err := page(ctx, o)
		for _, first := range all(ctx, o) {
			return err, first, true
		}
		return err, nil, true
	}
}

// allListings holds the listings of all packages, by package and type.
func allListings(db interface {
	bothStores
	Keys() *floe.Keys
}) map[string]refusing {
	keys, streams, queues, series := db.KV("n"), db.Stream("n"), db.Queue("n"), db.TS("n")
	actions, flows, jobs := db.Action("n"), db.Workflow("n"), db.Processing("n")
	pending := streams.Pending("x", "x")
	return map[string]refusing{
		"floe.Namespaces":       refusingOf(db.Namespaces().Page, db.Namespaces().All),
		"floe.Keys":             refusingOf(db.Keys().Page, db.Keys().All),
		"kv.Store":              refusingOf(keys.Page, keys.All),
		"kv.History":            refusingOf(keys.History("x").Page, keys.History("x").All),
		"stream.Store":          refusingOf(streams.Page, streams.All),
		"stream.Groups":         refusingOf(streams.Groups("x").Page, streams.Groups("x").All),
		"stream.Pending":        refusingOf(pending.Page, pending.All),
		"queue.Store":           refusingOf(queues.Page, queues.All),
		"queue.Messages":        refusingOf(queues.Messages("x").Page, queues.Messages("x").All),
		"queue.DeadLetters":     refusingOf(queues.DeadLetters("x").Page, queues.DeadLetters("x").All),
		"ts.Store":              refusingOf(series.Page, series.All),
		"ts.SeriesList":         refusingOf(series.Series("x").Page, series.Series("x").All),
		"action.Store":          refusingOf(actions.Page, actions.All),
		"action.Runs":           refusingOf(actions.Runs().Page, actions.Runs().All),
		"action.Workers":        refusingOf(actions.Workers().Page, actions.Workers().All),
		"action.Schedules":      refusingOf(actions.Schedules("x").Page, actions.Schedules("x").All),
		"workflow.Store":        refusingOf(flows.Page, flows.All),
		"workflow.Runs":         refusingOf(flows.Runs().Page, flows.Runs().All),
		"workflow.History":      refusingOf(flows.History("x").Page, flows.History("x").All),
		"workflow.Versions":     refusingOf(flows.Versions("x").Page, flows.Versions("x").All),
		"processing.Store":      refusingOf(jobs.Page, jobs.All),
		"processing.Savepoints": refusingOf(jobs.Savepoints(job).Page, jobs.Savepoints(job).All),
	}
}

const job = "job-01arz3ndektsv4rrffq69g5fav"

// TestListingsAlike: all listings refuse options out of range with the same text. That holds for a
// Node and a Client, for the options of every floe package, and for empty listings.
func TestListingsAlike(t *testing.T) {
	node, client := openAlike(t)
	long := strings.Repeat("p", 4097)
	for where, all := range map[string]map[string]refusing{"node": allListings(node), "client": allListings(client)} {
		for name, refused := range all {
			for _, c := range []struct {
				option any
				says   string
			}{
				{floe.Limit(0), "limit 0 is not in 1-1000"},
				{floe.Limit(-1), "limit -1 is not in 1-1000"},
				{floe.Limit(1001), "limit 1001 is not in 1-1000"},
				{kv.Limit(0), "limit 0 is not in 1-1000"},
				{stream.Limit(1001), "limit 1001 is not in 1-1000"},
				{floe.Cursor("\xff/"), `cursor "\xff/" is not from this listing`},
				{queue.Cursor("a\x00b"), `cursor "a\x00b" is not from this listing`},
				{floe.Prefix(long), "prefix of 4097 bytes exceeds "},
				{kv.Prefix(long), "prefix of 4097 bytes exceeds "},
			} {
				page, first, taken := refused(t.Context(), c.option)
				if !taken && !strings.HasPrefix(c.says, "prefix") {
					t.Errorf("%s, %s: the option with %q does not compile", where, name, c.says)
				}
				for _, err := range []error{page, first} {
					if taken && (!errors.Is(err, floe.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
						t.Errorf("%s, %s: got %v, want ErrInvalid: %s", where, name, err, c.says)
					}
				}
			}
		}
	}
}

// TestListingsAlikeIsComplete: each type with a method Page also has All and is in the table of
// TestListingsAlike.
func TestListingsAlikeIsComplete(t *testing.T) {
	node, _ := openAlike(t)
	table := allListings(node)
	for dir := range exported {
		methods := make(map[string][]string)
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv == nil || f.Name.Name != "Page" && f.Name.Name != "All" || strings.HasSuffix(name, "_test.go") {
					continue
				}
				of := f.Recv.List[0].Type
				if p, ok := of.(*ast.StarExpr); ok {
					of = p.X
				}
				if id, ok := of.(*ast.Ident); ok {
					of := file.Name.Name + "." + id.Name
					methods[of] = append(methods[of], f.Name.Name)
				}
			}
		}
		for of, have := range methods {
			if len(have) != 2 || table[of] == nil {
				t.Errorf("%s has %v, want Page and All, and a row of allListings", of, have)
			}
		}
	}
}

// TestListingsOfParts: in listings assembled from data about each part, pages of one item have the
// same contents as a single page.
func TestListingsOfParts(t *testing.T) {
	node, ctx := floe.OpenMemory(t), t.Context()
	for i := range 3 {
		name := string(rune('a' + i))
		_, err := node.Action("n").Register(ctx, name)
		for range i { // the first action has no runs
			_, invoked := node.Action("n").Invoke(ctx, name, nil)
			err = errors.Join(err, invoked)
		}
		for v := range 3 {
			_, created := node.Workflow("n").Create(ctx, fmt.Appendf(nil,
				"name: w\nversion: \"%d%d\"\nstart: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }\n", i, v))
			_, put := node.KV("n").Put(ctx, "k", nil)
			err = errors.Join(err, created, put)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := node.Keys().Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := node.Keys().Create(ctx, floe.RoleRead); err != nil {
		t.Fatal(err)
	}
	whole(t, "keys", 2, node.Keys().All, func(k floe.Key) string { return k.ID })
	whole(t, "runs of all actions", 3, node.Action("n").Runs().All, func(r action.Run) string { return string(r.ID) })
	whole(t, "versions of a workflow", 9, node.Workflow("n").Versions("w").All, func(v workflow.VersionInfo) string { return v.Version })
	whole(t, "versions of a key", 9, node.KV("n").History("k").All, func(v kv.Version) string { return fmt.Sprint(v.Version) })

	var actions []string
	for r, err := range node.Action("n").Runs().All(ctx) {
		if got, getErr := node.Action("n").Runs().Get(ctx, r.ID); err != nil || getErr != nil || got.Action != r.Action {
			t.Errorf("run %s of %s: %v, %v", r.ID, r.Action, err, getErr)
		}
		actions = append(actions, r.Action)
	}
	if want := []string{"b", "c", "c"}; !slices.Equal(actions, want) {
		t.Errorf("runs of the actions %v, want %v", actions, want)
	}
	version, err := node.Workflow("n").Versions("w").Get(ctx, "")
	if err != nil || version.Version != "22" || !version.Default || !strings.Contains(string(version.Definition), `version: "22"`) {
		t.Errorf("the default version is %+v, %v", version, err)
	}
	for k, err := range node.Keys().All(ctx) {
		if got, getErr := node.Keys().Get(ctx, k.ID); err != nil || getErr != nil || got.ID != k.ID || got.Role != k.Role {
			t.Errorf("key %s: %+v, %v, %v", k.ID, got, err, getErr)
		}
	}
	if _, err := node.Keys().Get(ctx, "none"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Get of no key: %v", err)
	}
	queues := node.Queue("n")
	made, err := queues.Enqueue(ctx, "q", []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.DeadLetters("q").Get(ctx, made.Seq); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("a message that waits is a dead letter: %v", err)
	}
	got, err := queues.Dequeue(ctx, "q")
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if _, err := queues.Nack(ctx, "q", []queue.Receipt{got[0].Receipt}, queue.ToDLQ()); err != nil {
		t.Fatal(err)
	}
	if m, err := queues.DeadLetters("q").Get(ctx, made.Seq); err != nil || m.State != queue.Dead || string(m.Payload) != "m" {
		t.Errorf("the dead letter is %+v, %v", m, err)
	}
}

// whole reads a listing of n items with every page size.
func whole[T, O any](t *testing.T, what string, n int, all func(context.Context, ...O) iter.Seq2[T, error], name func(T) string) {
	t.Helper()
	var want []string
	for limit := n + 1; limit > 0; limit-- {
		var got []string
		for item, err := range all(t.Context(), any(floe.Limit(limit)).(O)) {
			if err != nil {
				t.Fatalf("%s, Limit(%d): %v", what, limit, err)
			}
			got = append(got, name(item))
		}
		if want == nil {
			want = got
		}
		if len(got) != n || !slices.Equal(got, want) {
			t.Errorf("%s, Limit(%d): %v, want %d: %v", what, limit, got, n, want)
		}
	}
}
