package stream_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")
	longFlag = flag.Bool("long", false, "run the random tests for a long time")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
