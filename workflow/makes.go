package workflow

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

var _ engine.Maker = (*machine)(nil)

// Makes lists the commands that may execute steps and so create runs of actions. A take that waits
// for such a run goes into the same log entry. The machine of actions handles the consequences of
// the end of an action's run.
func (m *machine) Makes(cmd engine.Command, made func(engine.Made)) {
	var cause engine.Topic
	switch cmd.Kind {
	case kindStart:
		name, _, err := start.Read(cmd)
		if err != nil {
			return
		}
		cause = startCause(cmd.Namespace, string(name))
	case kindSignal:
		_, b, err := signal.Read(cmd)
		if err != nil {
			return
		}
		cause = signalCause(cmd.Namespace, b.kind)
	default:
		return
	}
	made(engine.Made{Topic: protocol.Takers(cmd.Namespace), N: 1, Cause: cause})
}

// startCause is the cause of follow-ups of a workflow's starts; signalCause is that of follow-ups
// of a type's signals.
func startCause(namespace, workflow string) engine.Topic {
	return engine.TopicOf(engine.MachineWorkflow, namespace, []byte("c"+workflow))
}

func signalCause(namespace, kind string) engine.Topic {
	return engine.TopicOf(engine.MachineWorkflow, namespace, []byte("s"+kind))
}
