package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// patience is how long a scrape waits for background gathering. The default timeout of a whole
	// scrape in Prometheus is ten seconds.
	patience = time.Second
	// gatherTime is the timeout of a gathering. After a timeout the previous results stay.
	gatherTime = 30 * time.Second
	// A gathering that took longer than cheap is followed by a pause of rests times its duration.
	// So the listings use at most a tenth of one core, regardless of the rate of scrapes and the
	// contents of the node.
	cheap = 50 * time.Millisecond
	rests = 9
)

// collection is a set of metrics that are gathered in the background, because that may take long or
// block on a busy node. A scrape starts a gathering, waits for a moment, and uses the latest
// results. Without scrapes there is no gathering. At most one gathering runs at a time, so one that
// hangs costs only its goroutine.
type collection struct {
	name   string
	gather func(s *scrape, ctx context.Context)

	mu      sync.Mutex    // guards the fields below; not held while gathering
	last    gathered      // initially empty, as of the creation of the Collector
	rested  time.Time     // time of the next allowed gathering
	running chan struct{} // closed when the current gathering has ended; nil: none
}

// gathered is the result of a gathering, as of its beginning. It is immutable.
type gathered struct {
	metrics []prometheus.Metric
	begun   time.Time
	took    time.Duration
	failed  int
}

// begin starts a gathering, unless one is running or the pause after the last one is not over.
func (p *collection) begin(c *Collector) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil || time.Now().Before(p.rested) {
		return
	}
	running := make(chan struct{})
	if c.source.Host.Go(func(ctx context.Context) { p.run(ctx, c.scrape(), running) }) == nil {
		p.running = running
	}
}

func (p *collection) run(ctx context.Context, s *scrape, running chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	begun := time.Now()
	p.gather(s, ctx)
	took := time.Since(begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = nil
	close(running)
	if took > cheap {
		p.rested = time.Now().Add(rests * took)
	}
	if ctx.Err() == nil {
		p.last = gathered{s.metrics, begun, took, s.failed}
	}
}

// wait waits until the current gathering has ended or ctx is done, and returns the latest results.
func (p *collection) wait(ctx context.Context) gathered {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
