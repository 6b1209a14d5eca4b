package metrics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/queue"
)

// stuckDoor is a door whose queries wait while it is stuck, whatever their contexts say.
type stuckDoor struct {
	engine.Door
	stuck <-chan struct{} // nil: it is not, and never was
}

func (d *stuckDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	if d.stuck != nil {
		<-d.stuck
	}
	return d.Door.Query(ctx, id, q)
}

// scrapeOf returns the gauges that a collector sends, each by its name and the values of its
// labels.
func scrapeOf(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue()
		}
	}
	return all
}

// TestStuckListing: while a listing waits and does not even heed its context, scrapes end, with
// what was listed before and how old that is; and when it goes on, they have the present again.
func TestStuckListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, err := shard.Open(shard.Config{Shards: 1, Primitives: []engine.Primitive{engine.TableOf[queue.Store]()}})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		jobs := engine.StoreOf[queue.Store](engine.NewRouter(host), "shop", 0)
		enqueue := func() {
			t.Helper()
			if _, err := jobs.Enqueue(t.Context(), "mail", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		door := &stuckDoor{Door: host.StaleDoor()}
		c := New(Source{Host: host, Replica: engine.NewRouter(door)}, 0)
		expect := func(when string, ready, age float64) {
			t.Helper()
			begun := time.Now()
			all := scrapeOf(t, c)
			if took := time.Since(begun); took > patience {
				t.Errorf("%s: the scrape took %v", when, took)
			}
			if got := all["floe_queue_ready shop mail"]; got != ready {
				t.Errorf("%s: %v messages, want %v", when, got, ready)
			}
			if got := all["floe_metrics_age_seconds contents"]; got < age || got > age+3*patience.Seconds() {
				t.Errorf("%s: the contents are %v seconds old, want %v", when, got, age)
			}
			if all["floe_ready"] != 1 {
				t.Errorf("%s: the node is not ready", when)
			}
		}
		enqueue()
		expect("at first", 1, 0)
		stuck := make(chan struct{})
		door.stuck = stuck
		enqueue()
		expect("stuck", 1, 0)
		<-time.After(time.Minute)
		expect("stuck for a minute", 1, 60)
		close(stuck)
		synctest.Wait()
		<-time.After(rests * 2 * time.Minute)
		expect("afterwards", 2, 0)
	})
}

// TestCostlyListing: a gathering that took long is not repeated at each scrape.
func TestCostlyListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, err := shard.Open(shard.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		n := 0
		c := New(Source{Host: host, Replica: engine.NewRouter(host.StaleDoor())}, 0)
		c.parts = []*collection{{name: "costly", gather: func(*scrape, context.Context) {
			n++
			<-time.After(patience / 2)
		}}}
		const scrapes = 100
		for range scrapes {
			scrapeOf(t, c)
			<-time.After(patience / 2)
		}
		if most := scrapes/rests + 1; n > most || n < 2 {
			t.Errorf("gathered %d times in %d scrapes, want %d at most", n, scrapes, most)
		}
	})
}
