package engine

import (
	"slices"

	"github.com/floedb/floe/internal/wait"
)

const maxGuessTakes = 8 // takes proposed if nothing is known about a cause

// Cause names a cause of the current command, as a topic. The follow-ups of other commands with the
// same cause are expected to produce items on the same topics; see Made.Cause.
func (tx *Tx) Cause(c Topic) {
	if !slices.Contains(tx.causes, c) {
		tx.causes = append(tx.causes, c)
	}
}

// pullCaused is Pull for the items that a command with a cause may produce.
func (x *Executor) pullCaused(pulled []*wait.Claim, m Made, limit int) []*wait.Claim {
	topics, known := x.predictor.Topics(m.Cause)
	for _, t := range topics {
		pulled = x.hub.PullProduced(pulled, wait.Wakeup{Topic: t, N: m.N}, limit-len(pulled))
	}
	if !known {
		pulled = x.hub.PullProduced(pulled, wait.Wakeup{Topic: m.Topic, N: 1, Within: true}, min(limit, maxGuessTakes))
	}
	return pulled
}
