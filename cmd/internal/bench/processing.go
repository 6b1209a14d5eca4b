package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/cmd/internal/stress"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// The streams of the rows' jobs.
const (
	jobIn  = "in"
	jobOut = "out"
)

// jobs returns the rows of stream processing.
func (b *bench) jobs() []row {
	return []row{
		{name: "processing/records", bar: 150_000, unit: "records/s/core", absolute: true, more: true, short: true, work: jobRecords{}},
		{name: "processing/latency/1", bar: 4, unit: "L5", absolute: true, work: latency{"a record is there", (*bench).jobAlone}},
		{name: "processing/backfill", bar: 2, unit: "times p99", absolute: true, work: backfill{}},
	}
}

// jobOf is stream -> filter -> keyed sum -> stream.
func jobOf(batch int) processing.Definition {
	return processing.Definition{
		Name: "sums", BatchSize: batch,
		Sources: []processing.Source{{Name: jobIn, From: processing.FromStream{Name: jobIn}}},
		Operators: []processing.Operator{
			{Name: "some", Do: processing.Filter{Condition: "expr: amount >= 100"}},
			{Name: "by", Do: processing.KeyBy{Key: "$.customer"}},
			{Name: "sum", Do: processing.Aggregate{Function: "sum", Field: "$.amount"}},
		},
		Sinks: []processing.Sink{{Name: jobOut, To: processing.ToStream{Name: jobOut}}},
	}
}

// jobRecord returns a record of about 256 bytes, for one of 10,000 customers. The filter of jobOf
// keeps nine of ten records.
func (b *bench) jobRecord(i int) stream.Message {
	return stream.Message{Payload: fmt.Appendf(nil, `{"customer":"customer-%05d","amount":%d,"currency":"EUR","note":%s,"at":%d}`,
		i*7919%10_000, i%1000, jsonOf(b.values[i%valueBytes:][:160]), 1_763_740_800_000+i)}
}

// jobRecords measures the records that a job processes per second of processor time. The records
// exist when the job is submitted.
type jobRecords struct{}

func (jobRecords) measure(b *bench) (res result, err error) {
	var values []float64
	var all []figures
	for i := range b.settings.rounds {
		f, err := b.runJob()
		if err != nil {
			return res, err
		}
		b.log("  round %d: %.0f records a second of a processor, in %v", i+1, f.rate, short(f.p50))
		values, all = append(values, f.rate), append(all, f)
	}
	return result{value: median(values), figures: medians(all)}, nil
}

func (jobRecords) profile(b *bench) (figures, error) { return b.runJob() }

// runJob returns the records that a job processes per second of processor time, and the duration.
func (b *bench) runJob() (f figures, err error) {
	n, done, err := b.jobNode()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, done()) }()
	records := min(b.settings.behind, 500_000)
	batch := make([]stream.Message, 0, 1000)
	for i := range records {
		if batch = append(batch, b.jobRecord(i)); len(batch) < cap(batch) && i < records-1 {
			continue
		}
		if _, err := n.streams.AppendMany(context.Background(), jobIn, batch); err != nil {
			return f, err
		}
		batch = batch[:0]
	}
	atRest()
	return b.observed(func() (figures, error) { return n.runJob(records) })
}

// runJob runs a job over the existing records.
func (n *node) runJob(records int) (f figures, err error) {
	ctx, definition := context.Background(), jobOf(1000)
	definition.StopAtEnd = true
	start, used := time.Now(), processorTime()
	made, err := n.jobs.Submit(ctx, definition.YAML())
	if err != nil {
		return f, err
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for job := (processing.Detail{Job: processing.Job{Status: processing.Running}}); job.Status == processing.Running; <-poll.C {
		if job, err = n.jobs.Get(ctx, made.Job); err != nil {
			return f, err
		}
		if m := job.Metrics; job.Status != processing.Running &&
			(job.Status != processing.Completed || m.RecordsIn != int64(records) || m.Errors != 0) {
			return f, fmt.Errorf("job is %v (%s) after %d of %d records, %d errors", job.Status, job.Reason, m.RecordsIn, records, m.Errors)
		}
	}
	took := time.Since(start)
	return figures{rate: float64(records) / (processorTime() - used).Seconds(), p50: took, p99: took}, nil
}

// jobNode opens a node in its own directory. The node's namespace is in one shard.
func (b *bench) jobNode() (n *node, done func() error, err error) {
	dir, err := os.MkdirTemp(b.dir, "job-")
	if err != nil {
		return nil, nil, err
	}
	if n, err = (setup{shards: 4, together: true}).open(dir); err != nil {
		return nil, nil, errors.Join(err, b.remove(dir))
	}
	return n, func() error { return errors.Join(n.close(), b.remove(dir)) }, nil
}

// jobAlone appends one record after the other. It measures from the append until a reader has the
// job's output.
func (b *bench) jobAlone(last time.Duration) (f figures, err error) {
	n, done, err := b.jobNode()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx := context.Background()
	if _, err := n.jobs.Submit(ctx, jobOf(100).YAML()); err != nil {
		return f, err
	}
	count, latency, read := 0, new(stress.Histogram), stream.ID{}
	for start := time.Now(); err == nil && (count == 0 || time.Since(start) < last); count++ {
		from := time.Now()
		if _, err = n.streams.Append(ctx, jobIn, b.jobRecord(1000*count+999)); err != nil {
			break
		}
		var got []stream.Record
		if got, err = n.streams.Read(ctx, jobOut, stream.After(read), stream.Limit(1), stream.Wait(time.Minute)); err == nil &&
			len(got) != 1 {
			err = fmt.Errorf("the job has made nothing of record %d in a minute", count)
		}
		if err == nil {
			read = got[0].ID
			latency.Add(time.Since(from))
		}
	}
	return figures{rate: float64(count) / last.Seconds(), p50: latency.Quantile(0.5), p99: latency.Quantile(0.99)}, err
}

// backfill measures how much the p99 latency of puts rises while a job processes the backlog of its
// source, in the namespace of the puts. The callers do not use the processors fully: at full load
// any additional work takes its share of them.
type backfill struct{}

// backfillCallers is the number of callers. Each pauses after a put for as long as the put took.
const backfillCallers = 8

func (backfill) measure(b *bench) (res result, err error) {
	var values []float64
	var all, alone []figures
	for i := range b.settings.rounds {
		quiet, busy, rate, err := b.besideJob()
		if err != nil {
			return res, err
		}
		b.log("  round %d: a put takes %v, p99 %v; beside a job, which reads %.0f records a second, %v, p99 %v",
			i+1, short(quiet.p50), short(quiet.p99), rate, short(busy.p50), short(busy.p99))
		values = append(values, float64(busy.p99)/float64(quiet.p99))
		all, alone = append(all, busy), append(alone, quiet)
	}
	return result{value: median(values), figures: medians(all), limit: medians(alone)}, nil
}

// besideJob returns the latency of puts before a job begins and while it runs, and the job's
// records per second.
func (b *bench) besideJob() (quiet, busy figures, rate float64, err error) {
	n, done, err := b.jobNode()
	if err != nil {
		return quiet, busy, rate, err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx, records := context.Background(), min(b.settings.behind, 500_000)
	batch := make([]stream.Message, 0, 1000)
	for i := range records {
		if batch = append(batch, b.jobRecord(i)); len(batch) < cap(batch) && i < records-1 {
			continue
		}
		if _, err := n.streams.AppendMany(ctx, jobIn, batch); err != nil {
			return quiet, busy, rate, err
		}
		batch = batch[:0]
	}
	atRest()
	from := time.Now()
	if quiet, err = b.putsUntil(n, func() bool { return time.Since(from) > 2*time.Second }); err != nil {
		return quiet, busy, rate, err
	}
	definition := jobOf(1000)
	definition.StopAtEnd = true
	made, err := n.jobs.Submit(ctx, definition.YAML())
	if err != nil {
		return quiet, busy, rate, err
	}
	var job processing.Detail
	from = time.Now()
	busy, putErr := b.putsUntil(n, func() bool {
		job, err = n.jobs.Get(ctx, made.Job)
		return err != nil || job.Status != processing.Running
	})
	if err = errors.Join(err, putErr); err == nil && job.Status != processing.Completed {
		err = fmt.Errorf("job is %v (%s)", job.Status, job.Reason)
	}
	return quiet, busy, float64(records) / time.Since(from).Seconds(), err
}

// putsUntil puts values until done returns true; it calls done 20 times a second.
func (b *bench) putsUntil(n *node, done func() bool) (f figures, err error) {
	var stop atomic.Bool
	var callers sync.WaitGroup
	latencies, errs := make([]stress.Histogram, backfillCallers), make([]error, backfillCallers)
	start, count := time.Now(), 0
	for i := range backfillCallers {
		callers.Go(func() {
			pause := time.NewTimer(0)
			<-pause.C
			for k := 0; !stop.Load() && errs[i] == nil; k++ {
				from := time.Now()
				_, errs[i] = n.store.Put(context.Background(), fmt.Sprintf("caller-%d-%06d", i, k%100_000),
					b.values[k%valueBytes:][:valueBytes])
				took := time.Since(from)
				latencies[i].Add(took)
				pause.Reset(took)
				<-pause.C
			}
		})
	}
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for !done() {
		<-ask.C
	}
	stop.Store(true)
	callers.Wait()
	var all stress.Histogram
	for i := range latencies {
		all.Merge(&latencies[i])
		err = errors.Join(err, errs[i])
	}
	count = int(all.Total())
	return figures{rate: float64(count) / time.Since(start).Seconds(), p50: all.Quantile(0.5), p99: all.Quantile(0.99)}, err
}
