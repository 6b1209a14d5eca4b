package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// bookListing is the listing of a package with an option of its own.
type bookListing struct {
	engine.Listing
	author string
}

type bookOption struct {
	engine.OfKeys
	engine.Filter
}

func byAuthor(name string) bookOption {
	return bookOption{Filter: engine.FilterOf(func(l *bookListing) { l.author = name })}
}

func TestListingOptions(t *testing.T) {
	l := bookListing{Listing: engine.NewListing()}
	engine.Apply(&l, []engine.KeyOption{byAuthor("x"), engine.Prefix("p"), engine.Limit(3), engine.Cursor("pc")})
	expect(t, "options", fmt.Sprintf("%+v", l), "{Listing:{Limit:3 Cursor:pc Prefix:p Err:<nil>} author:x}")
	engine.Apply(&l, []engine.KeyOption{bookOption{}, engine.Limit(0)})
	expect(t, "an option that is none", l.Err, "option was not made by a function of floe")

	for name, c := range map[string]struct {
		opts         []engine.ListOption
		page, listed string // errors of PageOf and ListingOf
	}{
		"none":          {nil, "<nil>", "<nil>"},
		"limit":         {[]engine.ListOption{engine.Limit(engine.MaxPageItems)}, "<nil>", "<nil>"},
		"limit beyond":  {[]engine.ListOption{engine.Limit(1001)}, "limit 1001 is not in 1-1000", "limit 1001 is not in 1-1000"},
		"cursor":        {[]engine.ListOption{engine.Cursor("pc"), engine.Prefix("p")}, "<nil>", "<nil>"},
		"bad cursor":    {[]engine.ListOption{engine.Cursor("c"), engine.Prefix("p")}, "<nil>", `cursor "c" is not from this listing`},
		"no name":       {[]engine.ListOption{engine.Cursor("\n")}, "<nil>", `cursor "\n" is not from this listing`},
		"prefix":        {[]engine.ListOption{engine.Prefix(strings.Repeat("p", 255))}, "<nil>", "<nil>"},
		"prefix beyond": {[]engine.ListOption{engine.Prefix(strings.Repeat("p", 256))}, "<nil>", "prefix of 256 bytes exceeds 255"},
		"nil":           {[]engine.ListOption{engine.Limit(1), nil}, "option 1 is nil", "option 1 is nil"},
	} {
		listing, err := engine.ListingOf(c.opts)
		expect(t, name, err, c.listed)
		paged, err := engine.PageOf(c.opts)
		expect(t, name+", paged", err, c.page)
		paged.Err, listing.Err = nil, nil
		if listing != paged || len(c.opts) == 0 && listing != (engine.Listing{Limit: 100}) {
			t.Errorf("%s: %+v and %+v", name, listing, paged)
		}
	}
}

func TestMillis(t *testing.T) {
	const most = math.MaxInt64/1000 - 1 // seconds
	for _, c := range []struct {
		at          time.Time
		floor, ceil int64
	}{
		{time.Unix(5, 0), 5000, 5000},
		{time.Unix(5, 1), 5000, 5001},
		{time.Unix(5, 999_999), 5000, 5001},
		{time.Unix(5, 1_000_000), 5001, 5001},
		{time.Unix(5, 1_000_001), 5001, 5002},
		{time.Unix(-5, 1), -5000, -4999},
		{time.Unix(most, 999_000_000), most*1000 + 999, most*1000 + 999},
		{time.Unix(most+1, 0), most * 1000, most * 1000},
		{time.Unix(-most, 0), -most * 1000, -most * 1000},
		{time.Unix(-most-1, 7_000_000), -most*1000 + 7, -most*1000 + 7},
	} {
		if floor, ceil := engine.FloorMillis(c.at), engine.CeilMillis(c.at); floor != c.floor || ceil != c.ceil {
			t.Errorf("%v: %d and %d ms, want %d and %d", c.at, floor, ceil, c.floor, c.ceil)
		}
	}
}

func TestPageIn(t *testing.T) {
	items := []string{"a", "c", "e"}
	for _, c := range []struct {
		limit        int
		cursor, want string
	}{
		{3, "", "[a c e]"}, {2, "", "[a c] c"}, {1, "", "[a] a"}, {2, "a", "[c e]"}, {1, "a", "[c] c"}, {9, "b", "[c e]"}, {9, "e", "[]"},
	} {
		page := engine.PageIn(items, engine.Listing{Limit: c.limit, Cursor: c.cursor}, func(s string) string { return s })
		expect(t, fmt.Sprint(c.limit, " after ", c.cursor), strings.TrimSpace(fmt.Sprint(page.Items, " ", page.Cursor)), c.want)
	}
}

func TestCollect(t *testing.T) {
	seq := func(err error) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			if yield(1, nil) && yield(2, nil) && err != nil {
				yield(0, err)
			}
		}
	}
	items, err := engine.Collect(seq(nil))
	expect(t, "all", fmt.Sprint(items, err), "[1 2] <nil>")
	items, err = engine.Collect(seq(errNo))
	expect(t, "with an error", fmt.Sprint(items, err), "[] no")
}

func TestMarkedContexts(t *testing.T) {
	for name, c := range map[string]struct {
		mark func(context.Context) context.Context
		is   func(context.Context) bool
	}{"lasting": {engine.Lasting, engine.IsLasting}, "lingering": {engine.Lingering, engine.Lingers}} {
		ctx := c.mark(t.Context())
		if !c.is(ctx) || c.is(t.Context()) || c.mark(ctx) != ctx {
			t.Errorf("%s: %t, before %t, marked again: %t", name, c.is(ctx), c.is(t.Context()), c.mark(ctx) != ctx)
		}
	}
	if engine.IsLasting(engine.Lingering(t.Context())) || engine.Lingers(engine.Lasting(t.Context())) {
		t.Error("one mark counts as the other")
	}
}

func TestResultOf(t *testing.T) {
	type result struct{ engine.HiddenResult }
	r := newRig(t, 1)
	hide := func(c toy.Command) engine.HiddenOp { return engine.Hide(c.Op()) }
	a, b, other := hide(addTo("a", 1)), hide(addTo("b", 2)), hide(addTo("c", 3))
	commit := func(ops ...engine.Operation) *result {
		res, err := engine.CommitHidden(t.Context(), engine.NewTxn(engine.NewRouter(r), "n", 1).Do(ops...))
		if err != nil {
			t.Fatal(err)
		}
		return &result{res}
	}
	both, twice := commit(a, b), commit(b, a, a)
	for name, c := range map[string]struct {
		op   engine.HiddenOp
		res  engine.Result
		want string
	}{
		"first": {a, both, "1 <nil>"}, "second": {b, both, "2 <nil>"}, "copy": {engine.HiddenOp(b), both, "2 <nil>"},
		"once of three":  {b, twice, "4 <nil>"},
		"twice":          {a, twice, "0 transaction: operations 1 and 2 are the same value: make an operation for each result"},
		"not in it":      {other, both, "0 transaction: the operation is not part of it"},
		"zero operation": {engine.HiddenOp{}, both, "0 operation was not made by a function of floe"},
		"no result":      {a, nil, "0 transaction: no result: it was not committed"},
		"nil result":     {a, (*result)(nil), "0 transaction: no result: it was not committed"},
	} {
		v, err := engine.ResultOf[int64](c.op, c.res)
		if got := fmt.Sprint(v, " ", err); got != c.want || err != nil && !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	_, err := engine.ResultOf[string](b, both)
	expect(t, "of another type", err, "transaction: operation 1 returned a int64, not a string")
	bad := addTo("a", 1).Op()
	bad.Decode = func([]byte) (any, error) { return nil, errNo }
	_, err = engine.CommitHidden(t.Context(), engine.NewTxn(engine.NewRouter(r), "n", 1).Do(bad))
	expect(t, "not decoded", err, "no")
	_, err = engine.NewTxn(engine.NewRouter(r), "n", 1).If(engine.HiddenCondition{}).Do(a).Commit(t.Context())
	expect(t, "zero condition", err, "transaction: condition 0: condition was not made by a function of floe")
	_, err = engine.NewTxn(engine.NewRouter(r), "n", 1).If(engine.HideCondition(addTo("a", 0).Op()), nil).Do(a).Commit(t.Context())
	expect(t, "nil condition", err, "transaction: condition 1: condition was not made by a function of floe")
	_, err = engine.NewTxn(engine.NewRouter(r), "n", 1).Do(a, nil).Commit(t.Context())
	expect(t, "nil operation", err, "transaction: operation 1: operation was not made by a function of floe")
	for name, op := range map[string]engine.Op{
		"condition": engine.OpOfCondition(engine.HideCondition(addTo("a", 7).Op())), "operation": engine.OpOf(hide(addTo("a", 7))),
	} {
		expect(t, name, fmt.Sprintf("%s %x", op.Route, op.Command.Body), fmt.Sprintf("a %x", addTo("a", 7).In("").Body))
	}
}

// Queries for TestNamespaceOf.
type (
	unexported struct {
		question
		namespace string
	}
	countedBy struct {
		question
		namespace int
		Namespace string
	}
	without struct{ question }
	byValue struct {
		*question
		Namespace string
	}
	named string
)

func (named) Machine() engine.MachineID { return engine.MachineTest }
func (named) Kind() uint8               { return 1 }
func (named) Arguments(*codec.Fields)   {}
func (named) Results(*codec.Fields)     {}

func TestNamespaceOf(t *testing.T) {
	text := named("n")
	for range 2 { // the types are known then
		for _, c := range []struct {
			q    engine.Query
			want string
		}{
			{&engine.NamespaceQuery{Name: "a"}, "a true"},
			{&engine.NamespacesQuery{Prefix: "b"}, " false"},
			{&toy.Counter{Namespace: "c", Name: "d"}, "c true"},
			{&unexported{namespace: "e"}, "e true"},
			{&countedBy{namespace: 1, Namespace: "f"}, "f true"},
			{&without{}, " false"},
			{byValue{Namespace: "g"}, " false"},
			{&text, " false"},
			{text, " false"},
		} {
			ns, ok := engine.NamespaceOf(c.q)
			expect(t, fmt.Sprintf("%T", c.q), fmt.Sprint(ns, " ", ok), c.want)
		}
	}
}
