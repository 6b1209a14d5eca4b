package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

// flow is the workflow that the rows run: three steps, each of them the action that does nothing.
const flow = "flow"

// workflows are the rows of workflows whose actions are carried out in the node's process.
func (b *bench) workflows() (rows []row) {
	for _, shards := range b.settings.shards {
		rows = append(rows, row{
			name: fmt.Sprintf("workflow/64/shards=%d", shards), against: limitL1, bar: 0.05, short: shards == 4,
			work: duel{load: b.writes(64), floe: b.flows(setup{shards: shards}), limit: b.bareFile(0)},
		})
	}
	return rows
}

// flows is floe running workflows, from their start until the caller knows the result.
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
		step := func(next string) *workflow.Step { return workflow.Call("@actions/"+task).To("success", next) }
		definition := workflow.New(flow).Start(step("second")).Step("second", step("third")).Step("third", step("flo.Completed")).Definition()
		if _, err := n.flows.Create(ctx, definition); err != nil {
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
