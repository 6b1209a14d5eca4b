package kv_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// TestPageInto reads pages of two namespaces, one of them in several shards, into one buffer, and
// compares them with the results of Page.
func TestPageInto(t *testing.T) {
	node := open(t, floe.Config{Shards: 3})
	if err := node.Namespaces().Create(t.Context(), "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	var buf kv.PageBuffer
	for round := range 2 {
		for _, namespace := range []string{"narrow", "wide"} {
			store := node.KV(namespace)
			for i := range 300 {
				value := strings.Repeat(string(rune('a'+i%26)), (i+round)*i%2000) // some empty, some too large to share memory
				if _, err := store.Put(t.Context(), fmt.Sprintf("%03d", i), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
			for _, opts := range [][]kv.ListOption{{kv.Limit(1)}, {kv.Limit(299)}, {kv.NoValues(), kv.Limit(150)}, {kv.Limit(1000)},
				{kv.After("299")}} {
				want, err := store.Page(t.Context(), opts...)
				if err != nil {
					t.Fatal(err)
				}
				read, err := store.PageInto(t.Context(), &buf, opts...)
				if err != nil {
					t.Fatal(err)
				}
				if len(want.Items) != len(read.Items) || want.Cursor != read.Cursor {
					t.Fatalf("%s: PageInto = %d items, %q, want %d, %q", namespace, len(read.Items), read.Cursor, len(want.Items),
						want.Cursor)
				}
				for i, it := range read.Items {
					if !reflect.DeepEqual(it, want.Items[i]) {
						t.Fatalf("%s: item %d is %+v, want %+v", namespace, i, it, want.Items[i])
					}
				}
			}
		}
	}
	for _, namespace := range []string{"narrow", "wide"} {
		after := ""
		for i := range 300 {
			read, err := node.KV(namespace).PageInto(t.Context(), &buf, kv.Limit(1), kv.After(after))
			if err != nil {
				t.Fatal(err)
			}
			if after = read.Items[0].Key; after != fmt.Sprintf("%03d", i) {
				t.Fatalf("%s: behind item %d of the page before comes %q", namespace, i-1, after)
			}
		}
	}
	if read, err := node.KV("wide").PageInto(t.Context(), &buf, kv.Limit(0)); !errors.Is(err, kv.ErrInvalid) || len(read.Items) > 0 ||
		read.Cursor != "" {
		t.Errorf("PageInto with limit 0: %v, %d items, cursor %q; want ErrInvalid and an empty page", err, len(read.Items), read.Cursor)
	}
	store := node.KV("narrow")
	var first [2]*kv.Item
	for i := range first {
		read, err := store.PageInto(t.Context(), &buf, kv.Limit(300))
		if err != nil {
			t.Fatal(err)
		}
		first[i] = &read.Items[0]
	}
	if first[0] != first[1] {
		t.Error("the second of two pages of the same size has other memory than the first")
	}
}

// TestImpossibleKeysOfListings: an impossible prefix or key is refused. It used to give an empty
// page, or a watch that waited forever.
func TestImpossibleKeysOfListings(t *testing.T) {
	store, long := floe.OpenMemory(t).KV("n"), strings.Repeat("k", kv.MaxKeyBytes+1)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), "4097 bytes exceeds 4096") {
			t.Errorf("%s of 4097 bytes: got %v, want ErrInvalid with the value and the limit", what, err)
		}
	}
	_, err := store.Page(t.Context(), kv.Prefix(long))
	refused("a prefix", err)
	_, err = store.Page(t.Context(), kv.After(long))
	refused("a key of After", err)
	for _, err := range store.Watch(t.Context(), long) {
		refused("a prefix of a watch", err)
	}
}
