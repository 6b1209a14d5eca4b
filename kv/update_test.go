package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// TestUpdate: each of many concurrent updates takes effect exactly once.
func TestUpdate(t *testing.T) {
	s, ctx := openStore(t), within(t)
	add := func(e kv.Entry) ([]byte, error) {
		n := 0
		if e.Revision > 0 {
			n = must(strconv.Atoi(string(e.Value)))
		}
		return strconv.AppendInt(nil, int64(n+1), 10), nil
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if _, err := s.Update(ctx, "n", add); err != nil {
					t.Errorf("Update: %v", err)
				}
			}
		})
	}
	all.Wait()
	if e := must(s.Get(ctx, "n")); string(e.Value) != "200" || e.Version != 200 {
		t.Errorf("after 200 updates it is %s, version %d", e.Value, e.Version)
	}
}

func TestUpdateOutcomes(t *testing.T) {
	s, ctx := openStore(t), within(t)
	returns := func(value string, err error) func(kv.Entry) ([]byte, error) {
		return func(kv.Entry) ([]byte, error) { return []byte(value), err }
	}
	w, err := s.Update(ctx, "k", func(e kv.Entry) ([]byte, error) {
		if fmt.Sprint(e) != fmt.Sprint(kv.Entry{}) {
			t.Errorf("an absent key is %+v, want the zero Entry", e)
		}
		return []byte("1"), nil
	}, kv.TTL(time.Hour))
	if err != nil || w.Version != 1 {
		t.Fatalf("Update = %+v, %v", w, err)
	}
	w = must(s.Update(ctx, "k", returns("2", nil)))
	if e := must(s.Get(ctx, "k")); string(e.Value) != "2" || e.Revision != w.Revision || time.Until(e.ExpiresAt) < 50*time.Minute {
		t.Errorf("Get = %+v, want the second value with the expiry of the first", e)
	}
	if again, err := s.Update(ctx, "k", returns("3", fmt.Errorf("no: %w", kv.ErrUnchanged))); err != nil || again != w {
		t.Errorf("Update that changes nothing = %+v, %v, want %+v", again, err, w)
	}
	mine := errors.New("mine")
	if _, err := s.Update(ctx, "k", returns("3", mine)); err != mine {
		t.Errorf("Update = %v, want the error of the function", err)
	}
	calls := 0
	_, err = s.Update(ctx, "k", func(kv.Entry) ([]byte, error) {
		calls++
		return nil, &kv.ConflictError{Key: "k"}
	})
	if !errors.Is(err, kv.ErrConflict) || calls != 1 {
		t.Errorf("a conflict of the function's own: %v after %d calls", err, calls)
	}
	_, err = s.Update(ctx, "k", returns("", nil), kv.TTL(-1))
	wantErr(t, "Update with a negative ttl", err, kv.ErrInvalid)
	_, err = s.Update(ctx, "", returns("", nil))
	wantErr(t, "Update of no key", err, kv.ErrInvalid)
	for range 2 { // with the key, then without it
		if w, err := s.Update(ctx, "k", returns("", kv.ErrDelete)); err != nil || w != (kv.Written{}) {
			t.Errorf("Update that deletes = %+v, %v", w, err)
		}
	}
	_, err = s.Get(ctx, "k")
	wantErr(t, "Get of what was deleted", err, kv.ErrNotFound)
}

// TestUpdateEnds: an Update that always conflicts tries again until its context ends.
func TestUpdateEnds(t *testing.T) {
	s := openStore(t)
	ctx, cancel := context.WithCancel(within(t))
	calls := 0
	_, err := s.Update(ctx, "k", func(e kv.Entry) ([]byte, error) {
		if calls++; calls == 10 {
			cancel()
		}
		must(s.Put(t.Context(), "k", nil))
		return nil, nil
	})
	if err != context.Canceled || calls != 10 {
		t.Errorf("Update = %v after %d calls, want context.Canceled after 10", err, calls)
	}
}

func TestKeepTTL(t *testing.T) {
	s, ctx := openStore(t), within(t)
	must(s.Put(ctx, "k", nil, kv.TTL(time.Hour)))
	must(s.Put(ctx, "k", []byte("v"), kv.KeepTTL()))
	if e := must(s.Get(ctx, "k")); string(e.Value) != "v" || time.Until(e.ExpiresAt) < 50*time.Minute {
		t.Errorf("Get = %+v, want the expiry of before", e)
	}
	must(s.Put(ctx, "new", nil, kv.KeepTTL()))
	if e := must(s.Get(ctx, "new")); !e.ExpiresAt.IsZero() {
		t.Errorf("a new key expires at %v", e.ExpiresAt)
	}
	for _, opts := range [][]kv.PutOption{{kv.KeepTTL(), kv.TTL(time.Hour)}, {kv.TTL(time.Hour), kv.KeepTTL()}} {
		_, err := s.Put(ctx, "k", nil, opts...)
		wantErr(t, "Put with a ttl and KeepTTL", err, kv.ErrInvalid)
	}
}

type user struct {
	Name string
	Age  int
}

func TestView(t *testing.T) {
	node, ctx := open(t, floe.Config{Shards: 1}), within(t)
	store := node.KV("default")
	users := kv.JSON[user](store)
	w := must(users.Put(ctx, "u/ada", user{"Ada", 36}, kv.IfAbsent()))
	if u := must(users.Get(ctx, "u/ada")); u != (user{"Ada", 36}) {
		t.Errorf("Get = %+v", u)
	}
	_, err := users.Get(ctx, "u/bob")
	wantErr(t, "Get of nobody", err, kv.ErrNotFound)
	w = must(users.Update(ctx, "u/ada", func(e kv.EntryOf[user]) (user, error) {
		if e.Revision != w.Revision || e.Key != "u/ada" {
			t.Errorf("Update of %+v", e)
		}
		e.Value.Age++
		return e.Value, nil
	}))
	if e := must(users.Entry(ctx, "u/ada")); e.Value.Age != 37 || e.Revision != w.Revision || e.Version != 2 || e.UpdatedAt.IsZero() {
		t.Errorf("Entry = %+v", e)
	}
	if _, err := node.Txn("default").Do(users.PutOp("u/eve", user{"Eve", 20})).Commit(ctx); err != nil {
		t.Fatal(err)
	}
	var seen []user
	for e, err := range users.Scan(ctx, kv.Prefix("u/")) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e.Value)
	}
	if got := fmt.Sprint(seen); got != "[{Ada 37} {Eve 20}]" {
		t.Errorf("Scan: %s", got)
	}
	for e, err := range users.Scan(ctx, kv.NoValues()) {
		if err != nil || e.Value != (user{}) || e.Revision == 0 {
			t.Errorf("Scan without values: %+v, %v", e, err)
		}
	}
	seen = nil
	for e, err := range users.Watch(ctx, "u/") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == kv.EventDelete {
			break
		}
		if seen = append(seen, e.Value); len(seen) == 2 {
			must(store.Delete(ctx, "u/eve"))
		}
	}
	if got := fmt.Sprint(seen); got != "[{Ada 37} {Eve 20}]" {
		t.Errorf("Watch: %s", got)
	}
}

// TestViewOfSomethingElse: reading a value of another type fails with an error that names the key,
// in every read.
func TestViewOfSomethingElse(t *testing.T) {
	node, ctx := open(t, floe.Config{Shards: 1}), within(t)
	users := kv.JSON[user](node.KV("default"))
	w := must(node.KV("default").Put(ctx, "k", []byte("{")))
	check := func(call string, err error) {
		t.Helper()
		var bad *kv.DecodeError
		if !errors.As(err, &bad) || bad.Key != "k" || bad.Revision != w.Revision || !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%s = %v, want a DecodeError of k, which is ErrInvalid", call, err)
		}
	}
	_, err := users.Get(ctx, "k")
	check("Get", err)
	_, err = users.Update(ctx, "k", func(e kv.EntryOf[user]) (user, error) { return e.Value, nil })
	check("Update", err)
	for e, err := range users.Scan(ctx) {
		if check("Scan", err); e != (kv.EntryOf[user]{}) {
			t.Errorf("Scan: %+v with an error", e)
		}
	}
	for e, err := range users.Watch(ctx, "") {
		if check("Watch", err); e != (kv.EventOf[user]{}) {
			t.Errorf("Watch: %+v with an error", e)
		}
	}
	unknown := kv.JSON[func()](node.KV("default"))
	_, err = unknown.Put(ctx, "f", func() {})
	wantErr(t, "Put of a function", err, kv.ErrInvalid)
	_, err = node.Txn("default").Do(unknown.PutOp("f", func() {})).Commit(ctx)
	wantErr(t, "Commit with a function", err, kv.ErrInvalid)
}
