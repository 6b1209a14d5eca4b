package flow

import (
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/rawjson"
)

// TestGarbage: no beginning and no damage of JSON makes any function panic.
func TestGarbage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p, err := parsePath(`$.input.o["x y"]["a-b"][1]`, pathRules{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		raw := []byte(testInput)
		if i < len(raw) {
			raw = raw[:i]
		} else {
			raw[r.IntN(len(raw))] = byte(r.Uint32())
		}
		valid := rawjson.Valid(raw)
		if got := p.Append(nil, values{"input": string(raw)}); !valid && got != nil {
			t.Fatalf("a path leads to %s in %s, which is no JSON", got, raw)
		}
	}
}
