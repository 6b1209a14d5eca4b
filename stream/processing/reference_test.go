package processing_test

import (
	"testing"

	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/test/reference"
)

// TestReference: docs/reference/processing.md agrees with the parsers' tables.
func TestReference(t *testing.T) { reference.Check(t, "processing.md", pipeline.Reference()) }
