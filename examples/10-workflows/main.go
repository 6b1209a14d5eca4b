// Command workflows takes orders through their life: paid for with one of two banks, approved by a
// person, sent in parcels, and undone when that fails.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// The definitions: of an order, of a job of every morning, and of what customers send back.
//
//go:embed order.yaml
var orderDefinition string

//go:embed report.yaml
var reportDefinition []byte

//go:embed returns.yaml
var returnsDefinition []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
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
	s := &shop{node: node, flows: node.Workflow("shop"), out: out}
	if err := s.register(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.work(working) }()
	for _, part := range []func(context.Context) error{s.trade, s.approve, s.update, s.jobs, s.figures} {
		if err = part(ctx); err != nil {
			break
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// order is the input of the workflow.
type order struct {
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Cents    int      `json:"cents"`
	Items    []string `json:"items"`
}

// start starts the run of an order. However often that is done, it is one run.
func (s *shop) start(ctx context.Context, o order) (workflow.RunID, error) {
	input, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	started, err := s.flows.Start(ctx, "order", input, workflow.IdempotencyKey("order "+o.ID))
	return started.Run, err
}

// tell prints what has become of a run.
func (s *shop) tell(ctx context.Context, id workflow.RunID) error {
	r, err := s.flows.Wait(ctx, id)
	if err != nil {
		return err
	}
	var outcomes []string
	for _, step := range r.Steps {
		outcomes = append(outcomes, step.Step+" "+step.Outcome)
	}
	if r.Output != nil {
		outcomes = append(outcomes, string(r.Output))
	}
	s.say("%s: %s", r.Status, strings.Join(outcomes, ", "))
	if r.Error != "" {
		s.say("  %s", r.Error)
	}
	return nil
}

// trade makes the workflow known and has two small orders carried out: nobody can send the anvil.
func (s *shop) trade(ctx context.Context) error {
	if _, err := s.flows.Create(ctx, []byte(orderDefinition)); err != nil {
		return err
	}
	for _, o := range []order{{"1", "ada", 1200, []string{"cup", "saucer"}}, {"2", "bob", 800, []string{"spoon", "anvil"}}} {
		id, err := s.start(ctx, o)
		if err != nil {
			return err
		}
		if err := s.tell(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// approve has two large orders decided on, by a signal each.
func (s *shop) approve(ctx context.Context) error {
	for _, d := range []struct {
		order
		decision string
	}{
		{order{"3", "cyn", 25000, []string{"lamp"}}, `{"by":"eve"}`},
		{order{"4", "ada", 99000, []string{"sofa"}}, `{"by":"eve","outcome":"rejected"}`},
	} {
		id, err := s.start(ctx, d.order)
		if err != nil {
			return err
		}
		if _, err := s.flows.Signal(ctx, id, "approval", []byte(d.decision)); err != nil {
			return err
		}
		if err := s.tell(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// update changes the workflow while a run of it waits, which keeps the definition that it has. Runs
// from now on wait for a moment only.
func (s *shop) update(ctx context.Context) error {
	patient, err := s.start(ctx, order{"5", "bob", 10000, []string{"bed"}})
	if err != nil {
		return err
	}
	impatient := strings.NewReplacer(`"1.0.0"`, `"2.0.0"`, "timeoutMs: 3600000", "timeoutMs: 50").Replace(orderDefinition)
	if _, err := s.flows.Create(ctx, []byte(impatient)); err != nil {
		return err
	}
	hasty, err := s.start(ctx, order{"6", "bob", 10000, []string{"desk"}})
	if err != nil {
		return err
	}
	if err := s.tell(ctx, hasty); err != nil {
		return err
	}
	if _, err := s.flows.Signal(ctx, patient, "approval", []byte(`{"by":"eve"}`)); err != nil {
		return err
	}
	return s.tell(ctx, patient)
}

// jobs runs the two workflows without a waiting caller. Two records of a stream start one of them.
// The other has a schedule, and can be started by hand too.
func (s *shop) jobs(ctx context.Context) error {
	for _, definition := range [][]byte{reportDefinition, returnsDefinition} {
		if _, err := s.flows.Create(ctx, definition); err != nil {
			return err
		}
	}
	_, err := s.node.Stream("shop").AppendMany(ctx, "returns", []stream.Message{
		{Key: "ada", Payload: []byte(`{"order":"1","item":"cup"}`)}, {Key: "cyn", Payload: []byte(`{"order":"3","item":"lamp"}`)},
	})
	if err != nil {
		return err
	}
	triggered, err := s.firstRun(ctx, "returns")
	if err != nil {
		return err
	}
	if err := s.tell(ctx, triggered); err != nil {
		return err
	}
	started, err := s.flows.Start(ctx, "report", []byte(`{"of":"order"}`))
	if err != nil {
		return err
	}
	return s.tell(ctx, started.Run)
}

// firstRun waits for a run of a workflow that something else starts.
func (s *shop) firstRun(ctx context.Context, name string) (workflow.RunID, error) {
	for {
		page, err := s.flows.Runs().Page(ctx, workflow.Of(name))
		if err != nil {
			return "", err
		}
		if len(page.Items) > 0 {
			return page.Items[0].ID, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// figures prints what has become of the runs of all workflows, and the orders of one customer, the
// newest first.
func (s *shop) figures(ctx context.Context) error {
	for info, err := range s.flows.All(ctx) {
		if err != nil {
			return err
		}
		s.say("%s %s: %d completed, %d failed", info.Name, info.Version, info.Runs.Completed, info.Runs.Failed)
	}
	for r, err := range s.flows.Runs().All(ctx, workflow.Has("customer", "bob")) {
		if err != nil {
			return err
		}
		s.say("bob's: version %s, %s", r.Version, r.Status)
	}
	return nil
}
