package main

import (
	"testing"

	"github.com/floedb/floe/internal/test/lesson"
)

func TestProcessing(t *testing.T) { lesson.Run(t, run) }
