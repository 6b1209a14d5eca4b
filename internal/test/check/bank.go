package check

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// The bank has enough accounts that transfers overlap, few enough that they conflict.
const (
	Accounts       = 20
	openingBalance = 100
)

// Bank is twenty accounts in one shard whose balances always have the same sum. Every transfer is a
// transaction, so no snapshot may show half of one. Prefix must be unique to the bank and contain a
// {tag} if the namespace is spread.
//
//	node.Txn(ns).Do(bank.Open()...).Commit(ctx)
//	node.Txn(ns).Do(bank.Transfer(rng)...).Commit(ctx)     // a *kv.BoundError: the account has too little
//	balances, err := node.KV(ns).GetMany(ctx, bank.Keys()...)
//	err = bank.Check(balances)
type Bank struct{ Prefix string }

// Keys returns the keys of the accounts.
func (b Bank) Keys() []string {
	keys := make([]string, Accounts)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%02d", b.Prefix, i)
	}
	return keys
}

// Open returns the operations that open all accounts. They must be done once.
func (b Bank) Open() []engine.Operation {
	var ops []engine.Operation
	for _, key := range b.Keys() {
		ops = append(ops, kv.PutOp(key, strconv.AppendInt(nil, openingBalance, 10), kv.IfAbsent()))
	}
	return ops
}

// Transfer returns the operations that move a random amount from one account to another. They are
// refused if the balance is too low.
func (b Bank) Transfer(rng *rand.Rand) []engine.Operation {
	keys := b.Keys()
	from, to := rng.IntN(Accounts), rng.IntN(Accounts-1)
	if to >= from {
		to++
	}
	amount := 1 + rng.Int64N(openingBalance/2)
	return []engine.Operation{kv.IncrOp(keys[from], -amount, kv.Min(0)), kv.IncrOp(keys[to], amount)}
}

// Check returns an error unless the accounts of one snapshot read are complete and sum to the
// initial deposit. A bank that was not opened yet may have no accounts.
func (b Bank) Check(accounts map[string]kv.Entry) error {
	if len(accounts) == 0 {
		return nil
	}
	sum := int64(0)
	for _, key := range b.Keys() {
		e, found := accounts[key]
		if !found {
			return fmt.Errorf("account %q is missing, %d others are there", key, len(accounts))
		}
		balance, err := strconv.ParseInt(string(e.Value), 10, 64)
		if err != nil || balance < 0 {
			return fmt.Errorf("account %q holds %q", key, e.Value)
		}
		sum += balance
	}
	if sum != Accounts*openingBalance || len(accounts) != Accounts {
		return fmt.Errorf("%d accounts hold %d, want %d with %d:\n%v", len(accounts), sum, Accounts, Accounts*openingBalance,
			b.balances(accounts))
	}
	return nil
}

func (b Bank) balances(accounts map[string]kv.Entry) (list []string) {
	for _, key := range b.Keys() {
		list = append(list, fmt.Sprintf("%s=%s@%d", key, accounts[key].Value, accounts[key].Revision))
	}
	return list
}
