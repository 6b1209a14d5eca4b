package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// patience is how long a scrape waits for what is gathered in the background. Prometheus waits
	// ten seconds by default for all.
	patience = time.Second
	// gatherTime bounds a gathering. One that takes longer is given up, and what was gathered
	// before stays.
	gatherTime = 30 * time.Second
	// A gathering that took longer than cheap is not repeated until the node has rested so many
	// times as long: however often it is scraped and however much it holds, the listings take a
	// tenth of one core at most.
	cheap = 50 * time.Millisecond
	rests = 9
)

// collection is metrics that are gathered in the background, because that may take long, or wait
// for what the node is busy with. Scrapes have it begun, wait for a moment, and take what there is:
// nothing is gathered while nobody scrapes. One gathering is under way at most, so that one which
// hangs takes no more than its goroutine.
type collection struct {
	name   string
	gather func(s *scrape, ctx context.Context)

	mu      sync.Mutex    // guards what follows; nothing is gathered under it
	last    gathered      // at first: nothing, at the beginning
	rested  time.Time     // when it may be gathered again
	running chan struct{} // closed when the gathering under way has ended; nil: there is none
}

// gathered is what a gathering has found, as of when it began. It is not changed.
type gathered struct {
	metrics []prometheus.Metric
	begun   time.Time
	took    time.Duration
	failed  int
}

// begin has the part gathered, unless that is under way or it rests.
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

// wait returns what was gathered last, when the gathering under way has ended or ctx is done.
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
