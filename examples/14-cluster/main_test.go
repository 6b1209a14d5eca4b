package main

import (
	"testing"

	"github.com/floedb/floe/internal/test/lesson"
)

func TestCluster(t *testing.T) { lesson.Run(t, run) }
