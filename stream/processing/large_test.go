package processing_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

var largeKeys = flag.Int("keys", 5_000, "keys of the windows that TestManyKeys fires at once; with a million the process stays below 1 GiB")

// TestManyKeys: the windows of many keys, more than any cache holds, fire at once, in slices: each
// is emitted once, and memory does not grow with them. The long form is
//
//	go test -run '^TestManyKeys$' -keys 1000000 ./stream/processing
func TestManyKeys(t *testing.T) {
	ctx, keys := t.Context(), *largeKeys
	node, err := floe.Open(floe.Config{DataDir: t.TempDir(), Durability: floe.Async, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	in := node.Stream("default")
	batch := make([]stream.Message, 0, 1000)
	for i := range 2 * keys {
		value := fmt.Appendf(nil, `{"k":"key-%07d","at":%d,"n":%d}`, i%keys*7919%keys, 1_000_000_000_000+i%60_000, i/keys+1)
		if batch = append(batch, stream.Message{Payload: value}); len(batch) < cap(batch) && i < 2*keys-1 {
			continue
		}
		if _, err := in.AppendMany(ctx, "in", batch); err != nil {
			t.Fatal(err)
		}
		batch = batch[:0]
	}
	job := processing.Definition{
		Name: "many", BatchSize: 1000, StopAtEnd: true,
		Sources: []processing.Source{{Name: "in", From: processing.FromStream{Name: "in"}, EventTime: "$.at", Disorder: time.Hour}},
		Operators: []processing.Operator{
			{Name: "by", Do: processing.KeyBy{Key: "$.k"}},
			{Name: "sum", Do: processing.Aggregate{Function: "sum", Field: "n", Window: processing.Tumbling(24 * time.Hour)}},
		},
		Sinks: []processing.Sink{{Name: "out", To: processing.ToStream{Name: "out"}}},
	}
	if _, err := node.Processing("default").Submit(ctx, job.YAML()); err != nil {
		t.Fatal(err)
	}
	seen, read := make([]bool, keys), stream.ID{}
	for told := 0; told < keys; {
		recs, err := in.Read(ctx, "out", stream.After(read), stream.Limit(1000), stream.Wait(5*time.Minute))
		if err != nil || len(recs) == 0 {
			t.Fatalf("%d records after %d, %v", len(recs), told, err)
		}
		for _, r := range recs {
			text, value, _ := strings.Cut(strings.TrimPrefix(string(r.Payload), `{"key":"key-`), `","value":`)
			n, err := strconv.Atoi(text)
			if err != nil || n >= keys || seen[n] || !strings.HasPrefix(value, `3,"count":2,`) {
				t.Fatalf("record %s", r.Payload)
			}
			seen[n], read = true, r.ID
		}
		told += len(recs)
	}
	if peak := peakMemory(); keys >= 1_000_000 && peak > 1<<30 {
		t.Errorf("the process has had %d MiB", peak>>20)
	} else {
		t.Logf("%d keys, at most %d MiB of memory", keys, peak>>20)
	}
}

// peakMemory returns the peak memory of the process, 0 if unknown.
func peakMemory() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	text, _, _ = strings.Cut(text, "kB")
	n, _ := strconv.Atoi(strings.TrimSpace(text))
	return n << 10
}
