package stream_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var longFlag = flag.Bool("long", false, "run the random tests for a long time")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
