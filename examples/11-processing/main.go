// Command 11-processing computes the revenue per region and hour with a stream-processing job. It
// reads a stream of orders, and writes a stream, keys, a queue and a time series.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

//go:embed revenue.yaml
var definition []byte

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	if err := prepare(ctx, node); err != nil {
		return err
	}
	jobs := node.Processing("shop")
	submitted, err := jobs.Submit(ctx, definition)
	if err != nil {
		return err
	}
	job, err := completed(ctx, jobs, submitted.Job)
	if err != nil {
		return err
	}
	m := job.Metrics
	fmt.Fprintf(out, "%v: %d records in, %d out, %d errors\n", job.Status, m.RecordsIn, m.RecordsOut, m.Errors)
	for _, o := range m.Operators {
		fmt.Fprintf(out, "  %-8s %3d in %3d out\n", o.Name, o.In, o.Out)
	}
	if err := results(ctx, node, out); err != nil {
		return err
	}

	wider := bytes.ReplaceAll(definition, []byte("window_size: 1h"), []byte("window_size: 2h"))
	plan, err := jobs.Plan(ctx, submitted.Job, processing.ReplaceDefinition(wider))
	fmt.Fprintf(out, "with windows of two hours: keeps %v, drops %v\n", plan.Kept, plan.Dropped)
	return err
}

// order is a record of the stream orders.
type order struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
	Test     bool   `json:"test"`
	At       int64  `json:"at"` // ms
}

// prepare stores the customers, and appends four orders for every minute of two hours.
func prepare(ctx context.Context, node *floe.Node) error {
	for name, region := range map[string]string{"ann": "north", "bob": "south"} {
		if _, err := node.KV("shop").Put(ctx, "customer:"+name, fmt.Appendf(nil, `{"region":%q}`, region)); err != nil {
			return err
		}
	}
	start := time.Date(2025, 1, 1, 8, 0, 0, 0, time.UTC)
	var messages []stream.Message
	for minute := range 120 {
		at := start.Add(time.Duration(minute) * time.Minute).UnixMilli()
		for _, o := range []order{
			{"ann", 100, false, at}, {"bob", 2 * minute, false, at}, {"ann", 999, true, at}, {"unknown", 50, false, at}} {
			payload, err := json.Marshal(o)
			if err != nil {
				return err
			}
			messages = append(messages, stream.Message{Key: o.Customer, Payload: payload})
		}
	}
	_, err := node.Stream("shop").AppendMany(ctx, "orders", messages)
	return err
}

// completed waits until the job has ended.
func completed(ctx context.Context, jobs *processing.Store, id processing.JobID) (processing.Detail, error) {
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		job, err := jobs.Get(ctx, id)
		if err != nil || job.Status != processing.Running {
			return job, err
		}
	}
}

func results(ctx context.Context, node *floe.Node, out io.Writer) error {
	records, err := node.Stream("shop").Read(ctx, "revenue")
	for _, r := range records {
		fmt.Fprintf(out, "%s\n", r.Payload)
	}
	review, queueErr := node.Queue("shop").Get(ctx, "review")
	latest, keyErr := node.KV("shop").Get(ctx, "latest:south")
	history, seriesErr := node.TS("shop").Get(ctx, "revenue")
	fmt.Fprintf(out, "%d hour to review\nlatest:south %s\n", review.Ready, latest.Value)
	fmt.Fprintf(out, "%d points of %d regions\n", history.Points, history.Series)
	return errors.Join(err, queueErr, keyErr, seriesErr)
}
