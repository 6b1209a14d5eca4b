package processing_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// A job as a value: orders of a customer are summed up, and large sums go to a stream of their own.
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
