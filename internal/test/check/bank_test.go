package check

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestBank runs a bank on an in-memory node. Its operations must keep the sum, though some are
// refused.
func TestBank(t *testing.T) {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	bank := Bank{Prefix: "bank/"}
	rng := rand.New(rand.NewPCG(1, 2))
	read := func() map[string]kv.Entry {
		accounts, err := node.KV("default").GetMany(t.Context(), bank.Keys()...)
		if err != nil {
			t.Fatal(err)
		}
		return accounts
	}
	expect(t, "before it opens", bank.Check(read()), "")
	do := func(ops []engine.Operation) error {
		txn := node.Txn("default")
		for _, op := range ops {
			txn.Do(op)
		}
		_, err := txn.Commit(t.Context())
		return err
	}
	if err := do(bank.Open()); err != nil {
		t.Fatal(err)
	}
	done, refused := 0, 0
	for range 1000 {
		switch err := do(bank.Transfer(rng)); {
		case err == nil:
			done++
		case errors.As(err, new(*kv.BoundError)):
			refused++
		default:
			t.Fatal(err)
		}
		expect(t, "after a transfer", bank.Check(read()), "")
	}
	if done < 100 || refused < 10 {
		t.Errorf("%d transfers and %d refused: want more", done, refused)
	}
}

func TestBankRefuses(t *testing.T) {
	bank := Bank{}
	good := make(map[string]kv.Entry)
	for _, key := range bank.Keys() {
		good[key] = kv.Entry{Key: key, Value: []byte("100")}
	}
	expect(t, "good", bank.Check(good), "")
	for name, c := range map[string]struct {
		change func(map[string]kv.Entry)
		want   string
	}{
		"half a transfer": {func(m map[string]kv.Entry) { m["03"] = kv.Entry{Value: []byte("90")} }, "hold 1990"},
		"money from air":  {func(m map[string]kv.Entry) { m["03"] = kv.Entry{Value: []byte("101")} }, "hold 2001"},
		"overdrawn": {func(m map[string]kv.Entry) {
			m["03"], m["04"] = kv.Entry{Value: []byte("-1")}, kv.Entry{Value: []byte("201")}
		}, `account "03" holds "-1"`},
		"missing":   {func(m map[string]kv.Entry) { delete(m, "07") }, `account "07" is missing`},
		"no number": {func(m map[string]kv.Entry) { m["03"] = kv.Entry{Value: []byte("x")} }, `holds "x"`},
		"foreign":   {func(m map[string]kv.Entry) { m["20"] = kv.Entry{Value: []byte(strconv.Itoa(0))} }, "21 accounts"},
	} {
		accounts := maps.Clone(good)
		c.change(accounts)
		expect(t, name, bank.Check(accounts), c.want)
	}
}
