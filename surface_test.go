package floe_test

import (
	"errors"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// TestConstants: exported constants equal those that the engine and the shards use.
func TestConstants(t *testing.T) {
	for name, pair := range map[string][2]int{
		"kv.MaxPageItems":               {kv.MaxPageItems, engine.MaxPageItems},
		"queue.MaxPageItems":            {queue.MaxPageItems, engine.MaxPageItems},
		"stream.MaxPageItems":           {stream.MaxPageItems, engine.MaxPageItems},
		"queue.MaxHeaderBytes":          {queue.MaxHeaderBytes, engine.MaxHeaderBytes},
		"stream.MaxHeaderBytes":         {stream.MaxHeaderBytes, engine.MaxHeaderBytes},
		"kv.DefaultMaxValueBytes":       {kv.DefaultMaxValueBytes, engine.DefaultMaxPayload},
		"queue.DefaultMaxPayloadBytes":  {queue.DefaultMaxPayloadBytes, engine.DefaultMaxPayload},
		"stream.DefaultMaxPayloadBytes": {stream.DefaultMaxPayloadBytes, engine.DefaultMaxPayload},
		"floe.Sync":                     {int(floe.Sync), int(shard.Sync)},
		"floe.Async":                    {int(floe.Async), int(shard.Async)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %d, want %d", name, pair[0], pair[1])
		}
	}
}

// TestPartsNobodyMade: operations and conditions that were not made by a floe function are refused,
// and their transaction changes nothing.
func TestPartsNobodyMade(t *testing.T) {
	node := floe.OpenMemory(t)
	for name, op := range map[string]floe.Op{"kv": kv.Op{}, "queue": queue.Op{}, "stream": stream.Op{}, "nil": nil} {
		_, err := node.Txn("n").Do(kv.PutOp("k", nil), op).Commit(t.Context())
		if refused := (*floe.TxnError)(nil); !errors.Is(err, floe.ErrInvalid) || !errors.As(err, &refused) || refused.Index != 1 ||
			refused.Condition {
			t.Errorf("a zero operation, %s: got %v, want a *TxnError that is ErrInvalid", name, err)
		}
	}
	for name, c := range map[string]floe.Condition{"kv": kv.Condition{}, "queue": queue.Condition{}, "stream": stream.Condition{},
		"nil": nil} {
		_, err := node.Txn("n").If(c).Do(kv.PutOp("k", nil)).Commit(t.Context())
		if refused := (*floe.TxnError)(nil); !errors.Is(err, floe.ErrInvalid) || !errors.As(err, &refused) || refused.Index != 0 ||
			!refused.Condition {
			t.Errorf("a zero condition, %s: got %v, want a *TxnError that is ErrInvalid", name, err)
		}
	}
	if _, err := node.KV("n").Get(t.Context(), "k"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("what the refused transactions would have written: %v", err)
	}
}
