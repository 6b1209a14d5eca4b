package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// order is the value of order/<id>.
type order struct {
	ID       string    `json:"id"`
	Email    string    `json:"email"`
	Lines    []line    `json:"lines"`
	Total    cents     `json:"total"`
	Status   string    `json:"status"`
	Reason   string    `json:"reason,omitempty"`   // of a cancelled order
	Provider string    `json:"provider,omitempty"` // of a paid order
	PlacedAt time.Time `json:"placed_at"`
}

// The states of an order.
const (
	placed    = "placed"
	paid      = "paid"
	cancelled = "cancelled"
)

// event is a record of the stream orders: an order has reached a state.
type event struct {
	Type  string `json:"type"` // the state
	Order string `json:"order"`
	Lines []line `json:"lines"`
}

const orderStream = "orders"

// eventOp returns the operation that appends the event of an order's state.
func eventOp(o order) (stream.OpOf[stream.Appended], error) {
	payload, err := json.Marshal(event{o.Status, o.ID, o.Lines})
	return stream.AppendOp(orderStream, stream.Message{Key: o.ID, Payload: payload}), err
}

// startOp returns the operation that starts the workflow of an order.
func startOp(o order, card string) (workflow.OpOf[workflow.Started], error) {
	input, err := json.Marshal(map[string]any{"order": o.ID, "email": o.Email, "cents": o.Total, "card": card})
	return workflow.StartOp("order", input, workflow.UseID(workflow.RunID(o.ID))), err
}

// checkout makes the cart an order. Two clicks on the button, or a repeat after an unknown outcome,
// make one order: it has the id of its cart.
func (s *shop) checkout(ctx context.Context, id, email, card string, total cents) (order, error) {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		o, err := s.place(ctx, id, email, card, total)
		again := errors.Is(err, floe.ErrConflict) || errors.Is(err, floe.ErrUnknownOutcome)
		if !again || attempt == attempts {
			return o, err
		}
	}
}

// place does all of a checkout in one transaction: it stores the order, deletes the cart, appends
// the event, starts the workflow and takes the goods from the stock, or does nothing. It is refused
// with ErrConflict if the cart, a price or the order has changed since it was read.
func (s *shop) place(ctx context.Context, id, email, card string, total cents) (order, error) {
	q, err := s.quote(ctx, id)
	if err != nil {
		return order{}, err
	}
	if o, err := s.orders().Get(ctx, orderKey(id)); !errors.Is(err, floe.ErrNotFound) {
		return o, err // it is a repeat
	}
	if len(q.Lines) == 0 {
		return order{}, &refusal{http.StatusConflict, "The cart is empty."}
	}
	if q.Total != total {
		return order{}, &refusal{http.StatusConflict, fmt.Sprintf("The cart now costs %v. Please look at it again.", q.Total)}
	}
	o := order{ID: id, Email: email, Lines: q.Lines, Total: q.Total, Status: placed, PlacedAt: time.Now()}
	appended, err := eventOp(o)
	if err != nil {
		return order{}, err
	}
	run, err := startOp(o, card)
	if err != nil {
		return order{}, err
	}
	txn := s.db.Txn(namespace).Do(s.orders().PutOp(orderKey(id), o, kv.IfAbsent()), kv.DeleteOp(cartKey(id)), appended, run)
	for _, c := range q.revisions {
		txn.If(c)
	}
	for _, l := range o.Lines {
		txn.Do(kv.IncrOp(stockKey(l.SKU), int64(-l.Quantity), kv.Min(0)))
	}
	_, err = txn.Commit(ctx)
	if bound := (*kv.BoundError)(nil); errors.As(err, &bound) {
		sku, _ := strings.CutPrefix(bound.Key, stockKey(""))
		return order{}, &refusal{http.StatusConflict, fmt.Sprintf("Sold out: %d of %s left.", bound.Value, sku)}
	}
	return o, err
}
