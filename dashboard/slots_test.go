package dashboard

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

func path(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestRefusalsTakeTheirTime: who finds no room to wait is refused after a pause, unless as many
// pause as may.
func TestRefusalsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		u := path(t, "/api/v1/kv/k")
		asked, began := make(chan time.Duration, 100), time.Now()
		for range 1 + waitersOf {
			go func() { _ = s.take(t.Context(), u) }()
		}
		synctest.Wait()
		refused := func() {
			if err := s.take(t.Context(), u); !errors.Is(err, engine.ErrBusy) {
				t.Errorf("one request too many: %v, want ErrBusy", err)
			}
			asked <- time.Since(began)
		}
		for range pausesOf {
			go refused()
		}
		synctest.Wait()
		if refused(); len(asked) != 1 || <-asked != 0 {
			t.Error("a refusal is put off although as many are as may be")
		}
		for range pausesOf {
			if took := <-asked; took != refusalPause {
				t.Errorf("refused after %v, want %v", took, refusalPause)
			}
		}
		<-time.After(slotTime)
		synctest.Wait()
	})
}

// TestSlotsOfNamespaces: when a namespace takes all slots and all the room to wait, a request of
// another one waits in place of one of its own, and is served next but one.
func TestSlotsOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		s := newSlots(limit)
		flood, other := path(t, "/api/v1/kv/k?namespace=flood"), path(t, "/api/v1/namespaces/other/kv")
		floods, others := make(chan error, 100), make(chan error, 100)
		ask := func(u *url.URL, done chan error) {
			go func() { done <- s.take(t.Context(), u) }()
			synctest.Wait()
		}
		for range limit + waitersOf*limit {
			ask(flood, floods)
		}
		if len(floods) != limit {
			t.Fatalf("%d requests have a slot, or none, want %d", len(floods), limit)
		}
		for range limit {
			if err := <-floods; err != nil {
				t.Error(err)
			}
		}
		ask(flood, floods)
		if err := <-floods; !errors.Is(err, engine.ErrBusy) {
			t.Errorf("one request of the flood too many: %v, want ErrBusy", err)
		}
		ask(other, others)
		if len(others) > 0 || len(floods) != 1 || !errors.Is(<-floods, engine.ErrBusy) {
			t.Fatal("a request of another namespace does not wait in place of one of the flood")
		}
		s.leave()
		s.leave()
		synctest.Wait()
		if len(others) != 1 || len(floods) != 1 {
			t.Fatalf("of two slots the other namespace has %d, the flood %d", len(others), len(floods))
		}
		if err := <-others; err != nil {
			t.Error(err)
		}
		<-floods
		// The last ones wait until their time is over, or somebody gives up.
		gone, cancel := context.WithCancel(t.Context())
		go func() { others <- s.take(gone, other) }()
		synctest.Wait()
		cancel()
		if err := <-others; !errors.Is(err, context.Canceled) {
			t.Errorf("whoever has gone: %v", err)
		}
		for range waitersOf*limit - 2 {
			if err := <-floods; !errors.Is(err, engine.ErrBusy) {
				t.Errorf("when the time is over: %v, want ErrBusy", err)
			}
		}
		s.leave()
		s.leave()
		if s.taken != 0 || s.waiting != 0 || len(s.lines) != 0 {
			t.Errorf("%d slots are taken, %d requests wait in %d lines", s.taken, s.waiting, len(s.lines))
		}
	})
}

// TestRequestsOfNamespaces is the same over HTTP: requests of one namespace take all the room there
// is, and those of another one, however they name it, are served; for each of them the latest of
// the many that wait is refused.
func TestRequestsOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := floe.Open(floe.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		h := New(node, Options{MaxConcurrent: 1})
		first, finish := io.Pipe()
		floods, others := make(chan answer, 100), make(chan answer, 100)
		send := func(method, target string, body io.Reader, done chan answer) {
			go func() { done <- record(h, httptest.NewRequest(method, target, body)) }()
			synctest.Wait()
		}
		const flood = "/api/v1/kv/namespaces/flood/keys/k"
		send("PUT", flood, first, floods) // and has the slot until its body is there
		for range waitersOf {
			send("PUT", flood, strings.NewReader(`{"value":"v"}`), floods)
		}
		if len(floods) > 0 {
			t.Fatalf("there is room for %d, and one was answered: %v", 1+waitersOf, <-floods)
		}
		send("PUT", "/api/v1/kv/namespaces/other/keys/k", strings.NewReader(`{"value":"v"}`), others)
		send("POST", "/api/v1/queues/q?namespace=another", strings.NewReader("v"), others)
		if len(floods) != 2 || len(others) > 0 {
			t.Fatalf("%d of the flood are answered and %d of the others, want 2 and none", len(floods), len(others))
		}
		for range 2 {
			got := <-floods
			if checkError(t, "the latest of the flood", got, 429, "the limit is 1"); got.header.Get("Retry-After") == "" {
				t.Errorf("Retry-After: %v", got.header)
			}
		}
		if _, err := io.WriteString(finish, `{"value":"v"}`); err != nil {
			t.Fatal(err)
		}
		finish.Close()
		for range 2 {
			if got := <-others; got.status != 200 {
				t.Errorf("of another namespace: %v", got)
			}
		}
		for range waitersOf - 1 {
			if got := <-floods; got.status != 200 {
				t.Errorf("of the flood: %v", got)
			}
		}
	})
}

func TestNamespaceOf(t *testing.T) {
	for u, want := range map[string]string{
		"/api/v1/queues?namespace=a%20b": "a b", "/api/v1/namespaces/x/streams": "x", "/api/v1/namespaces/x": "x", "/api/v1/namespaces": "",
		"/api/v1/kv?namespace=a&namespace=b": "a",
	} {
		if got := namespaceOf(path(t, u)); got != want {
			t.Errorf("%s: namespace %q, want %q", u, got, want)
		}
	}
}
