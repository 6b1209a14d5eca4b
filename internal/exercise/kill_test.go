package exercise

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
)

var killsFlag = flag.Int("kills", 120, "how often TestKill kills its child, with each durability half of it")

// TestKill kills a process with 8 writers, a watcher and timers at random moments, crash upon crash on the same directory. After
// each kill all that was acknowledged, or shown by a watch, is there, each transaction as a whole, with Async as well: history
// and counts agree with it, and opening was quick. In the end each kind of moment has been hit.
func TestKill(t *testing.T) {
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
	p := &parent{t: t, rng: rand.New(rand.NewPCG(seed(t), 1))}
	x := &examiner{t: t}
	dir := filepath.Join(t.TempDir(), "data")
	spaces := make(map[string]bool)
	var promised [writers]int
	var hits [momentCount]int
	for round := range kills {
		m := moment(round % momentCount)
		o := order{Dir: dir, Async: async, Interval: 20 * time.Millisecond, Small: m == inFlushes || p.rng.IntN(3) == 0, Life: round}
		l := p.kill(o, m)
		if l.hit(m) {
			hits[m]++
		}
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
	steps, missed := 0, false
	for _, n := range promised {
		steps += n
	}
	var report []string
	for m, n := range hits {
		report = append(report, fmt.Sprintf("%d at %v", n, moment(m)))
		missed = missed || n == 0
	}
	t.Logf("%d kills in %v (%s): %d transactions, %d namespaces survived, slowest open %v", kills,
		time.Since(start).Round(time.Millisecond), strings.Join(report, ", "), steps, len(spaces), x.slowest)
	if x.slowest > slowestOpen {
		t.Errorf("slowest open took %v, want at most %v", x.slowest, slowestOpen)
	}
	if missed || steps < kills {
		t.Error("there is a moment that was never hit, or hardly any transaction: the test has not tested what it should")
	}
}
