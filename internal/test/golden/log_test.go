package golden

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/workload"
)

var record = flag.Bool("record", false, "record the test data of the present format anew")

const shards = 3

// present is the directory with the test data of the present format.
var present = fmt.Sprintf("testdata/format-%d", shard.FormatVersion)

// state is the state after a log.
type state struct {
	Hashes []string       `json:"hashes"` // of the shards
	Rows   map[string]int `json:"rows"`   // number of rows, by machine and first byte of the key
}

// TestLog applies the golden logs to an empty state. The log of the present format holds every kind
// of command, and must produce the recorded state. In the logs of earlier formats each command must
// decode. Their states may differ from the recorded ones, because Apply may have changed since.
//
// If this test fails, Apply has changed its behaviour or the layout of a command, a result or a
// row. A record gains fields behind codec.Coder.More; any other change needs a new kind of command.
// A change of data that FormatVersion's testdata has held since the last release raises that
// version. Then, and for a new kind of command, record again, and commit testdata:
//
//	go test ./internal/test/golden -record
func TestLog(t *testing.T) {
	if *record {
		recordLog(t)
	}
	for _, dir := range formats(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			logs := readLogs(t, filepath.Join(dir, "log.gz"))
			if dir != present {
				decodes(t, logs)
				return
			}
			var want state
			readJSON(t, filepath.Join(dir, "log.json"), &want)
			for _, forgetful := range []bool{false, true} {
				got := replay(t, logs, forgetful)
				if !slices.Equal(got.Hashes, want.Hashes) {
					t.Errorf("state hashes are %v, want %v: the same log leaves another state", got.Hashes, want.Hashes)
				}
				if !maps.Equal(got.Rows, want.Rows) {
					t.Errorf("rows are %v, want %v", got.Rows, want.Rows)
				}
			}
			checkKinds(t, logs)
		})
	}
}

// decodes executes commands of each kind, some of the largest among them, on empty shards. A
// command that a shard cannot decode stops it.
func decodes(t *testing.T, logs [][][]byte) {
	samples, table := sampled(t, logs)
	for name, cmds := range samples {
		for _, cmd := range cmds {
			if cmd.Machine == 0 {
				continue // the engine's own commands concern other shards, and their contents occur as commands of their own
			}
			from := table[cmd.Machine].Commands[cmd.Kind-1].From
			if _, stopped := machinetest.New(t, 1, primitive.All()...).Try(0, inLog(placed(table, cmd), from)); stopped {
				t.Errorf("%s: a command of this format stops the shard", name)
			}
		}
	}
}

// formats returns the directories of all formats that have test data.
func formats(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/format-*")
	if err != nil || !slices.Contains(dirs, present) {
		t.Fatalf("no test data in %s: %v; record it with go test ./internal/test/golden -record", present, err)
	}
	return dirs
}

func replay(t *testing.T, logs [][][]byte, forgetful bool) state {
	return stateOf(applied(t, logs, forgetful))
}

// applied returns shards that have applied logs.
func applied(t *testing.T, logs [][][]byte, forgetful bool) *machinetest.Rig {
	r := machinetest.Open(t, machinetest.Config{Shards: len(logs), Primitives: primitive.All(), Forgetful: forgetful})
	for id, log := range logs {
		x := r.Executor(engine.ShardID(id))
		for i, data := range log {
			x.Apply(1, uint64(i+1), data, nil)
			if err := x.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func stateOf(r *machinetest.Rig) state {
	s := state{Rows: make(map[string]int)}
	for id, hash := range r.Hashes() {
		s.Hashes = append(s.Hashes, fmt.Sprintf("%016x", hash))
		for _, row := range r.Rows(engine.ShardID(id)) {
			s.Rows[fmt.Sprintf("%d %q", row.Machine, row.Key[:1])]++
		}
	}
	return s
}

// recordLog lets clients do all works on shards without faults.
func recordLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := machinetest.New(t, shards, primitive.All()...)
		w := &world{t: t, router: r.Router(), door: r, rng: rand.New(rand.NewPCG(shard.FormatVersion, 0)),
			now: func() time.Time { return time.UnixMilli(r.Now()) }, sleep: func(d time.Duration) {
				<-time.After(d)
				r.Advance(d.Milliseconds())
			}}
		if !workload.Open(w) {
			t.Fatal("the namespaces were not created")
		}
		for _, ns := range []string{workload.Plain, workload.Spread} {
			w.restOfSeries(ns) // takes days: first, because schedules would run all the time
		}
		w.work(14)
		for _, ns := range []string{workload.Plain, workload.Spread} {
			w.rest(ns)
		}
		for _, ns := range []string{workload.Plain, workload.Spread} {
			w.leave(ns)
		}
		w.leaveKeys()
		w.leaveNamespaces()
		r.Entry(0, engine.Skip(0))
		r.Entry(0, engine.Compare(engine.Comparison{Node: 1, Index: 1, Hash: 1}))
		var logs [][][]byte
		for id := range engine.ShardID(shards) {
			logs = append(logs, r.Log(id))
		}
		writeLogs(t, filepath.Join(present, "log.gz"), logs)
		writeJSON(t, filepath.Join(present, "log.json"), stateOf(r))
	})
}

// The shards, and the entries of a shard, follow one another: number of entries uvarint | entry
// (uvarint length, bytes) ...
func writeLogs(t *testing.T, name string, logs [][][]byte) {
	b := codec.AppendUvarint(nil, uint64(len(logs)))
	for _, log := range logs {
		b = codec.AppendUvarint(b, uint64(len(log)))
		for _, data := range log {
			b = codec.AppendBytes(b, data)
		}
	}
	writeFile(t, name, compress(t, b))
}

func readLogs(t *testing.T, name string) (logs [][][]byte) {
	r := codec.NewReader(expand(t, readFile(t, name)))
	for range r.Uvarint() {
		var log [][]byte
		for range r.Uvarint() {
			log = append(log, r.Bytes())
		}
		logs = append(logs, log)
	}
	if err := r.Done(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return logs
}

// checkKinds reports kinds of commands that are missing from the logs.
func checkKinds(t *testing.T, logs [][][]byte) {
	found := make(map[[2]uint8]bool)
	eachCommand(t, logs, func(cmd engine.Command) { found[[2]uint8{uint8(cmd.Machine), cmd.Kind}] = true })
	for _, p := range engine.WithEngine(primitive.All()) {
		for _, c := range p.Commands {
			name := p.Name + " " + c.Name
			there := found[[2]uint8{uint8(p.ID), c.Kind}]
			if _, excused := absent[name]; there == excused {
				t.Errorf("%s: in the log: %t, listed as absent: %t", name, there, excused)
			}
		}
	}
}

// absent gives the reasons why commands are not in the log.
var absent = map[string]string{
	"action end scheduled run":   "only ever runs behind another command",
	"workflow end action":        "runs behind the command that ends the action",
	"workflow end child":         "runs behind the command that ends the child",
	"workflow end scheduled run": "runs behind the command that ends the run",
	"workflow relay end":         "only while a shard has not heard yet of the action or workflow that a run calls",
	"processing report":          "only when a part of a job fails, or is done, in another shard than its home",
}

// eachCommand calls f for all commands of the logs, including nested ones.
func eachCommand(t *testing.T, logs [][][]byte, f func(engine.Command)) {
	for _, log := range logs {
		for _, data := range log {
			var e engine.Entry
			if err := e.Decode(data); err != nil {
				t.Fatal(err)
			}
			for _, b := range e.Commands {
				within(t, b, f)
			}
		}
	}
}

// The engine's commands that contain others.
const (
	kindTxn     = 1
	kindDeliver = 3
	kindFenced  = 8
)

func within(t *testing.T, b []byte, f func(engine.Command)) {
	cmd, err := engine.DecodeCommand(b)
	if err != nil {
		t.Fatal(err)
	}
	f(cmd)
	r := codec.NewReader(cmd.Body)
	switch {
	case cmd.Machine != 0:
		return
	case cmd.Kind == kindTxn:
		for range r.Uvarint() + r.Uvarint() {
			within(t, r.Bytes(), f)
		}
	case cmd.Kind == kindFenced:
		r.Uvarint()
		within(t, r.Rest(), f)
	case cmd.Kind == kindDeliver:
		r.Uvarint() // sender
		r.Uvarint() // number
		for range r.Uvarint() {
			r.Byte()
			r.Uvarint()
			r.Uvarint()
			for range r.Uvarint() {
				r.Uvarint() // number
				r.Bool()    // reply
				if r.Bool() {
					within(t, r.Bytes(), f)
				}
			}
		}
	default:
		return
	}
	if err := r.Done(); err != nil {
		t.Fatalf("engine command %d: %v", cmd.Kind, err)
	}
}

// world is the environment for the recorded works, without faults.
type world struct {
	t      *testing.T
	router *engine.Router
	door   engine.Door // of the router
	rng    *rand.Rand
	now    func() time.Time
	sleep  func(time.Duration)
	left   int // acts
}

func (w *world) Router() *engine.Router           { return w.router }
func (w *world) Rand() *rand.Rand                 { return w.rng }
func (w *world) Client() int                      { return 1 }
func (w *world) Lossy() bool                      { return false }
func (w *world) Async() bool                      { return false }
func (w *world) Note(error)                       {}
func (w *world) Failf(format string, args ...any) { w.t.Errorf(format, args...) }

func (w *world) Working() bool {
	w.left--
	return w.left > 0 && w.Sleep(time.Duration(w.rng.IntN(int(100*time.Millisecond))))
}

func (w *world) Sleep(d time.Duration) bool {
	w.sleep(d)
	return !w.t.Failed()
}

// work does all works, with a number of acts each.
func (w *world) work(acts int) {
	for _, work := range workload.Works {
		job := work.New()
		if !job.Open(w) {
			w.t.Fatalf("%s did not open", work.Name)
		}
		w.left = acts
		job.Do(w)
		job.Audit(w)
	}
}

func compress(t *testing.T, b []byte) []byte {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func expand(t *testing.T, b []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readFile(t *testing.T, name string) []byte {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, name string, b []byte) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if most := 100 << 10; len(b) > most && strings.HasSuffix(name, ".gz") {
		t.Errorf("%s has %d bytes, more than %d", name, len(b), most)
	}
}

func readJSON(t *testing.T, name string, v any) {
	if err := json.Unmarshal(readFile(t, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func writeJSON(t *testing.T, name string, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, name, append(b, '\n'))
}
