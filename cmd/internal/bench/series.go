package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/ts"
)

// The batches of time-series writers: a few steps, 1 s apart, of all series in line protocol.
const (
	gaugeSeries = 1000
	gaugeSteps  = 5 // per batch
	gaugeTexts  = 20
	gaugePoints = gaugeSeries * gaugeSteps
)

// series returns the rows of time series.
func (b *bench) series() (rows []row) {
	for _, d := range []struct {
		name       string
		durability floe.Durability
		bar        float64
	}{{"sync", floe.Sync, 1_200_000}, {"async", floe.Async, 1_400_000}} {
		rows = append(rows, row{
			name: "ts/ingest/4/" + d.name, bar: d.bar, unit: "points/s/core", absolute: true, more: true, short: d.durability == floe.Sync,
			work: perCore{duel{load: b.writes(4), floe: b.gauges(setup{shards: 4, durability: d.durability}), limit: b.bareFile(0)}},
		})
	}
	for _, d := range []struct {
		name  string
		bar   float64
		value func(walk float64) string
	}{{"decimals", 1.1, func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }}, {"floats", 6.3,
		func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }}} {
		rows = append(rows, row{name: "ts/bytes/" + d.name, bar: d.bar, unit: "bytes/point", absolute: true, work: sealedPoints{d.value}})
	}
	return rows
}

// sealedPoints measures the disk space of points after they are sealed, merged and compacted. The
// points are random walks of 1,000 series.
type sealedPoints struct {
	value func(walk float64) string
}

// sealSpeedup makes the duty seal and merge after a fraction of a second instead of minutes.
const sealSpeedup = 2000

func (p sealedPoints) measure(b *bench) (res result, err error) {
	dir, err := os.MkdirTemp(b.dir, "sealed-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	config := shard.Config{Dir: dir, Shards: 1, Primitives: primitive.All(), DutySpeedup: sealSpeedup}
	host, err := shard.Open(config)
	if err != nil {
		return res, err
	}
	steps := b.settings.keys / gaugeSeries
	err = p.write(b, engine.StoreOf[ts.Store](engine.NewRouter(host), namespace, 0), steps)
	if err == nil {
		waitIdle(host)
	}
	if err := errors.Join(err, host.Close()); err != nil {
		return res, err
	}
	stepper, err := shard.OpenStepper(config)
	if err != nil {
		return res, err
	}
	if err := errors.Join(stepper.Compact(), stepper.Close()); err != nil {
		return res, err
	}
	tables, err := filepath.Glob(filepath.Join(stateDir(dir), "*.sst"))
	size := int64(0)
	for _, table := range tables {
		info, statErr := os.Stat(table)
		if err = errors.Join(err, statErr); statErr == nil {
			size += info.Size()
		}
	}
	res.value = float64(size) / float64(steps*gaugeSeries)
	return res, err
}

// write writes a point of each series every 10 s. The points are weeks old, so that their days are
// over.
func (p sealedPoints) write(b *bench, s *ts.Store, steps int) error {
	rng := rand.New(rand.NewPCG(b.seed, 1))
	at := time.Now().AddDate(0, 0, -30).UnixMilli()
	var walks [gaugeSeries]float64
	var text []byte
	for i := range steps {
		for n := range walks {
			walks[n] += 0.5 * rng.NormFloat64()
			text = fmt.Appendf(text, "cpu,host=host-%04d usage=%s %d\n", n, p.value(50+walks[n]), at+int64(i)*10_000)
		}
		if (i+1)%gaugeSteps != 0 && i+1 < steps {
			continue
		}
		for taken := false; !taken; { // retry until enough points are sealed
			result, err := s.WriteLine(context.Background(), bytes.NewReader(text), ts.Milliseconds)
			if taken = result.Refused == 0; err != nil || !taken && !errors.Is(result.Err(), floe.ErrBusy) {
				return errors.Join(err, result.Err())
			}
		}
		text = text[:0]
	}
	return nil
}

// waitIdle returns when nothing has been applied for two seconds: the duty has no work left.
func waitIdle(h *shard.Host) {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for still, last := 0, h.Applied(0); still < 20; <-poll.C {
		if now := h.Applied(0); now != last {
			still, last = 0, now
			continue
		}
		still++
	}
}

// gauges returns floe's side: writes of batches of points, random walks with two decimals.
func (b *bench) gauges(s setup) side {
	texts := gaugeLines(b.seed)
	begin := time.Now().AddDate(0, 0, -20)
	on := subject{ops: gaugePoints, bytes: len(texts[0])}
	return b.on(s, on, func(*node) error { return nil }, func(n *node, w *worker) error {
		text := append(w.buf[:0], texts[w.at%gaugeTexts]...)
		stamp(text, begin.Add(time.Duration(w.at*gaugeSteps)*time.Second+time.Duration(w.id)*time.Millisecond))
		w.buf = text
		w.at++
		result, err := n.series.WriteLine(context.Background(), bytes.NewReader(text), ts.Nanoseconds)
		if err == nil && result.Refused > 0 {
			err = fmt.Errorf("points are refused: %w", result.Err())
		}
		return err
	})
}

// stampDigits is the length of a timestamp in ns, from 2001 to 2286.
const stampDigits = 19

// gaugeLines returns consecutive batches without timestamps.
func gaugeLines(seed uint64) (texts [][]byte) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var values [gaugeSeries]float64
	for i := range values {
		values[i] = 50 + 10*rng.NormFloat64()
	}
	blank := bytes.Repeat([]byte{'0'}, stampDigits)
	for range gaugeTexts {
		var text []byte
		for range gaugeSteps {
			for i := range values {
				values[i] += 0.5 * rng.NormFloat64()
				text = fmt.Appendf(text, "cpu,host=host-%04d,region=eu-west usage=%.2f %s\n", i, values[i], blank)
			}
		}
		texts = append(texts, text)
	}
	return texts
}

// stamp writes the timestamps of a batch at the ends of its lines.
func stamp(text []byte, at time.Time) {
	line := 0
	digits := strconv.AppendInt(nil, at.UnixNano(), 10)
	for end := range text {
		if text[end] != '\n' {
			continue
		}
		copy(text[end-stampDigits:end], digits)
		if line++; line%gaugeSeries == 0 {
			at = at.Add(time.Second)
			digits = strconv.AppendInt(digits[:0], at.UnixNano(), 10)
		}
	}
}
