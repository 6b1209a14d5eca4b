package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestAnswersAreBounded: what has no pages is refused by the shard, naming the limit, where a Client would get an answer that no frame holds.
func TestAnswersAreBounded(t *testing.T) {
	const size = 16 << 20
	node := open(t, floe.Config{MaxValueSize: size})
	store := node.KV("default")
	value := make([]byte, size)
	for range engine.MaxAnswerBytes/size + 1 {
		if _, err := store.Put(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
	}
	limit := fmt.Sprint(engine.MaxAnswerBytes)
	if _, err := engine.Collect(store.History("k").All(t.Context())); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), limit) {
		t.Errorf("History above the limit: %v, want ErrInvalid with %s", err, limit)
	}
	if got, err := engine.Collect(store.History("k").All(t.Context(), kv.NoValues())); err != nil || len(got) != engine.MaxAnswerBytes/size+1 {
		t.Errorf("History without values = %d versions, %v", len(got), err)
	}
}
