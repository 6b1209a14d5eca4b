package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// moment is the time at which a child is killed.
type moment int

const (
	atStart     moment = iota // before or just after its first instruction
	inOpen                    // while it opens, which mostly means replaying
	atFirstAck                // as soon as it has acknowledged one transaction
	inWrites                  // under load
	inFlushes                 // under load with tiny limits: constant flushes, compactions and truncation
	inClose                   // while it closes
	momentCount int    = iota

	whenFull = moment(momentCount) // some time after a write was refused because the disk is full
)

func (m moment) String() string {
	return [...]string{"start", "open", "first ack", "writes", "flushes", "close", "full disk"}[m]
}

// said is a line of a child.
type said struct {
	what     string
	w, n     int
	revision uint64
	name     string
}

// life is the output of a child until its end, in order.
type life []said

// has reports whether the child has reported an event.
func (l life) has(what string) bool {
	for _, s := range l {
		if s.what == what {
			return true
		}
	}
	return false
}

// hit reports whether the child died at the intended moment.
func (l life) hit(m moment) bool {
	switch m {
	case atStart:
		return !l.has(saysOpening)
	case inOpen:
		return l.has(saysOpening) && !l.has(saysOpen)
	case atFirstAck:
		return l.has(saysAck)
	case inClose:
		return l.has(saysClosing) && !l.has(saysClosed)
	}
	return l.has(saysAck) && !l.has(saysClosing)
}

// parent runs children and kills them.
type parent struct {
	t       *testing.T
	rng     *rand.Rand
	writing time.Duration // maximum time of a child under load

	starting time.Duration // durations of the last runs, to hit these phases
	opening  time.Duration
	closing  time.Duration
}

// kill runs a child until the given moment and returns its output. The child is dead then.
func (p *parent) kill(o order, m moment) life {
	p.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	within := func(d time.Duration, f func() error) {
		time.AfterFunc(time.Duration(p.rng.Int64N(int64(d))), func() { _ = f() })
	}
	if m == atStart {
		within(p.starting*3/4+time.Millisecond, cmd.Process.Kill)
	}
	l := p.listen(out, func(s said, l life) {
		took := time.Since(started)
		switch {
		case s.what == saysOpening:
			p.starting, started = took, time.Now()
			if m == inOpen {
				within(p.opening*3/4+time.Millisecond, cmd.Process.Kill)
			}
		case s.what == saysOpen:
			p.opening = took
			switch m {
			case inWrites, inFlushes, atStart, inOpen:
				within(p.writing, cmd.Process.Kill)
			case inClose:
				within(50*time.Millisecond, in.Close)
			}
		case s.what == saysAck && m == atFirstAck:
			_ = cmd.Process.Kill()
		case s.what == saysClosing && m == whenFull:
			within(100*time.Millisecond, cmd.Process.Kill)
		case s.what == saysClosing:
			started = time.Now()
			within(p.closing+time.Millisecond, cmd.Process.Kill)
		case s.what == saysClosed:
			p.closing = took
		}
	})
	_, _ = io.Copy(io.Discard, out)
	// It exits on its own only if closing was faster than the kill.
	if err := cmd.Wait(); err == nil && !l.has(saysClosed) {
		p.t.Fatal("the child ended by itself")
	}
	return l
}

// listen reads a child's output to its end.
func (p *parent) listen(out io.Reader, hear func(said, life)) life {
	p.t.Helper()
	var l life
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s, err := parseSaid(lines.Text())
		if err != nil {
			p.t.Errorf("child: %s", lines.Text())
			continue
		}
		l = append(l, s)
		hear(s, l)
	}
	return l
}

func parseSaid(line string) (said, error) {
	var s said
	var rest string
	s.what, rest, _ = strings.Cut(line, " ")
	var err error
	switch s.what {
	case saysAck, saysSaw:
		_, err = fmt.Sscanf(rest, "%d %d %d", &s.w, &s.n, &s.revision)
	case saysSpace:
		s.name = rest
	case "error":
		err = fmt.Errorf("child: %s", rest)
	}
	return s, err
}
