package processing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
)

func tables() []engine.Primitive { return tablesOf(engine.TableOf[processing.Store]()) }

// tablesOf returns the tables of a node with another table of jobs.
func tablesOf(jobs engine.Primitive) []engine.Primitive {
	return []engine.Primitive{
		engine.TableOf[kv.Store](), engine.TableOf[stream.Store](), engine.TableOf[queue.Store](), engine.TableOf[ts.Store](), jobs,
	}
}

// rig is an in-memory node of several shards, with the stores of one namespace.
type rig struct {
	*machinetest.Rig
	t       testing.TB
	jobs    *processing.Store
	streams *stream.Store
	keys    *kv.Store
	queues  *queue.Store
	series  *ts.Store
	held    func() error // errors of jobs, savepoints and restores that are held
}

func newRig(t testing.TB, shards int) *rig {
	jobs, held := processing.Watched()
	s := newStageOf(t, shards, jobs)
	s.held = held
	return s
}

// newStageOf is newRig with another table of jobs.
func newStageOf(t testing.TB, shards int, jobs engine.Primitive) *rig {
	t.Helper()
	r := machinetest.New(t, shards, tablesOf(jobs)...)
	s := &rig{Rig: r, t: t}
	s.jobs = engine.StoreOf[processing.Store](r.Router(), "n", 1<<20)
	s.streams = engine.StoreOf[stream.Store](r.Router(), "n", 1<<20)
	s.keys = engine.StoreOf[kv.Store](r.Router(), "n", 1<<20)
	s.queues = engine.StoreOf[queue.Store](r.Router(), "n", 1<<20)
	s.series = engine.StoreOf[ts.Store](r.Router(), "n", 1<<20)
	return s
}

func (s *rig) submit(definition string) processing.JobID {
	s.t.Helper()
	made, err := s.jobs.Submit(context.Background(), []byte(definition))
	if err != nil {
		s.t.Fatalf("Submit: %v", err)
	}
	return made.Job
}

func (s *rig) append(name string, payloads ...string) {
	s.t.Helper()
	for _, p := range payloads {
		if _, err := s.streams.Append(context.Background(), name, stream.Message{Payload: []byte(p)}); err != nil {
			s.t.Fatalf("Append: %v", err)
		}
	}
}

// read returns the payloads of a stream.
func (s *rig) read(name string) string {
	s.t.Helper()
	recs, err := s.streams.Read(context.Background(), name, stream.Limit(1000))
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		s.t.Fatalf("Read: %v", err)
	}
	var all []string
	for _, r := range recs {
		all = append(all, string(r.Payload))
	}
	return strings.Join(all, " ")
}

func (s *rig) job(id processing.JobID) processing.Job {
	s.t.Helper()
	j, err := s.jobs.Get(context.Background(), id)
	if err != nil {
		s.t.Fatalf("Job: %v", err)
	}
	return j.Job
}

// run lets leaders do their duties until no work is left for now.
func (s *rig) run() { s.Advance(1) }

func (s *rig) want(name, want string) {
	s.t.Helper()
	if got := s.read(name); got != want {
		s.t.Errorf("stream %s holds %q, want %q", name, got, want)
	}
}

const filtered = `
kind: Processing
name: big
sources:
  - name: orders
    stream: { name: orders }
operators:
  - type: filter
    name: only
    condition: "json:$.amount>100"
sinks:
  - name: out
    stream: { name: large }
`

func amount(n int) string { return fmt.Sprintf(`{"amount":%d}`, n) }
