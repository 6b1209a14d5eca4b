package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/cmd/internal/stress"
)

// task is the action that the rows invoke. Its handler does nothing.
const task = "task"

// actions returns the rows of actions. Their handlers run in the node's process.
func (b *bench) actions() (rows []row) {
	for _, shards := range b.settings.shards {
		rows = append(rows, row{
			name: fmt.Sprintf("action/64/shards=%d", shards), against: limitL1, bar: 0.2, short: shards == 4,
			work: duel{load: b.writes(64), floe: b.runs(setup{shards: shards}), limit: b.bareFile(0)},
		})
	}
	return append(rows, row{name: "action/begin/1", bar: 3, unit: "L5", absolute: true,
		work: latency{"a handler begins", (*bench).beginAlone}})
}

// runs returns floe's side: runs of an action, from the invocation until the caller has the result.
func (b *bench) runs(s setup) side {
	return func(dir string) (*subject, error) {
		n, err := s.open(dir)
		if err != nil {
			return nil, err
		}
		stop, err := n.work(func(context.Context, *action.Task) (any, error) { return nil, nil })
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		ctx := context.Background()
		return &subject{
			ops: 1, bytes: valueBytes, close: func() error { return errors.Join(stop(), n.close()) },
			call: func(w *worker) error {
				run, err := n.actions.InvokeAndWait(ctx, task, jsonOf(b.values.cut(w.rng)))
				if err == nil && run.Status != action.Completed {
					err = fmt.Errorf("run %s is %v: %s", run.ID, run.Status, run.Error)
				}
				return err
			},
		}, nil
	}
}

// jsonOf returns a JSON string as long as value, made of its bytes.
func jsonOf(value []byte) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	text := make([]byte, len(value))
	for i, c := range value {
		text[i] = digits[c%64]
	}
	text[0], text[len(text)-1] = '"', '"'
	return text
}

// work runs a worker with handler f.
func (n *node) work(f action.Handler) (stop func() error, err error) {
	if _, err := n.actions.Register(context.Background(), task); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, ended := n.actions.Worker(action.WorkerConfig{Concurrency: 64}).Handle(task, f), make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// latency measures the latency of sequential operations as a multiple of a durable commit of the
// log alone.
type latency struct {
	what  string // the measured event, such as "a handler begins"
	alone func(b *bench, last time.Duration) (figures, error)
}

func (l latency) measure(b *bench) (result, error) {
	var values []float64
	var all, limits []figures
	one := b.writes(1)
	for i := range b.settings.rounds {
		limit, err := b.round(b.bareFile(0), one)
		if err != nil {
			return result{}, fmt.Errorf("limit: %w", err)
		}
		floe, err := l.alone(b, one.last)
		if err != nil {
			return result{}, fmt.Errorf("floe: %w", err)
		}
		b.log("  round %d: a commit takes %v; %s after %v, p99 %v", i+1, short(limit.p50), l.what, short(floe.p50), short(floe.p99))
		values = append(values, float64(floe.p50)/float64(limit.p50))
		all, limits = append(all, floe), append(limits, limit)
	}
	return result{value: median(values), figures: medians(all), limit: medians(limits)}, nil
}

// beginAlone invokes one run after the other. It measures from the invocation until an idle handler
// has the run.
func (b *bench) beginAlone(last time.Duration) (f figures, err error) {
	dir, err := os.MkdirTemp(b.dir, "begin-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	n, err := setup{shards: 4}.open(dir)
	if err != nil {
		return f, err
	}
	begun := make(chan time.Time, 1)
	stop, err := n.work(func(context.Context, *action.Task) (any, error) {
		begun <- time.Now()
		return nil, nil
	})
	if err != nil {
		return f, errors.Join(err, n.close())
	}
	ctx, count, latency := context.Background(), 0, new(stress.Histogram)
	for start := time.Now(); err == nil && (count == 0 || time.Since(start) < last); count++ {
		from := time.Now()
		var i action.Invoked
		if i, err = n.actions.Invoke(ctx, task, nil); err == nil {
			latency.Add((<-begun).Sub(from))
			_, err = n.actions.Wait(ctx, i.Run)
		}
	}
	return figures{rate: float64(count) / last.Seconds(), p50: latency.Quantile(0.5), p99: latency.Quantile(0.99)}, errors.Join(err, stop(),
		n.close())
}
