package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// order is a customer's order: a record of the stream orders, and the input of a run.
type order struct {
	ID       int      `json:"order"`
	Customer string   `json:"customer"`
	Country  string   `json:"country"`
	Items    []string `json:"items"`
	Cents    int      `json:"cents"`
	Payment  string   `json:"payment"`
}

// The payments that cause problems; all others succeed.
const (
	expired  = "card-expired" // the bank refuses it
	transfer = "transfer"     // the bank does not answer at first
)

const (
	approvedFrom = 25_000 // orders from this amount, in cents, need a person's approval
	customers    = 60
)

// ordered adjusts the first orders of the shop, so that every seed has runs with every outcome.
var ordered = []func(*order){
	func(o *order) { o.Payment, o.Cents = "card", 4_900 },
	func(o *order) { o.Payment, o.Cents = transfer, 7_300 },
	func(o *order) { o.Payment, o.Cents = expired, 2_150 },
	func(o *order) { o.Payment, o.Cents = "card", 129_900 }, // never approved
	func(o *order) { o.Items = []string{"unicorn"} },        // not in stock
	func(o *order) { o.Payment, o.Cents, o.Items = "card", 8_800, []string{"anvil", "rope"} },
	func(o *order) { o.Payment, o.Cents = "card", 48_000 }, // cancelled by the customer
	func(o *order) { o.Payment, o.Cents = transfer, 31_000 },
}

// newOrder returns the order with the number id.
func (s *Shop) newOrder(id int) order {
	r := s.random(orderStream, id)
	o := order{
		ID:       id,
		Customer: fmt.Sprintf("c-%d", 1000+r.IntN(customers)),
		Country:  pick(r, "DE", "DE", "DE", "FR", "FR", "NL", "US", "AT"),
		Payment:  pick(r, "card", "card", "card", "card", "invoice", "invoice", transfer, expired),
	}
	o.Cents = 500 + int(9_000*r.ExpFloat64())
	for range 1 + r.IntN(3) {
		o.Items = append(o.Items, pick(r, "cup", "lamp", "rope", "chair", "kettle", "desk", "anvil", "poster"))
	}
	if i := id - firstOrder; i < len(ordered) {
		o.Items = []string{"cup", "lamp"}
		ordered[i](&o)
	}
	return o
}

// runOf returns the run id of an order.
func runOf(id int) workflow.RunID { return workflow.RunID("order-" + strconv.Itoa(id)) }

// hasRun reports whether an order has a run. The other orders are for pickup.
func hasRun(id int) bool { return id < firstOrder+len(ordered) || id%3 == 0 }

// place creates n orders: records in the stream, and runs.
func (s *Shop) place(ctx context.Context, n int) error {
	var messages []stream.Message
	var errs []error
	for range n {
		o := s.newOrder(s.next)
		s.next++
		body, err := json.Marshal(o)
		errs = append(errs, err)
		messages = append(messages, stream.Message{Key: o.Customer, Payload: body,
			Headers: map[string]string{"type": "order", "source": []string{"web", "app"}[o.ID%2]}})
		if hasRun(o.ID) {
			_, err := s.db.Workflow(Main).Start(ctx, "order", body, workflow.UseID(runOf(o.ID)))
			errs = append(errs, err)
		}
	}
	_, err := s.db.Stream(Main).AppendMany(ctx, "orders", messages)
	_, err2 := s.db.KV(Main).Incr(ctx, "count/orders", int64(n))
	return errors.Join(append(errs, err, err2)...)
}

// loadOrders creates the first orders and cancels the run of one of them.
func (s *Shop) loadOrders(ctx context.Context) error {
	if err := s.place(ctx, loaded); err != nil {
		return err
	}
	_, err := s.db.Workflow(Main).Cancel(ctx, runOf(firstOrder+6), "the customer has changed her mind")
	return err
}

// tickOrders creates orders, one to three at a time, with quiet and busy minutes.
func (s *Shop) tickOrders(ctx context.Context, r *rand.Rand, n int) error {
	return s.place(ctx, 1+r.IntN(1+int(1.5*(1+wave(n, 240)))))
}

// tickApprovals approves or rejects older orders for the manager, and leaves some pending.
func (s *Shop) tickApprovals(ctx context.Context, r *rand.Rand, _ int) error {
	var errs []error
	for id := s.next - 40; id < s.next-20; id++ {
		if id < firstOrder+loaded || !hasRun(id) || s.newOrder(id).Cents < approvedFrom || id%7 == 0 {
			continue
		}
		run, err := s.db.Workflow(Main).Runs().Get(ctx, runOf(id))
		if err != nil || run.Status != workflow.Waiting {
			continue
		}
		payload := `{"by":"eve"}`
		if r.IntN(4) == 0 {
			payload = `{"by":"eve","outcome":"rejected"}`
		}
		_, err = s.db.Workflow(Main).Signal(ctx, runOf(id), "approval", []byte(payload))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// effort returns how long work for an order takes. It is the same every time for an order, and some
// orders take much longer.
func effort(id int, usual time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(uint64(id), 7))
	return time.Duration(float64(usual) * (0.4 + r.ExpFloat64()))
}
