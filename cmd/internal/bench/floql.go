package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/ts"
)

// floql returns the rows of time-series queries.
func (b *bench) floql() []row {
	var rows []row
	for _, q := range []struct {
		name string
		work windowQuery
	}{{"floql/window/group_by", windowQuery{100, true}}, {"floql/window/group_by/1000", windowQuery{1000, true}}, {"floql/window/1000",
		windowQuery{1000, false}}} {
		rows = append(rows, row{name: q.name, bar: 40, unit: "M points/s/core", absolute: true, more: true, work: q.work})
	}
	return rows
}

// windowQuery measures the points per second of an average over windows of 5 minutes, per host or
// over all hosts. It runs in one shard and so on one core.
type windowQuery struct {
	hosts   int64
	grouped bool
}

const (
	queryFrom  = int64(1_700_000_100_000) // a multiple of 5 minutes
	queryStep  = int64(10_000)            // interval between the points of a host, in ms
	queryBatch = 5_000                    // points
	window     = int64(300_000)
)

func (q windowQuery) measure(b *bench) (res result, err error) {
	dir, err := os.MkdirTemp(b.dir, "floql-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	node, err := floe.Open(floe.Config{DataDir: dir, Shards: 1})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	ctx := context.Background()
	n, steps := int64(b.settings.keys)/q.hosts, queryBatch/q.hosts
	for from := int64(0); from < n; from += steps {
		if err := q.write(ctx, node.TS(namespace), from, from+steps); err != nil {
			return res, err
		}
	}
	n = (n + steps - 1) / steps * steps
	atRest() // measure the query alone, without the sealing of the points just written
	stages := "window(5m) | avg()"
	if q.grouped {
		stages = "window(5m) | group_by(host) | avg()"
	}
	query := fmt.Sprintf("cpu[%d..%d] | %s", queryFrom, queryFrom+n*queryStep, stages)
	var rates []float64
	for range max(b.settings.rounds, 3) {
		start, used := time.Now(), processorTime()
		got, err := node.FloQL(ctx, namespace, query)
		took := time.Since(start)
		used = processorTime() - used
		if err == nil {
			err = q.check(got, n)
		}
		if err != nil {
			return res, err
		}
		rates = append(rates, float64(n*q.hosts)/used.Seconds()/1e6)
		res.p50, res.p99 = took, max(res.p99, took)
	}
	slices.Sort(rates)
	res.value = rates[len(rates)/2]
	return res, nil
}

// processorTime is the processor time that this process has used. Unlike wall-clock time, it does
// not depend on the load from other processes.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// atRest returns when this process has been nearly idle for a second: its background duties are
// done.
func atRest() {
	const poll = 100 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for still, last := 0, processorTime(); still < 10; <-tick.C {
		now := processorTime()
		if still++; now-last > poll/5 {
			still = 0
		}
		last = now
	}
}

// usage is the value of a host's point, in hundredths.
func usage(host, i int64) int64 { return (i*7919+host*104729)%10_000 + 1 }

func (q windowQuery) write(ctx context.Context, s *ts.Store, from, to int64) error {
	var lines bytes.Buffer
	for i := from; i < to; i++ {
		for host := range q.hosts {
			v := usage(host, i)
			fmt.Fprintf(&lines, "cpu,host=h%03d usage=%d.%02d %d\n", host, v/100, v%100, queryFrom+i*queryStep)
		}
	}
	for {
		result, err := s.WriteLine(ctx, bytes.NewReader(lines.Bytes()), ts.Milliseconds)
		switch {
		case err != nil:
			return err
		case result.Refused == 0:
			return nil
		case !errors.Is(result.Err(), floe.ErrBusy): // retry until more points are sealed
			return result.Err()
		}
	}
}

// check compares the buckets of some hosts with exact arithmetic, to the last bit.
func (q windowQuery) check(got *floql.Result, n int64) error {
	want := q.hosts
	if !q.grouped {
		want = 1
	}
	if int64(len(got.Series)) != want {
		return fmt.Errorf("%d series, want %d", len(got.Series), want)
	}
	if !q.grouped {
		return nil
	}
	for host := int64(0); host < q.hosts; host += 33 {
		points := got.Series[host].Points
		at := int64(0)
		for _, p := range points {
			sum, count := new(big.Float).SetPrec(2200), int64(0)
			for ; at < n && queryFrom+at*queryStep < p.Time.UnixMilli()+window; at++ {
				sum.Add(sum, big.NewFloat(float64(usage(host, at))/100))
				count++
			}
			total, _ := sum.Float64()
			if want := total / float64(count); p.Value != want {
				return fmt.Errorf("host %d at %d is %v, want %v", host, p.Time.UnixMilli(), p.Value, want)
			}
		}
		if at != n {
			return fmt.Errorf("host %d: buckets of %d points, want %d", host, at, n)
		}
	}
	return nil
}
