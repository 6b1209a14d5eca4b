package dashboard

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// many is how many elements the listings of seedMany have.
const many = 25

// seedMany writes many of everything, in the namespace default and in the spread namespace wide.
func seedMany(t *testing.T, node *floe.Node) {
	t.Helper()
	ctx := t.Context()
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(nil, node.Namespaces().Create(ctx, "wide", floe.Spread()))
	for _, ns := range []string{"default", "wide"} {
		streams, queues := node.Stream(ns), node.Queue(ns)
		check(nil, streams.Create(ctx, "s", stream.Partitions(3)))
		for i := range many {
			n := fmt.Sprintf("%02d", i)
			check(node.KV(ns).Put(ctx, "k&\xff"+n, nil))
			check(nil, streams.Create(ctx, "more "+n))
			check(queues.Enqueue(ctx, "q"+n, nil))
			check(streams.Append(ctx, "s", stream.Message{}, stream.Partition(i%3)))
			check(streams.ReadGroup(ctx, "s", "members", "c"+n, stream.Limit(1)))
			for _, name := range []string{"letters", "q"} {
				check(queues.Enqueue(ctx, name, []byte("x"), queue.Priority(i%4)))
			}
		}
		for pending := 0; pending < many; {
			got, err := streams.ReadGroup(ctx, "s", "pending", "c", stream.Limit(many))
			check(nil, err)
			pending += len(got)
		}
		dead, err := queues.Dequeue(ctx, "letters", queue.Max(many))
		check(nil, err)
		for _, m := range dead {
			check(queues.Nack(ctx, "letters", []queue.Receipt{m.Receipt}, queue.ToDLQ()))
		}
	}
	for i := range many - 2 {
		check(node.KV(fmt.Sprintf("ns %02d", i)).Put(ctx, "k", nil))
	}
}

// manyOf are the listings of seedMany: where they are, and what tells their items apart.
var manyOf = []struct {
	path string
	id   []string
	more int // items beyond many
}{
	{"/namespaces", []string{"name"}, 0},
	{"/kv/namespaces", []string{"name"}, 0},
	{"/namespaces/default/streams", []string{"name"}, 1},
	{"/namespaces/wide/streams", []string{"name"}, 1},
	{"/namespaces/default/queues", []string{"name"}, 2},
	{"/namespaces/wide/queues", []string{"name"}, 2},
	{"/namespaces/default/kv?encoding=base64", []string{"key"}, 0},
	{"/namespaces/wide/kv?encoding=base64", []string{"key"}, 0},
	{"/namespaces/wide/kv", []string{"key"}, 0},
	{"/streams?unknown=1", []string{"name"}, 1},
	{"/streams?namespace=wide", []string{"name"}, 1},
	{"/queues", []string{"name"}, 2},
	{"/queues?namespace=wide", []string{"name"}, 2},
	{"/streams/s/groups/pending/pending", []string{"partition", "id_ms", "id_seq"}, 0},
	{"/streams/s/groups/pending/pending?namespace=wide", []string{"partition", "id_ms", "id_seq"}, 0},
	{"/streams/s/groups/members/members", []string{"consumer"}, 0},
	{"/streams/s/groups/members/members?namespace=wide", []string{"consumer"}, 0},
	{"/queues/letters/dlq", []string{"seq"}, 0},
	{"/queues/letters/dlq?namespace=wide&encoding=base64", []string{"seq"}, 0},
	{"/queues/q/messages", []string{"seq"}, 0},
	{"/queues/q/messages?namespace=wide", []string{"seq"}, 0},
	{"/streams/s/messages", []string{"id_ms", "id_seq"}, 0},
	{"/streams/s/messages?namespace=wide&from=0-0", []string{"id_ms", "id_seq"}, 0},
	{"/kv/namespaces/default/keys?prefix=k%26", []string{"key"}, 0},
	{"/kv/namespaces/wide/keys?encoding=base64", []string{"key"}, 0},
}

// TestListingsGoOn follows the links of every listing, cut by a limit of the request and by the
// handler's, under every mount: all elements come, once.
func TestListingsGoOn(t *testing.T) {
	node := openNode(t)
	seedMany(t, node)
	for _, m := range mounts {
		h := newHandler(node, Options{})
		h.maxListed = 7
		base := serve(t, m.mount(h)) + m.prefix + "/api/v1"
		whole := serve(t, m.mount(New(node, Options{}))) + m.prefix + "/api/v1"
		for _, l := range manyOf {
			want := follow(t, whole+l.path, l.id)
			if len(want.items) != many+l.more || want.pages != 1 {
				t.Errorf("%s%s has %d items on %d pages, want %d on one", m.prefix, l.path, len(want.items), want.pages, many+l.more)
			}
			byHandler := follow(t, base+l.path, l.id)
			separator := "?"
			if strings.Contains(l.path, "?") {
				separator = "&"
			}
			for _, limit := range []int{1, 4, many + l.more - 1, many + l.more, 1000} {
				byLimit := follow(t, fmt.Sprint(whole, l.path, separator, "limit=", limit), l.id)
				pages := (many + l.more + limit - 1) / limit
				if !slices.Equal(byLimit.items, want.items) || byLimit.pages != pages {
					t.Errorf("%s%s limit=%d: %d pages, want %d, with %v, want %v", m.prefix, l.path, limit, byLimit.pages, pages,
						byLimit.items, want.items)
				}
			}
			if !slices.Equal(byHandler.items, want.items) {
				t.Errorf("%s%s: %v, want %v", m.prefix, l.path, byHandler.items, want.items)
			}
		}
	}
}

type followed struct {
	items []string // what tells them apart
	pages int
}

// follow reads a listing with what its links lead to.
func follow(t *testing.T, target string, id []string) (f followed) {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; f.pages++ {
		got := send(t, "GET "+at.String(), "")
		var items []map[string]any
		page := struct {
			Keys    *[]map[string]any `json:"keys"`
			HasMore bool              `json:"has_more"`
		}{Keys: &items}
		if err := json.Unmarshal(got.body, &items); err != nil {
			if err := json.Unmarshal(got.body, &page); err != nil || got.status != 200 {
				t.Fatalf("GET %s = %v (%v)", at, got, err)
			}
			if page.HasMore != (got.header.Get("Link") != "") {
				t.Errorf("GET %s: has_more is %v, Link %q", at, page.HasMore, got.header.Get("Link"))
			}
		}
		for _, item := range items {
			var text []string
			for _, name := range id {
				text = append(text, fmt.Sprintf("%v", item[name]))
			}
			f.items = append(f.items, strings.Join(text, " "))
		}
		var reference string
		if reference, more = strings.CutPrefix(got.header.Get("Link"), "<"); more {
			reference, more = strings.CutSuffix(reference, `>; rel="next"`)
			if !more || strings.Contains(reference, "://") || strings.HasPrefix(reference, "/") {
				t.Fatalf("GET %s: Link is %q, want a relative URL", at, got.header.Get("Link"))
			}
			if at, err = at.Parse(reference); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

// TestListingsAreWhole: beyond a hundred, and beyond what a store gives at once, without a link;
// cut at 10,000, with one.
func TestListingsAreWhole(t *testing.T) {
	node := openNode(t)
	store := node.KV("default")
	for i := range 10_001 {
		if _, err := store.Put(t.Context(), fmt.Sprintf("key-%05d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	base := serve(t, New(node, Options{})) + "/api/v1/namespaces/default/kv"
	got := send(t, "GET "+base, "")
	if n := len(listed[scanItem](t, base, got)); n != 10_000 || got.header.Get("Link") != `<?after=key-09999>; rel="next"` {
		t.Errorf("of 10,001 keys %d are listed, with Link %q", n, got.header.Get("Link"))
	}
	if all := follow(t, base, []string{"key"}); len(all.items) != 10_001 || all.pages != 2 {
		t.Errorf("%d keys on %d pages, want 10,001 on two", len(all.items), all.pages)
	}
	if _, err := store.Delete(t.Context(), "key-00000"); err != nil {
		t.Fatal(err)
	}
	got = send(t, "GET "+base, "")
	if n := len(listed[scanItem](t, base, got)); n != 10_000 || got.header.Get("Link") != "" {
		t.Errorf("of 10,000 keys %d are listed, with Link %q", n, got.header.Get("Link"))
	}
}

// TestLargePayloadsGoOn: a listing that is cut because its payloads are large says so too.
func TestLargePayloadsGoOn(t *testing.T) {
	node := openNode(t)
	payload := make([]byte, node.MaxValueSize())
	n := 2*maxListedBytes/len(payload) + 10
	for range n {
		if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{Payload: payload}); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Queue("default").Enqueue(t.Context(), "q", payload); err != nil {
			t.Fatal(err)
		}
	}
	base := serve(t, New(node, Options{})) + "/api/v1"
	check := func(path string) {
		t.Helper()
		if got := follow(t, base+path, nil); len(got.items) != n || got.pages < 2 {
			t.Errorf("%s: %d items on %d pages, want %d on several", path, len(got.items), got.pages, n)
		}
	}
	check("/streams/s/messages?encoding=base64&limit=1000")
	check("/queues/q/messages?encoding=base64&limit=1000")
	for {
		messages, err := node.Queue("default").Dequeue(t.Context(), "q", queue.Max(n), queue.Lease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			if _, err := node.Queue("default").Nack(t.Context(), "q", []queue.Receipt{m.Receipt}, queue.ToDLQ()); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("/queues/q/dlq?encoding=base64")
}

// TestTailEndsAListing: behind the last messages there are no others.
func TestTailEndsAListing(t *testing.T) {
	node := openNode(t)
	for range 5 {
		if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"?tail&limit=2", "?limit=5", "?limit=5&partition=0", ""} {
		if got := get(New(node, Options{}), "/api/v1/streams/s/messages"+query); got.status != 200 || got.header.Get("Link") != "" {
			t.Errorf("messages%s has Link %q", query, got.header.Get("Link"))
		}
	}
}
