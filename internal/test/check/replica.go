package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/shard"
)

// maxReplicaProblems bounds the error of Replica; the first few problems suffice to start with.
const maxReplicaProblems = 10

// Replica returns an error that lists impossible contents of the log and the state of any shard of
// a node: an entry unknown to all machines, a wrong counter, a row without its timer, a gap in a
// history. It reads everything, in any state of the node between two steps. It does not check that
// the right data is there.
func Replica(s *shard.Stepper) error {
	var problems []error
	more := 0
	_, err := s.Verify(context.Background(), func(problem string) {
		if len(problems) < maxReplicaProblems {
			problems = append(problems, errors.New(problem))
		} else {
			more++
		}
	})
	if more > 0 {
		problems = append(problems, fmt.Errorf("and %d more problems", more))
	}
	return errors.Join(append(problems, err)...)
}
