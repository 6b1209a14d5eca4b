package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// Vaults are filled from purses in other shards, over lanes that a full one holds, with replies
// that return what a closed one refuses (see toy.Vaults). The outcome of a single shipment depends
// on the others, so the ledger does not predict it. It knows what was paid in, since each payment
// is an act that leaves a row. The total in purses, in vaults and in transit must equal that:
// nothing is lost or duplicated.

// nsVaults is the namespace of the vaults, which is spread.
const nsVaults = "vaults"

func rigVault(n int) string { return "{lock " + strconv.Itoa(n) + "}" }
func rigPurse(n int) string { return "{purse " + strconv.Itoa(n) + "}" }

// payIn pays into a purse, or into the counter from which a vault pays its fees.
func (w *rigLoad) payIn() error {
	name := rigPurse(w.rng.IntN(4))
	if w.rng.IntN(3) == 0 {
		name = rigVault(w.rng.IntN(3))
	}
	amount, v := 1+w.rng.Int64N(100), rigVersion{value: w.value()}
	id := w.write(nsVaults+"/"+name+"row", v)
	acts := w.ledger.shards[id].acts
	w.ledger.paidIn = append(w.ledger.paidIn, rigEntry{act: acts[len(acts)-1], delta: amount})
	return w.do(id, nil, func() (uint64, error) {
		_, err := engine.NewTxn(w.rig.router, nsVaults, math.MaxInt32).Do(
			toy.Command{Kind: toy.Add, Name: name, Delta: amount}.Op(), kv.PutOp(name+"row", []byte(v.value)),
		).Commit(context.Background())
		return 0, err
	})
}

// vault ships an amount to a vault, closes or opens it, or empties it. Insufficient funds in a
// purse count as success.
func (w *rigLoad) vault() error {
	c := toy.Command{Kind: toy.Ship, Name: rigPurse(w.rng.IntN(4)), Target: rigVault(w.rng.IntN(3)), Delta: 1 + w.rng.Int64N(80)}
	switch w.rng.IntN(8) {
	case 0:
		c = toy.Command{Kind: toy.Turn, Name: c.Target, Delta: w.rng.Int64N(2)}
	case 1, 2:
		c.Kind = toy.Release
	}
	cmd := c.ToVaults(nsVaults)
	cmd.Spread = true
	_, err := w.rig.Propose(context.Background(), engine.NameShard(nsVaults, c.Name, rigShards), cmd)
	switch {
	case errors.Is(err, engine.ErrConflict):
		w.refused++
		return nil
	case err != nil && (w.faulty || errors.Is(err, engine.ErrUnknownOutcome)):
		return err
	case err != nil:
		return &wrongOutcome{fmt.Sprintf("act %d: vaults: %v", w.number, err)}
	}
	w.acks++
	if w.onAck != nil {
		return w.onAck()
	}
	return nil
}

// rigVaults sums the amounts in purses, in vaults and in transit.
func rigVaults(r *rig) (sum int64, err error) {
	for id := range engine.ShardID(rigShards) {
		purses, vaults := toy.Sum{Namespace: nsVaults}, toy.Vaults{Namespace: nsVaults}
		if err := errors.Join(r.Query(context.Background(), id, &purses), r.Query(context.Background(), id, &vaults)); err != nil {
			return 0, err
		}
		sum += purses.Sum + vaults.Held + vaults.Shipped
	}
	return sum, nil
}

// paid sums the payments in the first acts of each shard.
func (l *rigLedger) paid(upTo [rigShards]int) (sum int64) {
	for _, e := range l.paidIn {
		if e.act.at < upTo[e.act.shard] && !e.act.void {
			sum += e.delta
		}
	}
	return sum
}
