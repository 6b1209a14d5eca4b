package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
)

var killsFlag = flag.Int("kills", 8, "how often TestKill kills its child, with each durability half of it")

// TestKill kills a process with 8 writers, a watcher and timers at random moments, repeatedly on
// the same directory. After each kill everything acknowledged or watched must be there, each
// transaction as a whole, with Async as well. History and counts must agree with it, Verify must
// report nothing, and opening must be quick. In the end each kind of moment must have been hit.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := *killsFlag / 2
	if testing.Short() {
		kills = 2 * momentCount
	}
	for _, durability := range []floe.Durability{floe.Sync, floe.Async} {
		t.Run(durability.String(), func(t *testing.T) { killMany(t, durability == floe.Async, kills) })
	}
}

func killMany(t *testing.T, async bool, kills int) {
	start := time.Now()
	p := &parent{t: t, rng: rand.New(rand.NewPCG(machinetest.Seed(t), 1)), writing: 150 * time.Millisecond}
	x := &examiner{t: t}
	dir := filepath.Join(t.TempDir(), "data")
	spaces := make(map[string]bool)
	var promised [writers]int
	var hits moments
	// Moments that were missed each time are tried again, in as many further rounds.
	for round := 0; round < kills || round < 2*kills && hits.missed() >= 0; round++ {
		m := moment(round % momentCount)
		if round >= kills {
			m = hits.missed()
		}
		o := order{Dir: dir, Async: async, Interval: 20 * time.Millisecond, Small: m == inFlushes || p.rng.IntN(3) == 0, Life: round}
		l := p.kill(o, m)
		hits.count(l, m)
		for _, s := range l {
			switch s.what {
			case saysAck, saysSaw:
				promised[s.w] = max(promised[s.w], s.n)
			case saysSpace:
				spaces[s.name] = true
			}
		}
		for w, at := range x.examine(dir, spaces) {
			if at.position < promised[w] {
				t.Errorf("writer %d: position %d, but %d was acknowledged or shown", w, at.position, promised[w])
			}
			promised[w] = max(promised[w], at.position)
		}
		if t.Failed() {
			t.Fatalf("kill %d failed, at %v, with %+v", round, m, o)
		}
	}
	steps := 0
	for _, n := range promised {
		steps += n
	}
	t.Logf("%d kills in %v (%v): %d transactions, %d namespaces survived, %d rows verified, slowest open %v", hits.total(),
		time.Since(start).Round(time.Millisecond), &hits, steps, len(spaces), x.verified, x.slowest)
	if hits.missed() >= 0 || steps < kills || x.verified == 0 {
		t.Error("there is a moment that was never hit, or hardly any transaction: the test has not tested what it should")
	}
}

// moments counts how often each kind of moment was hit, and the children that died at a different
// moment than intended.
type moments struct {
	hit       [momentCount]int
	elsewhere int
}

func (m *moments) count(l life, at moment) {
	if l.hit(at) {
		m.hit[at]++
	} else {
		m.elsewhere++
	}
}

// missed returns a moment that was never hit, or -1.
func (m *moments) missed() moment { return moment(slices.Index(m.hit[:], 0)) }

func (m *moments) total() int {
	n := m.elsewhere
	for _, times := range m.hit {
		n += times
	}
	return n
}

func (m *moments) String() string {
	var list []string
	for at, times := range m.hit {
		list = append(list, fmt.Sprintf("%d at %v", times, moment(at)))
	}
	return strings.Join(append(list, fmt.Sprintf("%d missed that", m.elsewhere)), ", ")
}
