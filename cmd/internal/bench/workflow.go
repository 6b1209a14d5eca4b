package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/cmd/internal/stress"
	"github.com/floedb/floe/workflow"
)

// flow is the workflow that the rows run: three steps that each run a no-op action.
const flow = "flow"

// workflows returns the rows of workflows. Their actions run in the node's process.
func (b *bench) workflows() (rows []row) {
	for _, shards := range b.settings.shards {
		rows = append(rows, row{
			name: fmt.Sprintf("workflow/64/shards=%d", shards), against: limitL1, bar: 0.05, short: shards == 4,
			work: duel{load: b.writes(64), floe: b.flows(setup{shards: shards}), limit: b.bareFile(0)},
		})
	}
	return append(rows, row{
		name: "workflow/step/1", bar: 2.5, unit: "L5", absolute: true, work: latency{"a step begins behind the one before",
			(*bench).stepAlone},
	})
}

// flows returns floe's side: workflow runs, from the start until the caller has the result.
func (b *bench) flows(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		stop, err := n.work(func(context.Context, *action.Task) (any, error) { return nil, nil })
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		ctx := context.Background()
		if _, err := n.flows.Create(ctx, threeSteps()); err != nil {
			return nil, errors.Join(err, stop(), n.close())
		}
		return &subject{
			ops: 1, bytes: valueBytes, close: func() error { return errors.Join(stop(), n.close()) },
			call: func(w *worker) error {
				run, err := n.flows.StartAndWait(ctx, flow, jsonOf(b.values.cut(w.rng)))
				if err == nil && run.Status != workflow.Completed {
					err = fmt.Errorf("run %s is %v: %s", run.ID, run.Status, run.Error)
				}
				return err
			},
		}, nil
	}
}

func threeSteps() []byte {
	step := func(name, next string) workflow.Step {
		return workflow.Step{Name: name, Do: workflow.Call{Target: "@actions/" + task},
			Transitions: []workflow.Transition{{On: "success", To: next}}}
	}
	return workflow.Definition{Name: flow, Start: step("", "second"),
		Steps: []workflow.Step{step("second", "third"), step("third", workflow.TerminalCompleted)}}.YAML()
}

// stepAlone runs one workflow after the other. It measures from the return of a step's handler to
// the call of the next step's handler.
func (b *bench) stepAlone(last time.Duration) (f figures, err error) {
	dir, err := os.MkdirTemp(b.dir, "step-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	n, err := setup{shards: 4}.open(dir)
	if err != nil {
		return f, err
	}
	begun, returned := make(chan time.Time, 3), make(chan time.Time, 3)
	stop, err := n.work(func(context.Context, *action.Task) (any, error) {
		begun <- time.Now()
		returned <- time.Now()
		return nil, nil
	})
	if err != nil {
		return f, errors.Join(err, n.close())
	}
	ctx, count, latency := context.Background(), 0, new(stress.Histogram)
	_, err = n.flows.Create(ctx, threeSteps())
	for start := time.Now(); err == nil && (count == 0 || time.Since(start) < last); count += 2 {
		if _, err = n.flows.StartAndWait(ctx, flow, nil); err != nil {
			break
		}
		<-begun
		for range 2 {
			latency.Add((<-begun).Sub(<-returned))
		}
		<-returned
	}
	return figures{rate: float64(count) / last.Seconds(), p50: latency.Quantile(0.5), p99: latency.Quantile(0.99)}, errors.Join(err, stop(),
		n.close())
}
