// Package roster is the list of workers of a namespace, whatever they work on: who they are, whether they are alive, how much they have, and what has become of it.
// Its rows and commands are of engine.MachineAction; package action hands over to it what is about workers.
package roster

import "github.com/floedb/floe/internal/engine"

// Kinds of commands of engine.MachineAction.
const (
	KindJoin  uint8 = 12 // a worker registers, or says something else of itself
	KindLeave uint8 = 13 // a worker is gone
	KindNote  uint8 = 14 // the leader keeps what workers have reported to it
)

// CheckID returns ErrInvalid for what is no id of a worker.
func CheckID(id string) error { return engine.CheckName("worker", id) }

// Admit checks a command of a user in another process.
func Admit(cmd engine.Command) error {
	return engine.Errorf(engine.ErrInvalid, "unknown command: machine %d kind %d", cmd.Machine, cmd.Kind)
}
