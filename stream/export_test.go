package stream

// StartTurns makes what the sender chooses in turn the same in every run.
func StartTurns() { turn.Store(0) }
