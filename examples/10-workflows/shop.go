package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

// shop is what the actions of the workflows do: here in the same program, elsewhere behind
// floe.Dial.
type shop struct {
	node  *floe.Node
	flows *workflow.Store
	mu    sync.Mutex // guards out
	out   io.Writer
}

func (s *shop) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// task is the input of all actions; each takes what it needs of it.
type task struct {
	Order string   `json:"order"`
	Item  string   `json:"item"`
	Items []string `json:"items"`
	Cents int      `json:"cents"`
	Bank  string   `json:"bank"`
	Of    string   `json:"of"`
}

// actions are what workers carry out, by name.
func (s *shop) actions() map[string]func(context.Context, task) (any, error) {
	return map[string]func(context.Context, task) (any, error){
		"reserve": func(_ context.Context, t task) (any, error) { return len(t.Items), nil },
		"release": func(_ context.Context, t task) (any, error) {
			s.say("  order %s: its items are for sale again", t.Order)
			return nil, nil
		},
		"charge-northbank": func(context.Context, task) (any, error) {
			return nil, action.Permanent(errors.New("the bank is closed"))
		},
		"charge-southbank": func(context.Context, task) (any, error) { return map[string]string{"bank": "southbank"}, nil },
		"refund": func(_ context.Context, t task) (any, error) {
			s.say("  order %s: %s gives the money back", t.Order, t.Bank)
			return nil, nil
		},
		"ship": func(_ context.Context, t task) (any, error) {
			if t.Item == "anvil" {
				return nil, action.Permanent(action.Code("too_heavy", errors.New("nobody can carry the anvil")))
			}
			return "parcel with " + t.Item, nil
		},
		"restock": func(_ context.Context, t task) (any, error) { return t.Item + " of order " + t.Order, nil },
		"report": func(ctx context.Context, t task) (any, error) {
			info, err := s.flows.Get(ctx, t.Of)
			return map[string]int64{"sold": info.Runs.Completed}, err
		},
	}
}

// register makes the actions known, which the runs of workflows invoke by name.
func (s *shop) register(ctx context.Context) error {
	for name := range s.actions() {
		if _, err := s.node.Action("shop").Register(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// work is a worker. It ends with ctx, when the handlers that run have returned.
func (s *shop) work(ctx context.Context) error {
	w := s.node.Action("shop").Worker(action.WorkerConfig{ID: "clerk-1"})
	for name, do := range s.actions() {
		action.Handle(w, name, do)
	}
	return w.Run(ctx)
}
