package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

// What writers of time series write: batches of some steps of all series, a second apart, in the line protocol.
const (
	gaugeSeries = 1000
	gaugeSteps  = 5 // of a batch
	gaugeTexts  = 20
	gaugePoints = gaugeSeries * gaugeSteps
)

// series are the rows of time series.
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
	return rows
}

// gauges is floe taking batches of points, of random walks with two decimals.
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

// stampDigits is the length of a time in ns, from 2001 to 2286.
const stampDigits = 19

// gaugeLines returns batches that follow each other, whose times are still to be written.
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

// stamp writes the times of a batch, which stand at the ends of its lines.
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
