package sim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// The bank: accounts in one shard of the spread namespace, between which money is moved in transactions.
const (
	accounts = 20
	balance  = 100 // of each to begin with
)

type bankClient struct {
	*client
}

func account(n int) string { return fmt.Sprintf("{bank}%d", n) }

func (c *bankClient) store() *kv.Store { return kv.New(c.router, spread, maxValue) }

// open puts money into all accounts.
func (c *bankClient) open() {
	for {
		txn := engine.NewTxn(c.router, spread, maxValue)
		for n := range accounts {
			txn.Do(kv.PutOp(account(n), strconv.AppendInt(nil, balance, 10)))
		}
		if _, err := txn.Commit(ctx); err == nil || !c.sleep(10*time.Millisecond) {
			return
		}
	}
}

func (c *bankClient) work() {
	for c.working() {
		c.sim.issued++
		if c.sim.rng.IntN(3) == 0 {
			c.look()
		} else {
			c.transfer()
		}
	}
}

// transfer moves money; the second half fails when the first account has too little.
func (c *bankClient) transfer() {
	from, to, amount := account(c.sim.rng.IntN(accounts)), account(c.sim.rng.IntN(accounts)), c.sim.rng.Int64N(balance)
	_, err := engine.NewTxn(c.router, spread, maxValue).Do(kv.IncrOp(to, amount), kv.IncrOp(from, -amount, kv.Min(0))).Commit(ctx)
	if err != nil && !errors.Is(err, kv.ErrInvalid) {
		c.sim.verdict.refused(err)
	}
}

// look reads all accounts at once.
func (c *bankClient) look() {
	var names []string
	for n := range accounts {
		names = append(names, account(n))
	}
	entries, err := c.store().GetMany(ctx, names...)
	if err != nil {
		c.sim.verdict.refused(err)
		return
	}
	sum := int64(0)
	for _, name := range names {
		n, err := strconv.ParseInt(string(entries[name].Value), 10, 64)
		if err != nil {
			c.sim.failf("account %s holds %q", name, entries[name].Value)
		}
		sum += n
	}
	if sum != accounts*balance {
		c.sim.failf("the accounts hold %d, want %d: %v", sum, accounts*balance, entries)
	}
}
