package transport

import (
	"testing"

	"go.uber.org/goleak"

	testrig "github.com/floedb/floe/internal/test/machinetest" // this package has a type named rig
)

func TestMain(m *testing.M) {
	testrig.AtOnce(6)
	goleak.VerifyTestMain(m)
}
