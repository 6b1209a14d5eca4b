package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// bank transfers money between accounts while auditors read all of them at once.
type bank struct {
	check.Bank
	cluster           *cluster
	transfers, audits atomic.Int64
}

const bankSpace = "bank"

func newBank(c *cluster) *bank { return &bank{Bank: check.Bank{Prefix: "account/"}, cluster: c} }

// client returns the connections of the n-th banker or auditor.
func (b *bank) client(n int) (txn func() *engine.Txn, store *kv.Store) {
	router := engine.NewRouter(&door{cluster: b.cluster, first: n})
	return func() *engine.Txn { return engine.NewTxn(router, bankSpace, kv.DefaultMaxValueBytes) }, engine.StoreOf[kv.Store](router,
		bankSpace, 0)
}

// open may be repeated: a conflict means that it was done.
func (b *bank) open(ctx context.Context) error {
	txn, _ := b.client(0)
	for {
		_, err := txn().Do(b.Open()...).Commit(ctx)
		if err == nil || errors.Is(err, engine.ErrConflict) {
			return nil
		}
		if !errors.Is(err, engine.ErrUnknownOutcome) {
			return err
		}
	}
}

// run lets two bankers and an auditor work until stop, and reports unexpected errors.
func (b *bank) run(ctx context.Context, seed uint64, stop <-chan struct{}, running *sync.WaitGroup, failed func(error)) {
	for n := range 2 {
		rng := rand.New(rand.NewPCG(seed, 1000+uint64(n)))
		txn, _ := b.client(n)
		running.Go(func() { every(stop, func() { failed(b.transfer(ctx, txn(), rng)) }) })
	}
	_, store := b.client(2)
	running.Go(func() { every(stop, func() { failed(b.audit(ctx, store)) }) })
}

func (b *bank) transfer(ctx context.Context, txn *engine.Txn, rng *rand.Rand) error {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := txn.Do(b.Transfer(rng)...).Commit(call)
	switch {
	case err == nil:
		b.transfers.Add(1)
		return nil
	case isDoubt(err), errors.Is(err, engine.ErrConflict): // the balance is too low
		return nil
	}
	return fmt.Errorf("transfer: %w", err)
}

func (b *bank) audit(ctx context.Context, store *kv.Store) error {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	accounts, err := store.GetMany(call, b.Keys()...)
	if err != nil && isDoubt(err) {
		return nil
	}
	if err == nil {
		b.audits.Add(1)
		err = b.Check(accounts)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
