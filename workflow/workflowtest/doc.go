// Package workflowtest runs workflows in tests. Actions are functions of the test, and time
// advances at once when nothing else is left to do. As time advances, schedules tick and triggers
// start runs for records. It uses the state machine of a real node over a store in memory.
//
//	w := workflowtest.New(t)
//	w.Create(definition)
//	w.Handle("charge", func(ctx context.Context, t *action.Task) (any, error) { return nil, errors.New("declined") })
//	run := w.Run("order", `{"amount":12}`)
//	w.ExpectPath(run.ID, "_start: success", "charge: failure", "notify: success")
package workflowtest
