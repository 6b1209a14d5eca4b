package demo

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

//go:embed definitions
var definitions embed.FS

// definition returns the definition of a workflow or job.
func definition(name string) []byte {
	b, err := definitions.ReadFile("definitions/" + name + ".yaml")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return b
}

func (s *Shop) loadFlows(ctx context.Context) error {
	store := s.db.Workflow(Main)
	older := strings.NewReplacer(`"1.3.0"`, `"1.2.0"`, "25000", "10000").Replace(string(definition("order")))
	_, err := store.Create(ctx, []byte(older))
	errs := []error{err}
	for _, name := range []string{"order", "refund", "report", "nightly", "returns"} {
		_, err := store.Create(ctx, definition(name))
		errs = append(errs, err)
	}
	for i := range 4 {
		errs = append(errs, s.refund(ctx, i, 3000*i))
	}
	return errors.Join(append(errs, store.Disable(ctx, "nightly-report"))...)
}

// refund starts the n-th refund. The customer must confirm a large one, and its time limit is too
// short for that.
func (s *Shop) refund(ctx context.Context, n, cents int) error {
	_, err := s.db.Workflow(Main).Start(ctx, "refund", fmt.Appendf(nil, `{"order":%d,"cents":%d}`, firstOrder+n, cents),
		workflow.UseID(workflow.RunID(fmt.Sprintf("refund-%d", n))))
	return err
}

// tickReturns generates items sent back by customers, and refunds.
func (s *Shop) tickReturns(ctx context.Context, r *rand.Rand, n int) error {
	var messages []stream.Message
	for range 1 + r.IntN(4) {
		o := s.newOrder(s.next - 1 - r.IntN(min(40, s.next-firstOrder)))
		body, err := json.Marshal(map[string]any{"order": o.ID, "item": o.Items[0], "why": pick(r, "too small", "broken", "not as shown")})
		if err != nil {
			return err
		}
		messages = append(messages, stream.Message{Key: o.Customer, Payload: body})
	}
	_, err := s.db.Stream(Main).AppendMany(ctx, "returns", messages)
	return errors.Join(err, s.refund(ctx, 100+n/60, 1000+r.IntN(9000)))
}
