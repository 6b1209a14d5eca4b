package transport

import (
	"testing"

	"go.uber.org/goleak"

	testrig "github.com/floedb/floe/internal/test/machinetest" // a type of this package is called rig
)

func TestMain(m *testing.M) {
	testrig.AtOnce(6)
	goleak.VerifyTestMain(m)
}
