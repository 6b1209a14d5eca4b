package workflow

import (
	"cmp"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// childStart returns the command that starts a child.
func (s *slot) childStart(c *flow.Call, input, tok []byte) engine.Command {
	v := startBody{
		version: c.Version, source: "workflow:" + string(s.live.name()), parent: string(s.live.name()), depth: s.live.depth + 1,
		input:  input,
		notify: protocol.Notify{Machine: engine.MachineWorkflow, Command: kindChildDone, Token: tok},
	}
	return command(kindStart, c.Name, &v, (*startBody).code)
}

// childStarted decodes the reply to a childStart.
func childStarted(reply []byte) started { return must(start.Decode(reply)) }

// name returns the id of the run that was started.
func (v *started) name() RunID {
	if v.id != "" {
		return RunID(v.id)
	}
	return v.runLocation.id()
}

func (w *work) cancelChild(shard engine.ShardID, run uint64, tag uint16, reason string) {
	v := cancelBody{number{run, tag}, []byte(reason)}
	w.withdraw(shard, command(kindCancel, "", &v, (*cancelBody).code))
}

// childCompleted ends an attempt with the result of a child.
func (s *slot) childCompleted(e *protocol.End) {
	detail := e.Message
	if e.Suspect {
		detail = joined(detail, "not all of what it may have done is compensated")
	}
	s.note(event{kind: ChildCompleted, attempt: s.state.attempt, outcome: Status(e.Status).String(), detail: detail})
	s.answer(childResult(e))
}

// childResult converts the end of a child to its parent's result.
func childResult(e *protocol.End) result {
	if Status(e.Status) == Completed {
		return result{outcome: OutcomeSuccess, output: asJSON(e.Output)}
	}
	r := result{outcome: Status(e.Status).String(), code: e.Code, ambiguous: e.Suspect}
	r.message = cmp.Or(e.Message, "the child is "+r.outcome)
	if e.Output != nil {
		r.output = asJSON(e.Output)
	}
	r.refused = r.outcome == OutcomeCancelled
	return r
}
