// Package workflowtest runs workflows in tests of programs: actions are functions of the test, and
// time passes at once when nothing else is left to do. Schedules tick, and triggers start runs for
// records, as that time passes. The machine is the one of a node, over a store in memory.
//
//	w := workflowtest.New(t)
//	w.Create(definition)
//	w.Handle("charge", func(ctx context.Context, t *action.Task) (any, error) { return nil, errors.New("declined") })
//	run := w.Run("order", `{"amount":12}`)
//	w.ExpectPath(run.ID, "_start: success", "charge: failure", "notify: success")
package workflowtest
