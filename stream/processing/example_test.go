package processing_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// A job as a Go value: it sums the orders of each customer, and writes large sums to a separate
// stream.
func ExampleDefinition() {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	totals := processing.Definition{
		Name:    "totals",
		Sources: []processing.Source{{Name: "orders", From: processing.FromStream{Name: "orders"}}},
		Operators: []processing.Operator{
			{Name: "customer", Do: processing.KeyBy{Key: "$.customer"}},
			{Name: "sum", Do: processing.Aggregate{Function: "sum", Field: "$.amount"}},
			{Name: "large", Do: processing.Filter{Condition: "expr: value > 100"}},
		},
		Sinks: []processing.Sink{{Name: "out", To: processing.ToStream{Name: "large-totals"}}},
	}
	job, err := node.Processing("default").Submit(ctx, totals.YAML())
	if err != nil {
		log.Fatal(err)
	}
	orders := node.Stream("default")
	for _, order := range []string{`{"customer":"ann","amount":70}`, `{"customer":"bob","amount":20}`, `{"customer":"ann","amount":40}`} {
		if _, err := orders.Append(ctx, "orders", stream.Message{Payload: []byte(order)}); err != nil {
			log.Fatal(err)
		}
	}
	recs, err := orders.Read(ctx, "large-totals", stream.Wait(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Status)
	fmt.Printf("%s\n", recs[0].Payload)
	// Output:
	// RUNNING
	// {"key":"ann","value":110,"count":2}
}

// Apply can be called each time a program starts. It submits the job once; later it changes the job
// only if the definition has changed.
func ExampleStore_Apply() {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	definition := processing.Definition{
		Name:      "large",
		Sources:   []processing.Source{{Name: "orders", From: processing.FromStream{Name: "orders"}}},
		Operators: []processing.Operator{{Name: "large", Do: processing.Filter{Condition: "expr: amount > 100"}}},
		Sinks:     []processing.Sink{{Name: "out", To: processing.ToStream{Name: "large-orders"}}},
	}
	for range 2 {
		applied, err := node.Processing("default").Apply(ctx, definition.YAML())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(applied.Made, applied.Changed)
	}
	// Output:
	// true false
	// false false
}

// A function of the program serves as an operator: it parses the cents of an amount, which no
// expression does.
func ExampleFunc() {
	ctx := context.Background()
	cents := func(_ context.Context, rec processing.Record) ([]processing.Record, error) {
		units, part, found := strings.Cut(string(rec.Value), ",")
		if !found || len(part) != 2 {
			return nil, fmt.Errorf("%q is no amount", rec.Value)
		}
		rec.Value = []byte(units + part)
		return []processing.Record{rec}, nil
	}
	node, err := floe.Open(floe.Config{Funcs: map[string]processing.Func{"cents": cents}}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	definition := processing.Definition{
		Name:      "cents",
		Sources:   []processing.Source{{Name: "amounts", From: processing.FromStream{Name: "amounts"}}},
		Operators: []processing.Operator{{Name: "cents", Do: processing.Call{Func: "cents"}}},
		Sinks:     []processing.Sink{{Name: "out", To: processing.ToStream{Name: "cents"}}},
	}
	if _, err := node.Processing("default").Submit(ctx, definition.YAML()); err != nil {
		log.Fatal(err)
	}
	amounts := node.Stream("default")
	for _, amount := range []string{"a lot", "12,50"} {
		if _, err := amounts.Append(ctx, "amounts", stream.Message{Payload: []byte(amount)}); err != nil {
			log.Fatal(err)
		}
	}
	for _, name := range []string{"cents", processing.ErrorStream("cents")} {
		recs, err := amounts.Read(ctx, name, stream.Wait(time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", name, recs[0].Payload)
	}
	// Output:
	// cents: 1250
	// cents.errors: a lot
}
