package peer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// TestDoorBeforeAttach: shards begin to work, and may have something for each other, before their node has been given to the Peer.
func TestDoorBeforeAttach(t *testing.T) {
	p := New(Config{Node: 1, Wire: testWire(), Members: testMembers, Secret: testSecret})
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Door().Query(ctx, 0, &engine.NamespaceQuery{Name: "a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("query before Attach: %v, want the deadline", err)
	}
	if _, err := p.Door().Propose(ctx, 0, engine.CreateNamespace("a", false)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrUnknownOutcome) {
		t.Errorf("command before Attach: %v, want the deadline, and a definite refusal", err)
	}
}
