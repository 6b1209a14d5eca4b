package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// reach is the state of the connections between this node and another one; guarded by node.mu.
type reach struct {
	open    bool      // the streams to it
	since   time.Time // when they were opened
	failing string    // why they are not open, "" before the first attempt
	refused string    // why its streams are refused, "" if the last one was accepted
	told    string    // logged reason why the node is unreachable or silent; "" if logged as well
	banned  string    // logged reason of its refusal
	lines   lines
}

// lines limits the log lines about one node, or about strangers, per minute, because the state
// between two nodes may change with each attempt.
type lines struct {
	began  time.Time // the minute
	count  int       // in it
	unsaid int       // changes since the last line that had none
}

const maxLines = 4

// next reports whether a line may be logged, and how many earlier changes were not.
func (l *lines) next(now time.Time) (unsaid int, ok bool) {
	if now.Sub(l.began) >= time.Minute {
		l.began, l.count = now, 0
	}
	if l.count == maxLines {
		l.unsaid++
		return 0, false
	}
	l.count++
	unsaid, l.unsaid = l.unsaid, 0
	return unsaid, true
}

// opened records that a stream to the node is open.
func (n *node) opened(s *raftStream) {
	n.foreign.Store(false)
	n.mu.Lock()
	s.open = true
	if !n.raft.open || !n.pulse.open {
		n.mu.Unlock()
		return
	}
	n.reach.open, n.reach.failing, n.reach.since = true, "", time.Now()
	n.mu.Unlock()
}

// cut records why a stream to the node is not open. It logs that once if it will last or the stream
// was open.
func (n *node) cut(s *raftStream, err error, lasting bool) {
	why := reason(err)
	n.mu.Lock()
	ended := s.open
	s.open = false
	n.reach.open, n.reach.failing = false, why
	unsaid, tell := 0, lasting && n.reach.told != why
	if tell || ended {
		var ok bool
		unsaid, ok = n.reach.lines.next(time.Now())
		tell, ended = tell && ok, ended && ok
	}
	if tell {
		n.reach.told = why
	}
	n.mu.Unlock()
	switch {
	case tell:
		n.peer.log.Warn("a node cannot be reached", "node", n.member.ID, "addr", n.member.Addr, "reason", why, "unsaid", unsaid)
	case ended:
		n.peer.log.Info("a stream to a node has ended", "node", n.member.ID, "addr", n.member.Addr, "reason", why, "unsaid", unsaid)
	}
}

// refuses records why a stream of the node is refused, and logs it once.
func (n *node) refuses(from string, err error) {
	why := reason(err)
	n.mu.Lock()
	n.reach.refused = why
	unsaid, tell := 0, n.reach.banned != why
	if tell {
		if unsaid, tell = n.reach.lines.next(time.Now()); tell {
			n.reach.banned = why
		}
	}
	n.mu.Unlock()
	if tell {
		n.peer.log.Warn("a node is refused", "node", n.member.ID, "from", from, "reason", why, "unsaid", unsaid)
	}
}

// silent is why a node counts as not alive although its stream is open. It may be unable to reach
// this one.
const silent = "no heartbeat from it"

// listen logs once if a reachable node is silent, and once when it has recovered.
func (n *node) listen() {
	n.mu.Lock()
	r := &n.reach
	heard := time.Since(n.heard) < aliveTime
	again := r.open && r.refused == "" && heard && (r.told != "" || r.banned != "")
	tell := r.open && !n.left && r.refused == "" && r.told == "" && !heard && time.Since(r.since) >= aliveTime
	unsaid := 0
	if again || tell {
		var ok bool
		unsaid, ok = r.lines.next(time.Now())
		again, tell = again && ok, tell && ok
	}
	switch {
	case again:
		r.told, r.banned = "", ""
	case tell:
		r.told = silent
	}
	n.mu.Unlock()
	switch {
	case again:
		n.peer.log.Info("a node can be reached again", "node", n.member.ID, "addr", n.member.Addr, "unsaid", unsaid)
	case tell:
		n.peer.log.Warn("a node is silent", "node", n.member.ID, "addr", n.member.Addr, "reason", silent, "unsaid", unsaid)
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

// isRefusal reports whether one of two nodes refuses the other, which only an operator can resolve.
func isRefusal(err error) bool {
	var refusal *engine.Error
	return errors.As(err, &refusal) || isFinal(err)
}

// Problem returns the reason why this node and another one cannot reach each other, or "".
func (p *Peer) Problem(id uint64) string {
	n := p.nodes[id]
	if n == nil {
		return "it is not a member of this cluster"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r := &n.reach; {
	case !r.open && r.failing != "":
		return fmt.Sprintf("it cannot be reached at %s: %s", n.member.Addr, r.failing)
	case !r.open:
		return fmt.Sprintf("it cannot be reached at %s yet", n.member.Addr)
	case n.left:
		return "it has left"
	case time.Since(n.heard) < aliveTime:
		return ""
	case r.refused != "":
		return "it is refused: " + r.refused
	}
	return silent
}
