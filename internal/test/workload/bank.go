package workload

import (
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// bank is in one shard of the spread namespace.
var bank = check.Bank{Prefix: "{bank}"}

// bankJob transfers money in transactions, and reads all accounts at once.
type bankJob struct{}

func newBankJob() Job { return bankJob{} }

func (bankJob) Open(w World) bool {
	return insist(w, func() error {
		_, err := engine.NewTxn(w.Router(), Spread, MaxValue).Do(bank.Open()...).Commit(context.Background())
		if errors.Is(err, kv.ErrConflict) {
			return nil
		}
		return err
	})
}

func (j bankJob) Do(w World) {
	for w.Working() {
		if w.Rand().IntN(3) == 0 {
			w.Note(lookAtBank(w))
			continue
		}
		_, err := engine.NewTxn(w.Router(), Spread, MaxValue).Do(bank.Transfer(w.Rand())...).Commit(context.Background())
		w.Note(err)
	}
}

func (bankJob) Audit(w World) { _ = lookAtBank(w) }

func lookAtBank(w World) error {
	entries, err := engine.StoreOf[kv.Store](w.Router(), Spread, MaxValue).GetMany(context.Background(), bank.Keys()...)
	if err != nil {
		return err
	}
	if err := bank.Check(entries); err != nil {
		w.Failf("%w", err)
	}
	return nil
}
