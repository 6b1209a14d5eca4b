package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/shard"
)

// maxReplicaProblems bounds the error of Replica: the first few say what to look for.
const maxReplicaProblems = 10

// Replica returns an error that names what can not be in the log and the state of any shard of a
// node: an entry that no machine knows, a counter that is wrong, a row without its timer, a gap in
// a history. It reads everything, in whatever state the node is between two steps; what it does not
// say is whether the right things are there.
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
