package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReachIsToldOnce: a node that is refused or unreachable, for reasons that change with each
// attempt, is logged with a few lines a minute. The next line says how many changes had none. Each
// attempt used to have a line.
func TestReachIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		p := New(Config{Node: 1, Members: testMembers, Wire: testWire(), Secret: testSecret,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		defer p.Close()
		lines := func() (n int) {
			n = strings.Count(log.String(), "\n")
			log.Reset()
			return n
		}
		n := p.nodes[2]
		reasons := []error{errors.New("one reason"), errors.New("another reason")}
		for range 10 {
			n.refuses("x", reasons[0])
			n.cut(&n.raft, reasons[1], false) // soon retried
		}
		for range 10 {
			n.cut(&n.raft, reasons[1], true)
			n.refuses("x", reasons[0])
		}
		if got := lines(); got != 2 {
			t.Errorf("%d lines about a node that is refused and cannot be reached, want 2", got)
		}
		wait(t.Context(), time.Minute)
		for i := range 600 {
			n.refuses("x", reasons[i%2])
			n.cut(&n.raft, reasons[i%2], true)
			wait(t.Context(), 100*time.Millisecond)
		}
		if got := lines(); got != maxLines {
			t.Errorf("%d lines in a minute of reasons that alternate, want %d", got, maxLines)
		}
		n.refuses("x", errors.New("a third reason"))
		if got := log.String(); !strings.Contains(got, "a third reason") || strings.Contains(got, "unsaid=0") {
			t.Errorf("a minute later the log says %s, want the reason and how much had no line", got)
		}
		wait(t.Context(), time.Minute)
		log.Reset()
		n.enter("run")
		n.seen()
		n.opened(&n.raft)
		n.opened(&n.pulse)
		for range 3 {
			n.listen()
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "can be reached again") {
			t.Errorf("when all is well the log says %s, want one line", got)
		}
	})
}

// TestSilentNodeIsTold: a node whose address never answers is logged after some attempts, however
// long each of them takes.
func TestSilentNodeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
			wait(ctx, time.Minute)
			return nil, errors.New("no answer")
		}
		p := New(Config{Node: 1, Members: testMembers, Wire: testWire(), Secret: testSecret,
			Logger: slog.New(slog.NewTextHandler(log, nil)), dial: hang})
		p.spawn(p.nodes[2].raft.run)
		wait(t.Context(), 10*time.Minute)
		p.Close()
		wait(t.Context(), time.Minute) // the dial in progress outlasts it
		if got := log.String(); !strings.Contains(got, "node=2") || !strings.Contains(got, "cannot be reached") {
			t.Errorf("after ten minutes of silence the log says %q", got)
		}
	})
}

// TestStrangersInTheLog: strangers whose streams are refused or ended are logged with a few lines a
// minute, and the next line says how many had none.
func TestStrangersInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		p := New(Config{Node: 1, Members: testMembers, Wire: testWire(), Secret: testSecret,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		defer p.Close()
		r := &http.Request{RemoteAddr: "192.0.2.7:1", URL: &url.URL{Path: pathDoor}}
		for range 500 {
			p.tellRefusal(r, nil, errSecret)
			p.warnOf("ended a stream", r, errFrame)
		}
		if got := strings.Count(log.String(), "\n"); got != maxLines {
			t.Errorf("%d lines about 1,000 streams in a minute, want %d", got, maxLines)
		}
		log.Reset()
		wait(t.Context(), time.Minute)
		p.tellRefusal(r, nil, errSecret)
		if got := log.String(); !strings.Contains(got, "from=192.0.2.7:1") || !strings.Contains(got, "unsaid=996") {
			t.Errorf("a minute later the log says %s, want how many had no line", got)
		}
	})
}
