package main

import (
	"testing"

	"github.com/floedb/floe/internal/test/lesson"
)

func TestQueues(t *testing.T) { lesson.Run(t, run) }
