package main

import (
	"context"
	"errors"
	"slices"

	"github.com/floedb/floe/action"
)

// provider takes payments. It stands for the client of an external service, and declines some of
// the test cards.
type provider struct {
	name     string
	declines []string
}

var (
	cardhouse = provider{"cardhouse", []string{"declined", "stolen"}}
	paybridge = provider{"paybridge", []string{"stolen"}}
)

// cards are the test cards of the checkout. A real shop gets a token from the provider's form and
// never sees the number.
var cards = []string{"valid", "declined", "stolen"}

// charge charges a card. It may run more than once, because an external service takes no part in
// the shop's transactions. A real client passes on action.TaskOf(ctx).IdempotencyKey, which is the
// same in all attempts, so that the card is charged once.
func (p provider) charge(_ context.Context, t task) (any, error) {
	if slices.Contains(p.declines, t.Card) {
		return nil, action.Permanent(action.Code("card_declined", errors.New(p.name+" declined the card")))
	}
	return map[string]string{"provider": p.name}, nil
}

// refund undoes a charge if the order could not be settled after it.
func (s *shop) refund(_ context.Context, t task) (any, error) {
	s.log.Info("refunded", "order", t.Order, "provider", t.Provider)
	return nil, nil
}
