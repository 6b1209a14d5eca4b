package kv_test

import (
	"bytes"
	"fmt"
	"testing"
)

// TestMissingKeyReadsNoBlock reads missing keys between large values that are all in the lowest
// level. The bloom filters answer, and no block is read.
func TestMissingKeyReadsNoBlock(t *testing.T) {
	r := newRig(t, 1)
	s := r.store("n")
	value := bytes.Repeat([]byte("v"), 16<<10)
	const keys = 200
	for i := range keys {
		must(s.Put(t.Context(), fmt.Sprintf("key-%03d", i), value))
	}
	if err := r.DB().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := r.DB().Compact(t.Context(), []byte{0}, bytes.Repeat([]byte{0xff}, 16), false); err != nil {
		t.Fatal(err)
	}
	if n := r.DB().Metrics().Levels[6].TablesCount; n == 0 {
		t.Fatal("the lowest level is empty")
	}
	must(s.Exists(t.Context(), "key-000-")) // opens the tables
	before := r.DB().Metrics().Filter
	for i := range keys {
		if found, err := s.Exists(t.Context(), fmt.Sprintf("key-%03d-", i)); found || err != nil {
			t.Fatalf("Exists of a missing key = %v, %v", found, err)
		}
	}
	// A filter with 10 bits per key has about 1 % false positives.
	if after := r.DB().Metrics().Filter; after.Hits-before.Hits < keys*9/10 {
		t.Errorf("%d reads of missing keys: filters spared %d reads of blocks, want 90 %%", keys, after.Hits-before.Hits)
	}
}
