package flow

import "github.com/floedb/floe/internal/document"

// Problem is a problem of a definition.
type Problem = document.Problem

// The severities of a Problem. Definitions with only warnings can run; those with errors cannot.
const (
	Warning = document.Warning
	Error   = document.Error
)
