package flow

import "github.com/floedb/floe/internal/document"

// Problem is something that is wrong with a definition.
type Problem = document.Problem

// The severities of a Problem: a definition with warnings can be run, one with errors can not.
const (
	Warning = document.Warning
	Error   = document.Error
)
