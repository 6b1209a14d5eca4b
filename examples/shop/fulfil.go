package main

import (
	"context"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
)

// task is the input of all actions; each uses some of its fields. See order.yaml.
type task struct {
	Order    string `json:"order"`
	Cents    cents  `json:"cents"`
	Card     string `json:"card"`
	Provider string `json:"provider"`
	Decision string `json:"decision"` // outcome of the step approve
}

// actions are what the steps of the workflow call, by name.
func (s *shop) actions() map[string]func(context.Context, task) (any, error) {
	return map[string]func(context.Context, task) (any, error){
		"accept":           s.accept,
		"charge-cardhouse": cardhouse.charge,
		"charge-paybridge": paybridge.charge,
		"refund":           s.refund,
		"settle":           s.settle,
		"cancel":           s.cancel,
	}
}

// work executes actions until ctx ends. The workers of all nodes share them.
func (s *shop) work(ctx context.Context) error {
	w := s.db.Action(namespace).Worker(action.WorkerConfig{Concurrency: 8, OnError: func(t *action.Task, err error) {
		if t == nil {
			s.log.Warn("worker", "error", err)
			return
		}
		s.log.Info("attempt failed", "action", t.Action, "attempt", t.Attempt, "error", err)
	}})
	for name, do := range s.actions() {
		action.Handle(w, name, do)
	}
	return w.Run(ctx)
}

// accept confirms an order by mail.
func (s *shop) accept(ctx context.Context, t task) (any, error) {
	o, err := s.orders().Get(ctx, orderKey(t.Order))
	if err != nil {
		return nil, err
	}
	_, err = s.db.Txn(namespace).
		Do(s.mails().EnqueueOp(mailQueue, mailOf(o)), action.CompleteOp(action.TaskOf(ctx), nil)).
		Commit(ctx)
	return nil, err
}

// settle ends a paid order.
func (s *shop) settle(ctx context.Context, t task) (any, error) {
	return nil, s.end(ctx, t.Order, func(o *order) []floe.Op {
		o.Status, o.Provider = paid, t.Provider
		return nil
	})
}

// cancel undoes the checkout: the goods return to the stock.
func (s *shop) cancel(ctx context.Context, t task) (any, error) {
	return nil, s.end(ctx, t.Order, func(o *order) (returned []floe.Op) {
		o.Status, o.Reason = cancelled, "the payment was declined"
		if t.Decision != "success" && t.Decision != "skipped" {
			o.Reason = "it was not approved"
		}
		for _, l := range o.Lines {
			returned = append(returned, kv.IncrOp(stockKey(l.SKU), int64(l.Quantity)))
		}
		return returned
	})
}

// end changes an order for the last time. The change, its event, the mail and the completion of the
// action are one transaction: however often the action is attempted, they happen once.
func (s *shop) end(ctx context.Context, id string, change func(*order) []floe.Op) error {
	e, err := s.orders().Entry(ctx, orderKey(id))
	if err != nil {
		return err
	}
	o := e.Value
	effects := change(&o)
	appended, err := eventOp(o)
	if err != nil {
		return err
	}
	_, err = s.db.Txn(namespace).
		Do(s.orders().PutOp(orderKey(id), o, kv.IfRevision(e.Revision)), appended, s.mails().EnqueueOp(mailQueue, mailOf(o))).
		Do(effects...).
		Do(action.CompleteOp(action.TaskOf(ctx), nil)).
		Commit(ctx)
	return err
}
