package workflow

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// invocation returns the command that invokes an action.
func (s *slot) invocation(c *flow.Call, input, tok []byte) engine.Command {
	v := protocol.Invoke{
		Name: c.Name, Input: input, Priority: action.DefaultPriority, Timeout: c.Timeout, IdempotencyKey: s.key(), Repeated: true,
		Source: "workflow:" + string(s.live.name()),
		Notify: protocol.Notify{Machine: engine.MachineWorkflow, Command: kindDone, Token: tok},
	}
	if c.Retry.Attempts > 0 || c.Poll != nil || s.planned() {
		v.MaxAttempts = 1
	}
	return engine.Command{Machine: engine.MachineAction, Kind: protocol.KindInvoke, Body: encode(nil, &v, (*protocol.Invoke).Code)}
}

// key returns the idempotency key of the call, the same for all attempts.
func (s *slot) key() string {
	l, i := s.live, ""
	visit, step := l.visit, l.def.Steps[l.step].Name
	if l.edited != 0 {
		visit = l.edited
	}
	switch {
	case s.undo != nil:
		visit, step, i = l.ending.visit, l.def.Steps[s.undo.step].Name, "/compensate"
	case s.branch != nil:
		i = fmt.Sprintf("[%d]", s.branch.index)
	}
	key := fmt.Sprintf("%s/%s#%d%s", l.name(), step, visit, i)
	if len(key) <= action.MaxKeyBytes {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s.../%x#%d%s", strings.ToValidUTF8(key[:100], ""), sum[:16], visit, i)
}

func (w *work) cancelRun(shard engine.ShardID, ref protocol.Ref, reason string) {
	v := protocol.Cancel{Ref: ref, Reason: reason}
	w.withdraw(shard, engine.Command{Machine: engine.MachineAction, Kind: protocol.KindCancel,
		Body: encode(nil, &v, (*protocol.Cancel).Code)})
}

// actionCompleted ends an attempt with the result of an action's run.
func (s *slot) actionCompleted(e *protocol.End) {
	r := actionResult(e)
	detail := r.message
	if e.Suspect {
		detail = joined(detail, "an earlier attempt timed out or was lost")
	}
	s.note(event{kind: ActionCompleted, attempt: s.state.attempt, outcome: r.outcome, detail: detail})
	s.answer(r)
}

// actionResult converts the end of an action's run to the caller's result.
func actionResult(e *protocol.End) result {
	r := result{outcome: e.Outcome, code: e.Code, message: e.Message, refused: e.Refused, ambiguous: e.Suspect}
	switch action.Status(e.Status) {
	case action.Completed:
		r.code, r.message, r.output = "", "", asJSON(e.Output)
		if r.outcome == OutcomeFailure {
			r.message = "the action has said so"
		}
	case action.TimedOut:
		r.outcome, r.ambiguous = OutcomeTimeout, true
		r.message = cmp.Or(r.message, "the action has timed out")
	case action.Cancelled:
		r.outcome, r.code, r.ambiguous, r.refused = OutcomeCancelled, OutcomeCancelled, true, true
		r.message = "the action's run was cancelled"
		if e.Message != "" {
			r.message += ": " + e.Message
		}
	default:
		r.outcome = OutcomeFailure
		if e.Code == action.CodeOutputTooLarge {
			r.outcome = OutcomeOutputTooLarge
		}
		r.ambiguous = r.ambiguous || e.Code == action.CodeWorkerLost || resultLost(e.Code)
		r.message = cmp.Or(r.message, "the action has failed")
	}
	return r
}

// resultLost reports whether a code means that a handler has done its work and only its result
// could not be stored.
func resultLost(code string) bool {
	return code == action.CodeOutputTooLarge || code == action.CodeBadOutput
}
