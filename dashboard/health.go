package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

const healthPath = "/health"

var healthRoutes = []route{
	endpoint("GET "+healthPath, (*handler).health, "Get the health of the node: 200 with status ok, or 503 with the reason."),
}

// nothing is the request of an endpoint without parameters.
type nothing struct{}

func (*nothing) parse(*input) {}

// healthState is the body of /health, with status 200 or 503.
type healthState struct {
	Status   string `json:"status"`
	ReadOnly bool   `json:"read_only,omitempty"` // the disk is full; a restart would not help, so the status stays ok
	Problem  string `json:"problem,omitempty"`   // of this node: a stopped shard, or its clock
}

// notReady is the error of a node that does not serve.
type notReady struct{ status, problem string }

func (e *notReady) Error() string { return fmt.Sprintf("node is not ready: %s", e.status) }

// Unwrap maps it to status 503.
func (*notReady) Unwrap() error { return engine.ErrUnavailable }

func (e *notReady) body() any { return healthState{Status: e.status, Problem: e.problem} }

// health does not access any shard, so it works when nothing else does.
func (h *handler) health(ctx context.Context, _ nothing) (healthState, error) {
	stats, err := h.backend.Stats(ctx)
	switch {
	case errors.Is(err, engine.ErrClosed):
		return healthState{}, &notReady{status: "stopping"}
	case err != nil:
		return healthState{}, &notReady{status: "unavailable"}
	case stats.State != floe.StateOK:
		return healthState{}, &notReady{string(stats.State), problemOf(&stats)}
	}
	return healthState{Status: string(stats.State), ReadOnly: stats.Disk.ReadOnly, Problem: problemOf(&stats)}, nil
}

// problemOf returns the problem that a node reports about itself. It omits the reason of a failure,
// because that contains file names and everyone can read /health.
func problemOf(s *floe.Stats) string {
	for _, n := range s.Nodes {
		if n.ID == strconv.FormatUint(s.Node, 10) && s.State != floe.StateFailed {
			return n.Problem
		}
	}
	return ""
}
