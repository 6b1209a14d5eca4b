package golden

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/workload"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// directory is the expected contents of a golden directory.
type directory struct {
	Now     int64    `json:"now"`     // when it was closed, ms: time stands still for readers, so that nothing expires
	Format  int      `json:"format"`  // as reported by Verify
	Written string   `json:"written"` // likewise
	Rows    []int64  `json:"rows"`    // likewise
	Answers []string `json:"answers"` // to the queries of users
}

// TestDirectory verifies the golden data directories, opens them, and queries all of their
// contents. The answers must be those at the time of recording. They are recorded in the same way,
// and at the same time, as those of TestLog.
func TestDirectory(t *testing.T) {
	if *record {
		recordDirectory(t)
	}
	for _, dir := range formats(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var want directory
			if err := json.Unmarshal(expand(t, readFile(t, filepath.Join(dir, "answers.gz"))), &want); err != nil {
				t.Fatal(err)
			}
			got := examine(t, unpack(t, readFile(t, filepath.Join(dir, "directory.gz"))), want.Now)
			if got.Format != want.Format || got.Written != want.Written || !slices.Equal(got.Rows, want.Rows) {
				t.Errorf("Verify reports format %d of %q with rows %v, want %d of %q with %v", got.Format, got.Written, got.Rows,
					want.Format, want.Written, want.Rows)
			}
			if len(got.Answers) != len(want.Answers) {
				t.Errorf("%d answers, want %d", len(got.Answers), len(want.Answers))
			}
			for i := range min(len(got.Answers), len(want.Answers)) {
				if got.Answers[i] != want.Answers[i] && (dir == present || !covers(t, got.Answers[i], want.Answers[i])) {
					t.Fatalf("the answer is\n%s\nwant\n%s", got.Answers[i], want.Answers[i])
				}
			}
		})
	}
}

// covers reports whether an answer contains everything that an earlier build returned; later builds
// return more.
func covers(t *testing.T, got, want string) bool {
	what, gotJSON, _ := strings.Cut(got, ": ")
	whatWas, wantJSON, _ := strings.Cut(want, ": ")
	var g, w any
	if err := errors.Join(json.Unmarshal([]byte(gotJSON), &g), json.Unmarshal([]byte(wantJSON), &w)); err != nil {
		t.Fatal(err)
	}
	return what == whatWas && holds(g, w)
}

func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, v := range want {
			had, there := g[name]
			ok = ok && there && holds(had, v)
		}
		return ok
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(g, want, holds)
	}
	return got == want
}

// instant is a shard.Clock that stands still.
type instant int64

func (i instant) Wall() int64       { return int64(i) }
func (instant) Mono() time.Duration { return 0 }

// build is the build name recorded in directories.
const build = "floe of a golden directory"

func recordDirectory(t *testing.T) {
	dir := t.TempDir()
	h := open(t, shard.Config{Dir: dir, Build: build})
	w := &world{t: t, router: engine.NewRouter(h), rng: rand.New(rand.NewPCG(shard.FormatVersion, 1)), now: time.Now,
		sleep: func(d time.Duration) {
			<-time.After(min(d, 10*time.Millisecond)) // the clock is real, and there is nothing to wait for
		}}
	if !workload.Open(w) {
		t.Fatal("the namespaces were not created")
	}
	w.work(6)
	for _, ns := range []string{workload.Plain, workload.Spread} {
		w.leave(ns)
	}
	w.leaveKeys()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	packed := pack(t, dir)
	writeFile(t, filepath.Join(present, "directory.gz"), packed)
	got := examine(t, dir, now)
	if again := examine(t, unpack(t, packed), now); !slices.Equal(got.Answers, again.Answers) {
		t.Error("two copies of the directory answer differently: record again")
	}
	b, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(present, "answers.gz"), compress(t, b))
}

func open(t *testing.T, c shard.Config) *shard.Host {
	c.Shards, c.Primitives, c.MaxValue, c.BallastBytes, c.SegmentBytes = shards, primitive.All(), workload.MaxValue, -1, 1<<20
	h, err := shard.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// examine verifies a directory and queries its contents.
func examine(t *testing.T, dir string, now int64) directory {
	r, err := shard.Verify(t.Context(), shard.VerifyConfig{Dir: dir, Primitives: primitive.All()})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("Verify: %v, %v", r.Problems, err)
	}
	h := open(t, shard.Config{Dir: dir, Clock: shard.Clock{Source: instant(now)}})
	e := &examination{t: t, router: engine.NewRouter(h)}
	for _, ns := range []string{workload.Plain, workload.Spread, workload.Apart} {
		e.ask(ns)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	return directory{now, r.Format, r.WrittenBy, r.Rows, e.answers}
}

type examination struct {
	t       *testing.T
	router  *engine.Router
	answers []string
}

// answer records an answer, as JSON where possible.
func (e *examination) answer(what string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		e.t.Fatalf("%s: %v", what, err)
	}
	e.answers = append(e.answers, what+": "+string(b))
}

// each records all elements of a listing, and calls f for each.
func each[T any](e *examination, what string, all iter.Seq2[T, error], f func(T)) {
	for v, err := range all {
		if err != nil {
			e.t.Fatalf("%s: %v", what, err)
		}
		if f == nil {
			e.answer(what, v)
		} else {
			f(v)
		}
	}
}

func (e *examination) ask(ns string) {
	ctx := e.t.Context()
	each(e, ns+" kv", engine.StoreOf[kv.Store](e.router, ns, 0).All(ctx), nil)
	e.askStreams(ns)
	queues := engine.StoreOf[queue.Store](e.router, ns, 0)
	each(e, ns+" queues", queues.All(ctx), func(s queue.Stats) {
		e.answer(ns+" queue", []any{s.Name, s.Settings})
		each(e, ns+" message", queues.Messages(s.Name).All(ctx), nil)
		each(e, ns+" dead letter", queues.DeadLetters(s.Name).All(ctx), nil)
	})
	series := engine.StoreOf[ts.Store](e.router, ns, 0)
	each(e, ns+" measurements", series.All(ctx), func(m ts.Measurement) {
		e.answer(ns+" measurement", []any{m.Name, m.Fields, m.Series, m.Oldest, m.Newest, m.Retention})
		each(e, ns+" series", series.Series(m.Name).All(ctx), nil)
		for _, f := range m.Fields {
			each(e, ns+" sample", series.Read(ctx, m.Name, f.Name), func(s ts.Sample) { e.answer(ns+" sample", fmt.Sprintf("%+v", s)) })
		}
	})
	actions := engine.StoreOf[action.Store](e.router, ns, 0)
	each(e, ns+" actions", actions.All(ctx), func(i action.Info) {
		e.answer(ns+" action", []any{i.Name, i.Version})
		each(e, ns+" run", actions.Runs().All(ctx, action.Of(i.Name)), nil)
	})
	flows := engine.StoreOf[workflow.Store](e.router, ns, 0)
	each(e, ns+" workflows", flows.All(ctx), func(i workflow.Info) { e.answer(ns+" workflow", []any{i.Name, i.Version}) })
	each(e, ns+" runs of workflows", flows.Runs().All(ctx), func(r workflow.RunInfo) {
		e.answer(ns+" run of a workflow", r)
		each(e, ns+" event", flows.History(r.ID).All(ctx), nil)
	})
	each(e, ns+" jobs", engine.StoreOf[processing.Store](e.router, ns, 0).All(ctx), func(j processing.Job) {
		e.answer(ns+" job", []any{j.ID, j.Name, j.Status})
	})
}

func (e *examination) askStreams(ns string) {
	ctx, s := e.t.Context(), engine.StoreOf[stream.Store](e.router, ns, 0)
	each(e, ns+" streams", s.All(ctx), func(st stream.Stats) {
		e.answer(ns+" stream", []any{st.Name, st.Retention})
		records, err := s.Read(ctx, st.Name, stream.Limit(1000))
		if err != nil {
			e.t.Fatal(err)
		}
		e.answer(ns+" records", records)
		each(e, ns+" groups", s.Groups(st.Name).All(ctx), func(g stream.GroupStats) {
			each(e, ns+" pending", s.Pending(st.Name, g.Name).All(ctx), nil)
		})
	})
}

func pack(t *testing.T, dir string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return compress(t, buf.Bytes())
}

func unpack(t *testing.T, packed []byte) (dir string) {
	dir = t.TempDir()
	for r := tar.NewReader(bytes.NewReader(expand(t, packed))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(name, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			b, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(name, b, fs.FileMode(0o600)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
