package kv_test

import (
	"fmt"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestHistoryPages: the values in a key's history may together exceed an answer. A page ends with
// the value that exceeds its bound.
func TestHistoryPages(t *testing.T) {
	const size = 16 << 20
	node := open(t, floe.Config{MaxValueSize: size})
	store := node.KV("default")
	value := make([]byte, size)
	const n = engine.MaxAnswerBytes/size + 1
	for range n {
		if _, err := store.Put(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.History("k").Page(t.Context())
	if err != nil || len(page.Items) != 1 || page.Items[0].Version != n || page.Cursor != fmt.Sprint(n) {
		t.Errorf("the first page has %d versions, cursor %q, %v; want the newest alone", len(page.Items), page.Cursor, err)
	}
	all, err := engine.Collect(store.History("k").All(t.Context()))
	if err != nil || len(all) != n || len(all[n-1].Value) != size {
		t.Errorf("All = %d versions, %v; want %d", len(all), err, n)
	}
	for limit := 1; limit <= n+1; limit++ {
		got, err := engine.Collect(store.History("k").All(t.Context(), kv.NoValues(), kv.Limit(limit)))
		if err != nil || len(got) != n || got[0].Version != n || got[n-1].Version != 1 || got[0].Value != nil {
			t.Errorf("All without values, Limit(%d) = %d versions, %v; want %d", limit, len(got), err, n)
		}
	}
}
