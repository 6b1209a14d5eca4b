package workflow

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

var _ engine.Maker = (*machine)(nil)

// Makes says which commands are followed by steps, and so make runs of actions: a take that waits
// for such a run is in the same entry. What comes of the end of an action's run is known to the
// machine of actions.
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

// startCause is the cause of what comes of starts of a workflow, signalCause that of what comes of
// signals of a type.
func startCause(namespace, workflow string) engine.Topic {
	return engine.TopicOf(engine.MachineWorkflow, namespace, []byte("c"+workflow))
}

func signalCause(namespace, kind string) engine.Topic {
	return engine.TopicOf(engine.MachineWorkflow, namespace, []byte("s"+kind))
}
