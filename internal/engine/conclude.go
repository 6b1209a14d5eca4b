package engine

// Concluder is a Machine with commands that go on when their follow-ups have run.
type Concluder interface {
	// Conclude goes on with a command for which Apply has called Tx.Conclude, and has returned a
	// result. What it returns is the command's result. Like Apply it checks first and then changes;
	// an error refuses the whole command.
	Conclude(tx *Tx, cmd Command, result []byte) ([]byte, error)
}

// Conclude makes the present command, which Apply is carrying out and which is not a follow-up, go
// on behind its follow-ups with the machine's Conclude.
func (tx *Tx) Conclude() { tx.goesOn = true }

// conclude is the part of run behind the follow-ups of a command that goes on.
func (tx *Tx) conclude(cmd Command, result []byte) ([]byte, error) {
	base := len(tx.follow)
	tx.Step()
	tx.enter(cmd.Machine)
	result, err := tx.x.machines[cmd.Machine].(Concluder).Conclude(tx, cmd, result)
	return result, tx.runFollowUps(base, err)
}
