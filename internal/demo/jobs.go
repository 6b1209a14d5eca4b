package demo

import (
	"context"
	"errors"
	"strings"
)

// loadJobs submits jobs. Some run, one is stopped, one is cancelled, and one fails at its first
// record.
func (s *Shop) loadJobs(ctx context.Context) error {
	store := s.db.Processing(Main)
	for _, name := range []string{"large", "revenue", "enrich", "tax"} {
		if _, err := store.Submit(ctx, definition(name)); err != nil {
			return err
		}
	}
	old, err := store.Submit(ctx, sibling("large-orders-old"))
	trial, err2 := store.Submit(ctx, sibling("large-orders-trial"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	point, err := store.Savepoints(old.Job).Create(ctx)
	if err == nil {
		_, err = store.AwaitSavepoint(ctx, old.Job, point)
	}
	_, err2 = store.Stop(ctx, old.Job)
	_, err3 := store.Cancel(ctx, trial.Job)
	return errors.Join(err, err2, err3)
}

// sibling returns the pipeline of large orders with another name and its own sinks.
func sibling(name string) []byte {
	return []byte(strings.NewReplacer("name: large-orders\n", "name: "+name+"\n", "name: huge-orders", "name: "+name+"-huge",
		"name: review", "name: "+name+"-review").Replace(string(definition("large"))))
}
