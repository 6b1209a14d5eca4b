package processing

import (
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/pipeline"
)

// TestUnreadIsNotIdle: a shard that was idle, and has sent something since, holds back the
// watermark of a stage until that has been read.
func TestUnreadIsNotIdle(t *testing.T) {
	busy, idle := upstream{0, 0}, upstream{0, 1}
	m := &mail{task: &task{def: new(pipeline.Job)}, next: 7, upstreams: []heard{
		{from: busy, progress: stageProgress{seen: true, newest: 900}},
		{from: idle, progress: stageProgress{seen: true, idle: true, newest: 100, arrived: 5}},
	}}
	m.head = exchangeRow{first: 7, next: 7}
	for range 6 {
		m.head.arrived(busy)
	}
	if mark, _ := pipeline.Watermark(m.marks(1_000), 1_000, pipeline.MinTime); mark != 900 {
		t.Errorf("one that is idle: the watermark is %d, want 900", mark)
	}
	m.head.arrived(idle)
	if mark, _ := pipeline.Watermark(m.marks(1_000), 1_000, pipeline.MinTime); mark != 100 {
		t.Errorf("one that was idle: the watermark is %d, want 100", mark)
	}
	m.next = m.head.next
	if mark, _ := pipeline.Watermark(m.marks(1_000), 1_000, pipeline.MinTime); mark != 900 {
		t.Errorf("when that has been read, the watermark is %d, want 900", mark)
	}
}

// TestClocksOfShards: when all shards are idle, event time advances in each at the pace of its own
// clock, however much the clocks differ.
func TestClocksOfShards(t *testing.T) {
	const now, idleFor = 10_000_000, 700
	for _, ahead := range []int64{-7_200_000, 0, 7_200_000} {
		told := stageProgress{seen: true, idle: true, newest: 5_000, arrived: now + ahead - idleFor}
		m := &mail{task: &task{def: new(pipeline.Job)}, next: 1, upstreams: []heard{{progress: told.heardAt(now, now+ahead)}}}
		m.head = exchangeRow{first: 1, next: 1}
		if mark, idle := pipeline.Watermark(m.marks(now+50), now+50, pipeline.MinTime); mark != 5_000+idleFor+50 || !idle {
			t.Errorf("a shard whose clock is ahead by %d ms: the watermark is %d (idle %v), want %d", ahead, mark, idle, 5_000+idleFor+50)
		}
	}
}

// TestTellsPerShard: the number of progress messages between stages grows with the number of
// shards, not with its square.
func TestTellsPerShard(t *testing.T) {
	for shards := 1; shards <= 256; shards *= 2 {
		every := (&task{shards: shards}).tellMillis()
		if n := int64(shards*shards) * 1000 / every; every < minTellMillis || n > 40*int64(shards) {
			t.Errorf("%d shards tell every %d ms: %d messages a second", shards, every, n)
		}
	}
}

// TestRenumberedMessage: a message in a savepoint gets the numbers that stages and sources have in
// another definition, and its records keep their tags.
func TestRenumberedMessage(t *testing.T) {
	records := passed{records: []pipeline.Record{{Key: []byte("k"), Value: []byte("v"), Tags: 1}}, sources: []uint16{3},
		tags: []string{"large"}}
	msg := passCommand{to: 6, from: upstream{7, 1}, records: encode(nil, &records, (*passed).code)}
	value, err := keptMap{3: 5, 6: 9, 7: 8}.inExchange(rowMessage, 9, encode(nil, &msg, (*passCommand).code))
	if err != nil {
		t.Fatal(err)
	}
	if msg, err = decode(value, (*passCommand).code); err != nil || msg.to != 9 || msg.from != (upstream{8, 1}) {
		t.Fatalf("message %+v, %v", msg, err)
	}
	m := &mail{task: &task{sources: []uint16{4, 5}, prog: tagged(t)}}
	got, err := m.records(&msg)
	if err != nil || len(got) != 1 || got[0].Origin.Source != 1 || fmt.Sprint(got[0].Tags.In(m.task.prog.Tags())) != "[large]" {
		t.Errorf("records %+v, %v", got, err)
	}
}

// tagged returns a program with the tags small and large.
func tagged(t *testing.T) *pipeline.Program {
	t.Helper()
	job, problems := pipeline.Parse([]byte(`
name: tagged
sources: [{name: in, stream: {name: in}}]
operators: [{name: c, type: classify, rules: [{condition: not_empty, tag: small}, {condition: not_empty, tag: large}]}]
sinks: [{name: out, stream: {name: out}}]
`))
	if job == nil {
		t.Fatal(problems)
	}
	p, err := pipeline.Compile(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
