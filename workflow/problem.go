package workflow

import (
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/flow"
)

// DefinitionError is the error of a definition with mistakes. It matches ErrInvalid.
type DefinitionError struct{ Problems []Problem }

// maxShown limits the problems in an error's text.
const maxShown = 10

func (e *DefinitionError) Error() string {
	var b strings.Builder
	b.WriteString("workflow: the definition has mistakes")
	shown := 0
	for _, p := range e.Problems {
		if p.Severity != Error {
			continue
		}
		if shown++; shown > maxShown {
			b.WriteString("; and more")
			break
		}
		fmt.Fprintf(&b, "; line %d: %s", p.Line, p.Message)
	}
	return b.String()
}

// Unwrap returns ErrInvalid.
func (e *DefinitionError) Unwrap() error { return ErrInvalid }

func problemsError(problems []flow.Problem) error {
	return &DefinitionError{problemsOf(problems)}
}
