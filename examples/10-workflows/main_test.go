package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWorkflows(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	const want = `completed: _start success, charge success, approve skipped, ship success, {"order":"1","bank":"southbank","parcels":["parcel with cup","parcel with saucer"]}
  order 2: southbank gives the money back
  order 2: its items are for sale again
failed: _start success, charge success, approve skipped, ship failure
  step "ship": outcome "failure": branch 1: outcome "failure" at attempt 1: nobody can carry the anvil
completed: _start success, charge success, approve success, ship success, {"order":"3","bank":"southbank","parcels":["parcel with lamp"]}
  order 4: southbank gives the money back
  order 4: its items are for sale again
failed: _start success, charge success, approve rejected, {"order":"4","by":"eve"}
  step "approve": outcome "rejected" led to Rejected
  order 6: southbank gives the money back
  order 6: its items are for sale again
failed: _start success, charge success, approve timeout, {"order":"6","by":null}
  step "approve": outcome "timeout": no signal "approval" after 50 ms
completed: _start success, charge success, approve success, ship success, {"order":"5","bank":"southbank","parcels":["parcel with bed"]}
completed: _start success, ["cup of order 1","lamp of order 3"]
completed: _start success, {"sold":3}
order 2.0.0: 3 completed, 3 failed
report 1.0.0: 1 completed, 0 failed
returns 1.0.0: 1 completed, 0 failed
bob's: version 2.0.0, failed
bob's: version 1.0.0, completed
bob's: version 1.0.0, failed
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
