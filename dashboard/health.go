package dashboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

const healthPath = "/health"

// stateOK is the State of a node that serves.
const stateOK = "ok"

var healthRoutes = []route{
	endpoint("GET "+healthPath, (*handler).health, "Whether the node serves: 200 and status ok, or 503 and why not."),
}

// nothing is the request of an endpoint that takes nothing.
type nothing struct{}

func (*nothing) parse(*input) {}

// healthState is the body of /health, whether it is 200 or 503.
type healthState struct {
	Status   string `json:"status"`
	ReadOnly bool   `json:"read_only,omitempty"` // the disk is full; a restart would not help, so the status stays ok
}

// notReady is the error of a node that does not serve.
type notReady struct{ status string }

func (e *notReady) Error() string { return fmt.Sprintf("node is not ready: %s", e.status) }

// Unwrap makes it 503.
func (*notReady) Unwrap() error { return engine.ErrUnavailable }

func (e *notReady) body() any { return healthState{Status: e.status} }

// health answers without touching any shard, so it works when nothing else does.
func (h *handler) health(ctx context.Context, _ nothing) (healthState, error) {
	stats, err := h.backend.Stats(ctx)
	switch {
	case errors.Is(err, engine.ErrClosed):
		return healthState{}, &notReady{"stopping"}
	case err != nil:
		return healthState{}, &notReady{"unavailable"}
	case stats.State != stateOK:
		return healthState{}, &notReady{stats.State}
	}
	return healthState{Status: stats.State, ReadOnly: stats.Disk.ReadOnly}, nil
}
