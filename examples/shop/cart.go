package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// cart has the quantities of products by SKU. It is the value of cart/<id>, where the id is a
// random text in a cookie. The order made from a cart has the same id.
type cart map[string]int

// Limits of a cart.
const (
	cartTTL     = 7 * 24 * time.Hour
	maxLines    = 50
	maxQuantity = 20
)

// line is a product in a cart or order.
type line struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Quantity int    `json:"quantity"`
	Cents    cents  `json:"cents"` // of all of them
}

// quote is a cart with current prices. Its revisions hold as long as neither has changed.
type quote struct {
	Lines     []line `json:"lines"`
	Total     cents  `json:"total"`
	revisions []kv.Condition
}

// put sets the quantity of a product in a cart. 0 removes the product.
func (s *shop) put(ctx context.Context, id, sku string, quantity int) error {
	if quantity < 0 || quantity > maxQuantity {
		return &refusal{http.StatusBadRequest, fmt.Sprintf("The quantity is 0 to %d.", maxQuantity)}
	}
	if _, err := s.store().Get(ctx, productKey(sku)); err != nil {
		return err
	}
	_, err := s.carts().Update(ctx, cartKey(id), func(e kv.EntryOf[cart]) (cart, error) {
		c := e.Value
		if c == nil {
			c = make(cart)
		}
		c[sku] = quantity
		if quantity == 0 {
			delete(c, sku)
		}
		if len(c) > maxLines {
			return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("A cart has at most %d products.", maxLines)}
		}
		return c, nil
	}, kv.TTL(cartTTL))
	return err
}

// quote computes the lines of a cart. A cart that does not exist is empty.
func (s *shop) quote(ctx context.Context, id string) (q quote, err error) {
	e, err := s.carts().Entry(ctx, cartKey(id))
	if err != nil && !errors.Is(err, floe.ErrNotFound) {
		return q, err
	}
	q.revisions = append(q.revisions, kv.RevisionIs(cartKey(id), e.Revision))
	for _, sku := range slices.Sorted(maps.Keys(e.Value)) {
		p, err := kv.JSON[product](s.store()).Entry(ctx, productKey(sku))
		if errors.Is(err, floe.ErrNotFound) { // it is no longer sold
			continue
		}
		if err != nil {
			return q, err
		}
		n := e.Value[sku]
		l := line{SKU: sku, Name: p.Value.Name, Quantity: n, Cents: p.Value.Price * cents(n)}
		q.Lines = append(q.Lines, l)
		q.Total += l.Cents
		q.revisions = append(q.revisions, kv.RevisionIs(productKey(sku), p.Revision))
	}
	return q, nil
}
