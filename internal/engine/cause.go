package engine

import (
	"slices"

	"github.com/floedb/floe/internal/wait"
)

const maxGuessTakes = 8 // takes that are proposed when nothing is known of a cause

// Cause names a cause of the present command, by a topic. Other commands of the cause are expected
// to produce items on the same topics, by their follow-ups; see Made.Cause.
func (tx *Tx) Cause(c Topic) {
	if !slices.Contains(tx.causes, c) {
		tx.causes = append(tx.causes, c)
	}
}

// pullCaused is Pull for what a command of a cause may produce.
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
