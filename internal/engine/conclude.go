package engine

// Concluder is a Machine with commands that continue after their follow-ups.
type Concluder interface {
	// Conclude continues a command for which Apply called Tx.Conclude and returned a result. It
	// returns the command's result. Like Apply, it checks first and then writes. An error refuses
	// the whole command.
	Conclude(tx *Tx, cmd Command, result []byte) ([]byte, error)
}

// Conclude makes the current command continue with the machine's Conclude after its follow-ups.
// Apply calls it, for a command that is not a follow-up.
func (tx *Tx) Conclude() { tx.goesOn = true }

// conclude is the part of run that comes after the follow-ups of a command that continues.
func (tx *Tx) conclude(cmd Command, result []byte) ([]byte, error) {
	base := len(tx.follow)
	tx.Step()
	tx.enter(cmd.Machine)
	result, err := tx.x.machines[cmd.Machine].(Concluder).Conclude(tx, cmd, result)
	return result, tx.runFollowUps(base, err)
}
