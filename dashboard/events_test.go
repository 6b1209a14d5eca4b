package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// subscription reads the events of a response.
type subscription struct {
	t      *testing.T
	status int
	lines  *bufio.Scanner
	last   string // id
	leave  context.CancelFunc
}

func subscribe(t *testing.T, url string, header ...string) *subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", eventStream)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode == 200 && res.Header.Get("Content-Type") != eventStream {
		t.Errorf("%s has the content type %q", url, res.Header.Get("Content-Type"))
	}
	return &subscription{t, res.StatusCode, bufio.NewScanner(res.Body), "", cancel}
}

// next returns the data of the next event that has some. An id is remembered.
func (s *subscription) next() map[string]any {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			s.last = value
		case "data":
			var data map[string]any
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				s.t.Fatalf("%s: %v", value, err)
			}
			return data
		}
	}
	s.t.Fatalf("the events end: %v", s.lines.Err())
	return nil
}

func (s *subscription) wantKey(kind, key, value string) {
	s.t.Helper()
	if e := s.next(); e["type"] != kind || e["key"] != key || e["value"] != value {
		s.t.Errorf("event %v, want %s %s %q", e, kind, key, value)
	}
}

// TestWatchEvents: a watch has the existing keys, then each change; it is resumed without repeating
// or missing any.
func TestWatchEvents(t *testing.T) {
	node := openNode(t)
	store, ctx := node.KV("default"), t.Context()
	put := func(key, value string) {
		t.Helper()
		if _, err := store.Put(ctx, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("a/1", "one")
	put("b", "other")
	put("a/2", "two\nlines")
	h := New(node, Options{MaxConcurrent: 1})
	url := serve(t, h) + "/api/v1/kv/namespaces/default/watch?prefix=a/"
	s := subscribe(t, url)
	s.wantKey("put", "a/1", "one")
	s.wantKey("put", "a/2", "two\nlines")
	put("a/1", "new")
	s.wantKey("put", "a/1", "new")
	if _, err := store.Delete(ctx, "a/2"); err != nil {
		t.Fatal(err)
	}
	s.wantKey("delete", "a/2", "")
	id := s.last
	s.leave()
	h.(*handler).awaitWaiters(t, 0)

	put("a/3", "missed")
	for _, header := range [][]string{{"Last-Event-ID", id}, nil} {
		query := ""
		if header == nil {
			query = "&after=" + id
		}
		s := subscribe(t, url+query+"&encoding=base64", header...)
		s.wantKey("put", "YS8z", "bWlzc2Vk")
		s.leave()
	}
	for _, bad := range []string{"x", "-1", "1.5", "9223372036854775808"} {
		if s := subscribe(t, url, "Last-Event-ID", bad); s.status != 400 {
			t.Errorf("Last-Event-ID %s: status %d, want 400", bad, s.status)
		}
	}
	if s := subscribe(t, url, "Last-Event-ID", "9223372036854775807"); s.status == 200 && s.next()["error"] == nil {
		t.Error("a revision that does not exist yet is no position to continue from")
	}
}

// TestWatchSpread: a spread namespace can be watched, and gives no ids to resume from.
func TestWatchSpread(t *testing.T) {
	node := openNode(t)
	if err := node.Namespaces().Create(t.Context(), "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	url := serve(t, New(node, Options{})) + "/api/v1/kv/namespaces/wide/watch"
	s := subscribe(t, url)
	for range 5 {
		if _, err := node.KV("wide").Put(t.Context(), "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
		s.wantKey("put", "k", "v")
	}
	if s.last != "" {
		t.Errorf("the id %s cannot be used in a spread namespace", s.last)
	}
	if s := subscribe(t, url, "Last-Event-ID", "1"); s.status != 400 {
		t.Errorf("resumed with status %d, want 400", s.status)
	}
}

// TestRecordEvents: a follower of a stream gets each record with its ID, and continues after one.
func TestRecordEvents(t *testing.T) {
	node := openNode(t)
	send := func(payload string) {
		t.Helper()
		if _, err := node.Stream("default").Append(t.Context(), "s", stream.Message{Key: "k", Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(s *subscription, payload string) {
		t.Helper()
		if e := s.next(); e["payload"] != payload || e["id"] != s.last || e["key"] != "k" {
			t.Errorf("event %v with the id %s, want %q", e, s.last, payload)
		}
	}
	url := serve(t, New(node, Options{})) + "/api/v1/streams/s/records"
	send("one")
	s := subscribe(t, url)
	want(s, "one")
	send("two")
	want(s, "two")
	s.leave()
	send("three")
	again := subscribe(t, url+"?from_ms=0", "Last-Event-ID", s.last)
	want(again, "three")
	if s := subscribe(t, url+"?limit=1"); s.status != 400 {
		t.Errorf("a limit of events has status %d, want 400", s.status)
	}
	if s := subscribe(t, url, "Last-Event-ID", "x"); s.status != 400 {
		t.Errorf("status %d, want 400", s.status)
	}
	head, err := http.Head(url)
	if err != nil || head.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", head, err)
	}
}

// TestEventsEnd: when the key is revoked, and when the node is closed, the last event says why.
func TestEventsEnd(t *testing.T) {
	node := openNode(t)
	bootstrap(t, node)
	h := New(node, Options{})
	server := serve(t, h)
	if _, err := node.KV("default").Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	watch := func() (id string, s *subscription) {
		id, key := newKey(t, node, floe.RoleRead)
		s = subscribe(t, server+"/api/v1/kv/namespaces/default/watch", "Authorization", "Bearer "+login(t, h, key))
		s.wantKey("put", "k", "")
		return id, s
	}
	id, s := watch()
	if err := node.Keys().Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if e := s.next(); !strings.Contains(e["error"].(string), "revoked") {
		t.Errorf("the key was revoked: %v", e)
	}
	_, s = watch()
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if e := s.next(); e["error"] == nil {
		t.Errorf("the node was closed: %v", e)
	}
	for s.lines.Scan() {
		if text := s.lines.Text(); text != "" {
			t.Errorf("%q follows the last event", text)
		}
	}
}
