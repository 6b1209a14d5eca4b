package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// side opens one of the two compared subjects, in its own empty directory.
type side func(dir string) (*subject, error)

// duel compares floe with its limit in turns: limit, floe, limit, floe ... on a new directory each
// time. So a machine that becomes slower or faster meanwhile does so for both. The ratio is the
// median of the rounds' ratios.
type duel struct {
	load        load
	floe, limit side
	once        bool // one round, and the limit again after it: for loads that are long anyway
	calls       int64
}

func (d duel) measure(b *bench) (result, error) {
	rounds := b.settings.rounds
	if d.once {
		rounds = 1
	}
	var all, limits []figures
	var ratios []float64
	for i := range rounds {
		limit, err := b.round(d.limit, d.load)
		if err != nil {
			return result{}, fmt.Errorf("limit: %w", err)
		}
		floe, err := b.round(d.floe, d.floeLoad())
		if err != nil {
			return result{}, fmt.Errorf("floe: %w", err)
		}
		if d.once {
			again, err := b.round(d.limit, d.load)
			if err != nil {
				return result{}, fmt.Errorf("limit: %w", err)
			}
			limit.rate = (limit.rate + again.rate) / 2
		}
		b.log("  round %d: limit %v", i+1, limit)
		b.log("  round %d: floe  %v, ratio %.3f", i+1, floe, floe.rate/limit.rate)
		all, limits, ratios = append(all, floe), append(limits, limit), append(ratios, floe.rate/limit.rate)
	}
	f, l := medians(all), medians(limits)
	return result{ratio: median(ratios), figures: f, limit: l}, nil
}

// floeLoad is the load of the limit, unless floe must perform a fixed number of calls.
func (d duel) floeLoad() load {
	l := d.load
	if d.calls > 0 {
		l.calls, l.last = d.calls, time.Hour
	}
	return l
}

func (d duel) profile(b *bench) (figures, error) { return b.round(d.floe, d.floeLoad()) }

// round measures one side. The bytes written are counted until the side is closed: they belong to
// the calls even if they were still in memory when the last call returned.
func (b *bench) round(open side, l load) (f figures, err error) {
	dir, err := os.MkdirTemp(b.dir, "round-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	s, err := open(dir)
	if err != nil {
		return f, err
	}
	if s.warm != nil {
		if err := s.warm(); err != nil {
			return f, errors.Join(err, s.close())
		}
	}
	ws := l.workers(b.seed)
	written := b.bytesWritten()
	f, err = b.observed(func() (figures, error) { return l.run(s, ws) })
	err = errors.Join(err, s.close())
	if f.bytes > 0 {
		b.sync()
		f.written = float64(b.bytesWritten()-written) / float64(f.bytes)
	}
	return f, err
}

// remove deletes a directory and waits until the disk is idle. Otherwise trimming deleted data and
// writing back dirty data would slow down the next round.
func (b *bench) remove(dir string) error {
	err := os.RemoveAll(dir)
	b.sync()
	return err
}

func medians(all []figures) figures {
	of := func(field func(f figures) float64) float64 {
		var vs []float64
		for _, f := range all {
			vs = append(vs, field(f))
		}
		return median(vs)
	}
	return figures{
		rate:    of(func(f figures) float64 { return f.rate }),
		p50:     time.Duration(of(func(f figures) float64 { return float64(f.p50) })),
		p99:     time.Duration(of(func(f figures) float64 { return float64(f.p99) })),
		allocs:  of(func(f figures) float64 { return f.allocs }),
		written: of(func(f figures) float64 { return f.written }),
		used:    time.Duration(of(func(f figures) float64 { return float64(f.used) })),
	}
}

func (f figures) String() string {
	s := fmt.Sprintf("%.0f/s, p50 %v, p99 %v, %.1f allocs, %v of a processor", f.rate, short(f.p50), short(f.p99), f.allocs, short(f.used))
	if f.written > 0 {
		s += fmt.Sprintf(", %.2f bytes written a user byte", f.written)
	}
	return s
}

// short rounds a duration to a readable number of digits.
func short(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
