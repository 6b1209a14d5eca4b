package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

// cents is an amount of money.
type cents int64

func (c cents) String() string { return fmt.Sprintf("€%d.%02d", c/100, c%100) }

// product is the value of product/<sku>. The stock is a counter of its own, stock/<sku>: sales of a
// product do not conflict with each other, nor with a change of its text.
type product struct {
	SKU   string `json:"sku"`
	Name  string `json:"name"`
	About string `json:"about"`
	Price cents  `json:"price"`
}

// offer is a product with its stock.
type offer struct {
	product
	Stock int `json:"stock"`
}

// catalog has the products of a new shop.
var catalog = []offer{
	{product{"cup", "Cup", "Stoneware, 300 ml, glazed by hand.", 1200}, 40},
	{product{"lamp", "Lamp", "A desk lamp of brass and linen.", 8900}, 10},
	{product{"print", "Signed print", "The last copy of an edition of 50.", 4500}, 1},
	{product{"sofa", "Sofa", "Three seats, oak and wool. Orders of €500.00 and more are approved by a person.", 99000}, 3},
}

// stockUp stores the catalog, except for products that are there already.
func (s *shop) stockUp(ctx context.Context) error {
	for _, o := range catalog {
		_, err := s.db.Txn(namespace).
			Do(
				kv.JSON[product](s.store()).PutOp(productKey(o.SKU), o.product, kv.IfAbsent()),
				kv.PutOp(stockKey(o.SKU), strconv.AppendInt(nil, int64(o.Stock), 10)),
			).
			Commit(ctx)
		if err != nil && !errors.Is(err, floe.ErrConflict) {
			return err
		}
	}
	return nil
}

// offers returns the catalog from the node's own replica, which may lag but answers without a
// leader. The checkout does not rely on it.
func (s *shop) offers(ctx context.Context) (all []offer, err error) {
	var keys []string
	for e, err := range kv.JSON[product](s.replica()).Scan(ctx, kv.Prefix(productKey(""))) {
		if err != nil {
			return nil, err
		}
		all = append(all, offer{product: e.Value})
		keys = append(keys, stockKey(e.Value.SKU))
	}
	stock, err := s.replica().GetMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Stock, err = strconv.Atoi(string(stock[keys[i]].Value))
		if err != nil {
			return nil, fmt.Errorf("stock of %s: %w", all[i].SKU, err)
		}
	}
	return all, nil
}
