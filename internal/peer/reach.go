package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// reach is what a node knows of the ways between itself and another one; guarded by node.mu.
type reach struct {
	open    bool      // the streams to it
	since   time.Time // when they were opened
	failing string    // why they are not, "" before that was tried
	refused string    // why no stream of it is let in, "" if the last one was
	told    string    // the last of these that was logged
}

// opened notes that a stream to the node is open.
func (n *node) opened(s *raftStream) {
	n.mu.Lock()
	s.open = true
	if !n.raft.open || !n.pulse.open {
		n.mu.Unlock()
		return
	}
	n.reach.open, n.reach.failing, n.reach.since = true, "", time.Now()
	again := n.reach.told != "" && n.reach.refused == ""
	if again {
		n.reach.told = ""
	}
	n.mu.Unlock()
	if again {
		n.peer.log.Info("a node can be reached again", "node", n.member.ID, "addr", n.member.Addr)
	}
}

// cut notes why a stream to the node is not open, and tells it once if that will last.
func (n *node) cut(s *raftStream, err error, lasting bool) {
	why := reason(err)
	n.mu.Lock()
	s.open = false
	n.reach.open, n.reach.failing = false, why
	tell := lasting && n.reach.told != why
	if tell {
		n.reach.told = why
	}
	n.mu.Unlock()
	if tell {
		n.peer.log.Warn("a node can not be reached", "node", n.member.ID, "addr", n.member.Addr, "reason", why)
	}
}

// refuses notes why a stream of the node is not let in, and tells it once.
func (n *node) refuses(from string, err error) {
	why := reason(err)
	n.mu.Lock()
	tell := n.reach.refused != why
	n.reach.refused = why
	if tell {
		n.reach.told = why
	}
	n.mu.Unlock()
	if tell {
		n.peer.log.Warn("a node is refused", "node", n.member.ID, "from", from, "reason", why)
	}
}

// silent is why a node counts as not alive although its stream is open: it may not know how to reach this one.
const silent = "nothing is heard of it"

// listen tells once if nothing is heard of a node that can be reached.
func (n *node) listen() {
	n.mu.Lock()
	tell := n.reach.open && !n.left && n.reach.refused == "" && n.reach.told == "" && time.Since(n.heard) >= aliveTime && time.Since(n.reach.since) >= aliveTime
	if tell {
		n.reach.told = silent
	}
	n.mu.Unlock()
	if tell {
		n.peer.log.Warn("a node can not be heard", "node", n.member.ID, "addr", n.member.Addr, "reason", silent)
	}
}

// reason is an error in a form that does not change from one attempt to the next.
func reason(err error) string {
	err = plain(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = errSilent
	case errors.Is(err, errEnded):
		err = errors.New("the connection has ended")
	}
	return err.Error()
}

// isRefusal reports whether one of two nodes does not want to have to do with the other: that does not pass by itself.
func isRefusal(err error) bool {
	var refusal *engine.Error
	return errors.As(err, &refusal) || isFinal(err)
}

// Problem returns what keeps this node and another one from reaching each other, "" if nothing does.
func (p *Peer) Problem(id uint64) string {
	n := p.nodes[id]
	if n == nil {
		return "it is no member of this cluster"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r := &n.reach; {
	case !r.open && r.failing != "":
		return fmt.Sprintf("it can not be reached at %s: %s", n.member.Addr, r.failing)
	case !r.open:
		return fmt.Sprintf("it can not be reached at %s yet", n.member.Addr)
	case n.left:
		return "it has left"
	case time.Since(n.heard) < aliveTime:
		return ""
	case r.refused != "":
		return "it is refused: " + r.refused
	}
	return silent
}
