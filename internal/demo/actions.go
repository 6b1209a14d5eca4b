package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/action"
)

// actions are the actions of the shop. Their completed runs are kept for a while.
var actions = []struct {
	name, owner, does string
	timeout           time.Duration
	retries           int
}{
	{"reserve", "stock", "takes the items of an order from the stock", 5 * time.Second, 1},
	{"release", "stock", "puts them back", 5 * time.Second, 3},
	{"charge", "billing", "has the bank take the money", 10 * time.Second, 2},
	{"refund", "billing", "gives it back", 10 * time.Second, 3},
	{"payout-northbank", "billing", "pays a customer who is with northbank", 5 * time.Second, 0},
	{"payout-southbank", "billing", "pays a customer who is with southbank", 5 * time.Second, 0},
	{"ship", "logistics", "sends an item", 30 * time.Second, 2},
	{"restock", "logistics", "takes back what was returned", 5 * time.Second, 1},
	{"report", "analytics", "adds up the figures of a day", 20 * time.Second, 1},
	{"quote", "logistics", "asks a carrier what a parcel costs", time.Second, 0},
	{"export", "analytics", "writes a file for the tax office", 10 * time.Second, 0},
	{"scan-invoice", "billing", "reads an invoice; the machine for it is not there yet", 30 * time.Second, 0},
}

func (s *Shop) loadActions(ctx context.Context) error {
	store := s.db.Action(Main)
	var errs []error
	for _, a := range actions {
		_, err := store.Register(ctx, a.name, action.Owner(a.owner), action.Description(a.does), action.Timeout(a.timeout),
			action.MaxAttempts(1+a.retries),
			action.Backoff(500*time.Millisecond, 5*time.Second), action.Retain(2*time.Hour, 2000))
		errs = append(errs, err)
	}
	for i := range 3 { // no worker takes these runs
		_, err := store.Invoke(ctx, "scan-invoice", fmt.Appendf(nil, `{"invoice":"i-%d"}`, 300+i))
		errs = append(errs, err)
	}
	for i, kg := range []int{3, 34} {
		_, err := store.Invoke(ctx, "quote", fmt.Appendf(nil, `{"order":%d,"kg":%d}`, firstOrder+i, kg))
		errs = append(errs, err)
	}
	_, err := store.Invoke(ctx, "export", []byte(`{"month":9,"country":"AT"}`))
	errs = append(errs, err, store.RegisterWorker(ctx, action.NewWorker{
		ID: "batch-7", Machine: "db-01.example.com", MaxConcurrent: 8, Actions: []string{"report"},
		Metadata: []byte(`{"zone":"eu-1","build":9007199254740993}`),
	}))
	return errors.Join(errs...)
}

// tickErrands invokes runs that belong to no workflow: exports, some of which fail, and quotes,
// some of which time out.
func (s *Shop) tickErrands(ctx context.Context, r *rand.Rand, n int) error {
	store := s.db.Action(Main)
	_, err := store.Invoke(ctx, "export", fmt.Appendf(nil, `{"month":%d,"country":%q}`, 1+r.IntN(12), pick(r, "DE", "FR", "NL", "AT")))
	_, err2 := store.Invoke(ctx, "quote", fmt.Appendf(nil, `{"order":%d,"kg":%d}`, s.next-1, 1+r.IntN(40)), action.Priority(r.IntN(256)))
	return errors.Join(err, err2)
}

// errand is the input of an action for an order.
type errand struct {
	Order   int      `json:"order"`
	Items   []string `json:"items"`
	Item    string   `json:"item"`
	Cents   int      `json:"cents"`
	Payment string   `json:"payment"`
	Country string   `json:"country"`
	Kg      int      `json:"kg"`
}

// clerk is the worker for payments and reports.
func (s *Shop) clerk(ctx context.Context) error {
	w := s.db.Action(Main).Worker(action.WorkerConfig{ID: "clerk-1", Concurrency: 8, Grace: time.Second,
		Metadata: map[string]string{"zone": "eu-1", "version": "2.4.1"}})
	var tried memory
	w.Handle("charge", func(ctx context.Context, t *action.Task) (any, error) { return s.charge(ctx, t, &tried) })
	action.Handle(w, "refund", func(ctx context.Context, e errand) (any, error) {
		return map[string]int{"refunded": e.Order}, s.take(ctx, effort(e.Order, 80*time.Millisecond))
	})
	action.Handle(w, "payout-northbank", func(ctx context.Context, e errand) (any, error) {
		if e.Order%2 == 0 {
			return nil, action.Code("unavailable", errors.New("northbank is closed for maintenance"))
		}
		return map[string]string{"bank": "northbank"}, s.take(ctx, 60*time.Millisecond)
	})
	action.Handle(w, "payout-southbank", func(ctx context.Context, e errand) (any, error) {
		return map[string]string{"bank": "southbank"}, s.take(ctx, 90*time.Millisecond)
	})
	action.Handle(w, "report", func(ctx context.Context, _ any) (any, error) {
		return map[string]int{"orders": 731, "revenue_cents": 4_211_900}, s.take(ctx, 2*time.Second)
	})
	action.Handle(w, "export", func(ctx context.Context, e errand) (any, error) {
		if err := s.take(ctx, effort(len(e.Country), 400*time.Millisecond)); err != nil {
			return nil, err
		}
		if e.Country == "AT" || e.Country == "NL" {
			return nil, fmt.Errorf("the tax office of %s refuses the file: field 12 is missing", e.Country)
		}
		return map[string]any{"file": "export-" + e.Country + ".xml", "bytes": 48_211}, nil
	})
	return w.Run(ctx)
}

func (s *Shop) charge(ctx context.Context, t *action.Task, tried *memory) (any, error) {
	var e errand
	if err := t.Decode(&e); err != nil {
		return nil, err
	}
	if err := s.take(ctx, effort(e.Order, 150*time.Millisecond)); err != nil {
		return nil, err
	}
	switch {
	case e.Payment == expired:
		return nil, action.Permanent(action.Code("card_expired", fmt.Errorf("northbank refuses order %d: the card has expired", e.Order)))
	case e.Payment == transfer && tried.first(t.IdempotencyKey):
		return nil, action.Code("no_answer", errors.New("southbank does not answer"))
	}
	return map[string]any{"bank": "northbank", "cents": e.Cents}, nil
}

// memory holds the keys of earlier attempts, because an attempt of a step has no access to the
// state of the others.
type memory struct {
	mu   sync.Mutex // guards keys
	keys map[string]bool
}

const remembered = 10_000 // orders of several hours

// first reports whether a key is new, and adds it.
func (m *memory) first(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil || len(m.keys) > remembered {
		m.keys = make(map[string]bool)
	}
	if m.keys[key] {
		return false
	}
	m.keys[key] = true
	return true
}

// packer is the worker for goods and parcels.
func (s *Shop) packer(ctx context.Context) error {
	w := s.db.Action(Main).Worker(action.WorkerConfig{ID: "packer-1", Concurrency: 6, Grace: time.Second,
		Metadata: map[string]string{"zone": "eu-2", "version": "2.4.0"}})
	action.Handle(w, "reserve", func(ctx context.Context, e errand) (any, error) {
		if slices.Contains(e.Items, "unicorn") {
			return nil, action.Permanent(action.Code("out_of_stock", errors.New("there is no unicorn left")))
		}
		return map[string]any{"reserved": e.Items}, s.take(ctx, effort(e.Order, 40*time.Millisecond))
	})
	action.Handle(w, "release", func(ctx context.Context, e errand) (any, error) {
		return map[string]any{"released": e.Items}, s.take(ctx, effort(e.Order, 40*time.Millisecond))
	})
	action.Handle(w, "ship", func(ctx context.Context, e errand) (any, error) {
		time := effort(e.Order, 300*time.Millisecond)
		if e.Item == "anvil" { // needs two people
			time *= 20
		}
		return map[string]string{"parcel": fmt.Sprintf("p-%d-%s", e.Order, e.Item)}, s.take(ctx, time)
	})
	action.Handle(w, "quote", func(ctx context.Context, e errand) (any, error) {
		if e.Kg > 30 { // the carrier never answers
			return nil, s.take(ctx, time.Hour)
		}
		return map[string]int{"cents": 390 + 45*e.Kg}, s.take(ctx, effort(e.Order, 120*time.Millisecond))
	})
	action.Handle(w, "restock", func(ctx context.Context, e errand) (any, error) {
		return map[string]string{"shelf": e.Item}, s.take(ctx, 50*time.Millisecond)
	})
	return w.Run(ctx)
}

// stocker is the worker of the warehouse.
func (s *Shop) stocker(ctx context.Context) error {
	w := s.db.Action(Warehouse).Worker(action.WorkerConfig{ID: "stocker-1", Grace: time.Second})
	action.Handle(w, "count-shelf", func(ctx context.Context, e errand) (any, error) {
		return map[string]int{"left": 40 + e.Order%100}, s.take(ctx, effort(e.Order, 500*time.Millisecond))
	})
	return w.Run(ctx)
}
