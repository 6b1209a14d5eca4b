package shard

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/overlayfs"
	"github.com/floedb/floe/internal/raftlog"
	"github.com/floedb/floe/kv"
)

func kvConfig(fsys vfs.FS, d Durability) Config {
	return Config{
		Dir: "node", Shards: 3, FS: fsys, Durability: d, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()},
		MemTableBytes: 256 << 10, L0Tables: 2, SegmentBytes: 64 << 10,
	}
}

// verify returns Verify's report on the directory that kvConfig describes.
func verify(t *testing.T, fsys vfs.FS) VerifyReport {
	t.Helper()
	r, err := Verify(t.Context(), VerifyConfig{Dir: "node", FS: fsys, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}})
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return r
}

// load opens a host and runs random operations on it.
func load(t *testing.T, c Config, rng *rand.Rand, steps int) *Host {
	t.Helper()
	h := open(t, c)
	w := kvWorkload{t: t, rng: rng, router: engine.NewRouter(h), done: make(map[string]int)}
	err := engine.NewNamespaces(w.router).Create(t.Context(), toySpread, true)
	if err != nil && !errors.Is(err, engine.ErrExists) {
		t.Fatal(err)
	}
	w.run(t.Context(), steps)
	return h
}

// TestVerifyCluster verifies the directories of a cluster's closed nodes, including entries that
// the nodes did not know to be committed. A cluster directory used to be taken for that of a single
// node.
func TestVerifyCluster(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, seed(t), func(cfg *Config) {
		cfg.Primitives = []engine.Primitive{engine.TableOf[kv.Store]()}
		cfg.MemTableBytes, cfg.SegmentBytes = 256<<10, 64<<10
	})
	w := kvWorkload{t: t, rng: rand.New(rand.NewPCG(seed(t), 0)), router: engine.NewRouter(c), done: make(map[string]int)}
	must(t, engine.NewNamespaces(w.router).Create(t.Context(), toySpread, true))
	w.run(t.Context(), 150)
	c.settle(t.Context())
	c.stop(3)
	w.run(t.Context(), 50)
	c.stop(2)
	c.stop(1)
	for id := uint64(1); id <= 3; id++ {
		for range 2 { // Verify changes nothing
			if r := verify(t, c.fs[id]); len(r.Problems) > 0 || r.Shards != 2 || r.Entries == 0 || len(r.Rows) != 2 {
				t.Errorf("node %d: %+v", id, r)
			}
		}
	}
}

// TestVerifyCrashed verifies directories after crashes, and those of closed nodes, and continues
// from the crashed ones.
func TestVerifyCrashed(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	for _, d := range []Durability{Sync, Async} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, uint64(d)))
			fsys := vfs.NewCrashableMem()
			for round := range 6 {
				h := load(t, kvConfig(fsys, d), rng, 150)
				if round%2 == 0 {
					must(t, h.db.Flush())
				}
				crashed := crash(fsys, rng, 50*(round%3))
				closeHost(t, h)
				for what, left := range map[string]*vfs.MemFS{"crashed": crashed, "closed": fsys} {
					r := verify(t, left)
					if len(r.Problems) > 0 || r.Shards != 3 || len(r.Rows) != 3 || r.Segments == 0 {
						t.Fatalf("round %d, %s: %+v", round, what, r)
					}
				}
				fsys = crashed
			}
		})
	}
}

// image is a directory in memory, as file contents by name.
type image map[string][]byte

// take reads all files of the directory.
func take(t *testing.T, fsys vfs.FS) image {
	t.Helper()
	files := make(image)
	for _, dir := range []string{"node", "node/log", "node/state"} {
		names, err := fsys.List(dir)
		must(t, err)
		for _, name := range names {
			name = dir + "/" + name
			if info, err := fsys.Stat(name); err != nil || info.IsDir() {
				continue
			}
			b, err := readFile(fsys, name)
			must(t, err)
			files[name] = b
		}
	}
	return files
}

// put returns a file system with the image's files.
func (i image) put(t *testing.T) *vfs.MemFS {
	t.Helper()
	fsys := vfs.NewMem()
	for _, dir := range []string{"node/log", "node/state"} {
		must(t, fsys.MkdirAll(dir, 0o700))
	}
	for name, b := range i {
		must(t, writeFile(fsys, name, slices.Clone(b)))
	}
	return fsys
}

// names returns the files with a suffix, in order.
func (i image) names(suffix string) (names []string) {
	for name := range i {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// crashedImage is a directory with several segments and tables, and a log to replay.
func crashedImage(t *testing.T) image {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed(t), 0))
	fsys := vfs.NewCrashableMem()
	h := load(t, kvConfig(fsys, Sync), rng, 200)
	for i := range 40 {
		_, err := engine.StoreOf[kv.Store](engine.NewRouter(h), "other", 0).Put(t.Context(), fmt.Sprintf("big-%d", i), make([]byte, 5000))
		must(t, err)
	}
	must(t, h.db.Flush())
	for i := range 40 {
		_, err := engine.StoreOf[kv.Store](engine.NewRouter(h), "default", 0).Put(t.Context(), fmt.Sprintf("big-%d", i), make([]byte, 5000))
		must(t, err)
	}
	crashed := crash(fsys, rng, 0)
	closeHost(t, h)
	i := take(t, crashed)
	if len(i.names(".ual")) < 2 || len(i.names(".sst")) < 1 {
		t.Fatalf("%d segments and %d tables, want more", len(i.names(".ual")), len(i.names(".sst")))
	}
	if r := verify(t, i.put(t)); len(r.Problems) > 0 {
		t.Fatalf("before anything is damaged: %q", r.Problems)
	}
	return i
}

// TestVerifyReportsDamage damages one file after the other.
func TestVerifyReportsDamage(t *testing.T) {
	noLeaks(t)
	whole := crashedImage(t)
	segments, sstables := whole.names(".ual"), whole.names(".sst")
	// A crash may bring back tables that were compacted away: these are not missed.
	obsolete := func(name string) bool {
		without := maps.Clone(whole)
		delete(without, name)
		return len(verify(t, without.put(t)).Problems) == 0
	}
	segment, table := segments[0], slices.DeleteFunc(sstables, obsolete)[0]
	flip := func(name string, at int) func(image) {
		return func(i image) { i[name][at] ^= 0x10 }
	}
	remove := func(name string) func(image) {
		return func(i image) { delete(i, name) }
	}
	for name, c := range map[string]struct {
		damage func(image)
		want   []string
	}{
		"record of the log":     {flip(segment, len(whole[segment])/2), []string{segment + ": offset "}},
		"start of a segment":    {flip(segments[1], 20), []string{segments[1]}},
		"segment missing":       {remove(segments[1]), []string{segments[1], "missing"}},
		"segment cut":           {func(i image) { i[segment] = i[segment][:len(i[segment])/2] }, []string{segment}},
		"log missing":           {func(i image) { dropAll(i, ".ual"); dropAll(i, ".spare") }, []string{"the log holds 0 of 3 shards"}},
		"block of a table":      {flip(table, 100), []string{table, "checksum"}},
		"end of a table":        {flip(table, len(whole[table])-20), []string{table}},
		"table cut":             {func(i image) { i[table] = i[table][:len(i[table])-1] }, []string{"node/state: "}},
		"table missing":         {remove(table), []string{"node/state: "}},
		"tables missing":        {func(i image) { dropAll(i, ".sst") }, []string{"node/state: "}},
		"state missing":         {func(i image) { dropPrefix(i, "node/state/") }, []string{"node/state: "}},
		"FORMAT missing":        {remove("node/FORMAT"), []string{"holds a log but no FORMAT file"}},
		"FORMAT empty":          {func(i image) { i["node/FORMAT"] = nil }, []string{"FORMAT is damaged"}},
		"FORMAT with more":      {func(i image) { i["node/FORMAT"] = append(i["node/FORMAT"], ' ') }, []string{"is not what was written"}},
		"number of shards less": {replace(`"shards": 3`, `"shards": 2`), []string{"the log holds 3 shards, but FORMAT says 2"}},
		"number of shards more": {replace(`"shards": 3`, `"shards": 5`), []string{"the log holds 3 of 5 shards"}},
		"other node":            {replace(`"node_id": 1`, `"node_id": 3`), []string{"node 3 is not among the voters [1]"}},
		"newer":                 {replace(`"floe_format": 3`, `"floe_format": 9`), []string{"use a newer floe"}},
		"older": {replace(`"floe_format": 3`, `"floe_format": 1`),
			[]string{"has format 1, a layout before the first release, written by an unnamed build"}},
		"two things": {func(i image) { flip(segment, 300)(i); flip(table, 100)(i) }, []string{segment, table}},
		"log, and a counter too": {func(i image) { flip(segment, 300)(i); replace(`"node_id": 1`, `"node_id": 3`)(i) },
			[]string{segment, "FORMAT"}},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := make(image)
			for name, b := range whole {
				damaged[name] = slices.Clone(b)
			}
			c.damage(damaged)
			all := strings.Join(verify(t, damaged.put(t)).Problems, "\n")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("reported\n%s\nwant %q", all, want)
				}
			}
		})
	}
}

func dropAll(i image, suffix string) {
	for _, name := range i.names(suffix) {
		delete(i, name)
	}
}

func dropPrefix(i image, prefix string) {
	for name := range i {
		if strings.HasPrefix(name, prefix) {
			delete(i, name)
		}
	}
}

func replace(old, new string) func(image) {
	return func(i image) {
		if !strings.Contains(string(i["node/FORMAT"]), old) {
			panic("FORMAT lacks " + old)
		}
		var f format
		if err := json.Unmarshal([]byte(strings.Replace(string(i["node/FORMAT"]), old, new, 1)), &f); err != nil {
			panic(err)
		}
		i["node/FORMAT"], _ = f.encode() // with a matching checksum
	}
}

// TestVerifyReportsRows changes rows through Pebble, so that all checksums are valid.
func TestVerifyReportsRows(t *testing.T) {
	noLeaks(t)
	fsys := vfs.NewMem()
	h := load(t, kvConfig(fsys, Sync), rand.New(rand.NewPCG(seed(t), 0)), 200)
	store := engine.StoreOf[kv.Store](engine.NewRouter(h), "default", 0)
	_, err := store.Put(t.Context(), "expires", []byte("v"), kv.TTL(1<<40))
	must(t, err)
	home := engine.HomeShard("default", 3)
	closeHost(t, h)
	whole := take(t, fsys)
	own, rowsOfKV := string([]byte{0, byte(home), 0}), string([]byte{0, byte(home), 1})
	for name, c := range map[string]struct {
		change func(t *testing.T, db *pebble.DB)
		want   string
	}{
		"nothing":       {func(*testing.T, *pebble.DB) {}, ""},
		"missing timer": {func(t *testing.T, db *pebble.DB) { deleteLast(t, db, own+"t", "eexpires") }, `key "expires": expires at`},
		"missing key":   {func(t *testing.T, db *pebble.DB) { deleteLast(t, db, rowsOfKV+"c", "") }, "its row counts"},
		"missing past":  {func(t *testing.T, db *pebble.DB) { deleteLast(t, db, rowsOfKV+"h", "") }, "history"},
		"row of a shard that is not there": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\x00\x07\x00x"), nil, pebble.NoSync))
		}, "row 00070078 belongs to none of the 3 shards"},
		"ten such rows": {func(t *testing.T, db *pebble.DB) {
			for i := range byte(10) {
				must(t, db.Set([]byte{0, 7, 0, i}, nil, pebble.NoSync))
			}
		}, "row 00070009 belongs to none of the 3 shards"},
		"many such rows": {func(t *testing.T, db *pebble.DB) {
			for i := range byte(15) {
				must(t, db.Set([]byte{0, 7, 0, i}, nil, pebble.NoSync))
			}
		}, "5 more rows belong to none of the 3 shards"},
		"snapshot installed long ago": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\xff\xffi\x00\x02"), make([]byte, 8), pebble.NoSync))
		}, ""},
		"snapshot of no shard": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\xff\xffi\x00\x03"), make([]byte, 8), pebble.NoSync))
		}, "row ffff690003 belongs to none of the 3 shards"},
		"snapshot without an index": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\xff\xffi\x00\x02"), make([]byte, 7), pebble.NoSync))
		}, "row ffff690002 belongs to none of the 3 shards"},
		"own row of another kind": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\xff\xffj\x00\x02"), make([]byte, 8), pebble.NoSync))
		}, "row ffff6a0002 belongs to none of the 3 shards"},
		"own row with more": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte("\xff\xffi\x00\x02x"), make([]byte, 8), pebble.NoSync))
		}, "row ffff69000278 belongs to none of the 3 shards"},
		"row of an unknown machine": {func(t *testing.T, db *pebble.DB) {
			must(t, db.Set([]byte(own[:2]+"\x0ex"), nil, pebble.NoSync))
		}, "1 rows of machine 14, which is unknown to this program"},
		"messages from the future": {func(t *testing.T, db *pebble.DB) {
			row := binary.AppendUvarint([]byte{1, 1, byte(engine.MachineTest), 0, 0}, 1<<40)
			must(t, db.Set([]byte(own+"s\x00\x00"), append(row, 0), pebble.NoSync))
		}, "has received message 1099511627776 of shard 0"},
		"state of another log": {func(t *testing.T, db *pebble.DB) { deleteLast(t, db, own+"a", "") },
			"has rows, but none with its applied position"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := whole.put(t)
			db, err := pebble.Open("node/state", &pebble.Options{
				FS: changed, FormatMajorVersion: pebble.FormatNewest, DisableWAL: true, Logger: pebbleLogger{discard(),
					func(err error) { t.Error(err) }},
			})
			must(t, err)
			c.change(t, db)
			must(t, errors.Join(db.Flush(), db.Close()))
			found := verify(t, changed).Problems
			all := strings.Join(found, "\n")
			if c.want == "" && len(found) > 0 || !strings.Contains(all, c.want) {
				t.Errorf("reported\n%s\nwant %q", all, c.want)
			}
		})
	}
}

// deleteLast deletes the last row with a prefix and a suffix.
func deleteLast(t *testing.T, db *pebble.DB, prefix, suffix string) {
	t.Helper()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: append([]byte(prefix), 0xff, 0xff, 0xff, 0xff)})
	must(t, err)
	ok := it.Last()
	for ok && !strings.HasSuffix(string(it.Key()), suffix) {
		ok = it.Prev()
	}
	if !ok {
		t.Fatalf("no row begins with %x and ends with %q", prefix, suffix)
	}
	k := slices.Clone(it.Key())
	must(t, it.Close())
	must(t, db.Delete(k, pebble.NoSync))
}

// TestVerifyReportsEntries uses logs that only a bug in the program can write.
func TestVerifyReportsEntries(t *testing.T) {
	noLeaks(t)
	fsys := vfs.NewMem()
	closeHost(t, load(t, kvConfig(fsys, Sync), rand.New(rand.NewPCG(seed(t), 0)), 50))
	whole := take(t, fsys)
	unknown := engine.Entry{Commands: [][]byte{engine.Command{Machine: engine.MachineQueue, Kind: 1, Namespace: "n"}.AppendTo(nil)}}
	entry := func(e *raftpb.Entry) func(last, term uint64) raftlog.Update {
		return func(last, term uint64) raftlog.Update {
			e.Index, e.Term = new(last+1), new(term)
			return raftlog.Update{Entries: []*raftpb.Entry{e}}
		}
	}
	for name, c := range map[string]struct {
		update func(last, term uint64) raftlog.Update
		want   string
	}{
		"garbage":         {entry(&raftpb.Entry{Data: []byte("garbage")}), "entry version 103"},
		"unknown machine": {entry(&raftpb.Entry{Data: unknown.AppendTo(nil)}), "unknown command: machine 3 kind 1"},
		"membership":      {entry(&raftpb.Entry{Type: raftpb.EntryConfChange.Enum()}), "change of membership"},
		"vote for a stranger": {func(last, term uint64) raftlog.Update {
			return raftlog.Update{HardState: &raftpb.HardState{Term: new(term + 9), Vote: new(uint64(7)), Commit: new(last)}}
		}, "voted for node 7, which is not among the voters [1]"},
		"term goes back": {func(last, term uint64) raftlog.Update {
			return raftlog.Update{Entries: []*raftpb.Entry{{Index: new(last + 1), Term: new(term + 1)},
				{Index: new(last + 2), Term: new(term)}}}
		}, "the one before of term"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := whole.put(t)
			log, err := raftlog.Open(raftlog.Options{FS: changed, Dir: "node/log"})
			must(t, err)
			last := log.Shard(1).LastIndex()
			term, err := log.Shard(1).Term(last)
			must(t, err)
			u := c.update(last, term)
			u.Shard = 1
			must(t, log.Write([]raftlog.Update{u}))
			must(t, log.Close())
			if all := strings.Join(verify(t, changed).Problems, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("reported\n%s\nwant %q", all, c.want)
			}
		})
	}
}

// TestVerifyAtEveryBeginning verifies the remains of a directory whose creation was interrupted.
func TestVerifyAtEveryBeginning(t *testing.T) {
	full := vfs.NewCrashableMem()
	counter := &failingFS{FS: full, budget: -1}
	closeHost(t, open(t, kvConfig(counter, Sync)))
	for k := int64(0); k < counter.ops.Load(); k++ {
		fsys := vfs.NewCrashableMem()
		if h, err := Open(kvConfig(&failingFS{FS: fsys, budget: k, err: errors.New("broken")}, Sync)); err == nil {
			_ = h.Close() // the operation may happen only here
		}
		left := fsys.CrashClone(vfs.CrashCloneCfg{})
		r, err := Verify(t.Context(), VerifyConfig{Dir: "node", FS: left, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}})
		if err != nil && !errors.Is(err, engine.ErrInvalid) && !strings.Contains(err.Error(), "not exist") || len(r.Problems) > 0 {
			t.Fatalf("after a crash at operation %d of the creation: %v, %q", k, err, r.Problems)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	noLeaks(t)
	fsys := vfs.NewMem()
	c := VerifyConfig{Dir: "node", FS: fsys, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}}
	if _, err := Verify(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not exist") {
		t.Errorf("no directory: %v", err)
	}
	must(t, fsys.MkdirAll("node", 0o700))
	must(t, writeFile(fsys, "node/other", []byte("x")))
	if _, err := Verify(t.Context(), c); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("another directory: %v, want ErrInvalid", err)
	}
	h := open(t, kvConfig(fsys, Sync))
	if _, err := Verify(t.Context(), c); !errors.Is(err, engine.ErrInUse) {
		t.Errorf("directory in use: %v, want ErrInUse", err)
	}
	closeHost(t, h)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(done, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if r := verify(t, fsys); len(r.Problems) > 0 {
		t.Errorf("closed: %q", r.Problems)
	}
}

// TestVerifyMissesNothing damages the directory of a closed node in many ways. Whenever Verify
// finds no problem, the directory must open and hold exactly its previous contents.
func TestVerifyMissesNothing(t *testing.T) {
	noLeaks(t)
	rng := rand.New(rand.NewPCG(seed(t), 0))
	flips := 60
	if testing.Short() {
		flips = 12
	}
	fsys := vfs.NewMem()
	h := load(t, kvConfig(fsys, Sync), rng, 300)
	must(t, h.db.Flush())
	w := kvWorkload{t: t, rng: rng, router: engine.NewRouter(h), done: make(map[string]int)}
	w.run(t.Context(), 100)
	closeHost(t, h)
	whole := take(t, fsys)
	want := replayed(t, whole.put(t))
	reported, harmless := 0, make(map[string]int)
	for _, name := range whole.names("") {
		for what, b := range damages(rng, whole[name], flips) {
			damaged := make(image)
			for other, content := range whole {
				damaged[other] = content
			}
			if damaged[name] = b; b == nil {
				delete(damaged, name)
			}
			if len(verify(t, damaged.put(t)).Problems) > 0 {
				reported++
				continue
			}
			harmless[name]++
			if got := replayed(t, damaged.put(t)); got != want {
				t.Errorf("%s, %s: no problem is reported, but the state is another one", name, what)
			}
		}
	}
	if reported < 4*flips {
		t.Errorf("%d damages were reported, want more", reported)
	}
	t.Logf("%d reported; harmless: %v", reported, harmless)
}

// damages returns damaged versions of a file: bits flipped, cut, zeroed, gone (nil).
func damages(rng *rand.Rand, b []byte, flips int) map[string][]byte {
	all := map[string][]byte{"removed": nil}
	if len(b) == 0 {
		return all
	}
	for range flips {
		at, bit := rng.IntN(len(b)), rng.IntN(8)
		flipped := slices.Clone(b)
		flipped[at] ^= 1 << bit
		all[fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(b))] = flipped
	}
	for range 3 {
		at := rng.IntN(len(b))
		all[fmt.Sprintf("cut at %d of %d", at, len(b))] = slices.Clone(b[:at])
		zeroed := slices.Clone(b)
		clear(zeroed[at:min(len(b), at+512)])
		all[fmt.Sprintf("zeroed from %d of %d", at, len(b))] = zeroed
	}
	return all
}

// replayed returns the contents of the directory: all rows of the key-value machines, or the error
// of opening it.
func replayed(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	c := kvConfig(overlayfs.New(fsys), Sync)
	c.Clock = Clock{&fakeClock{}}
	s, err := OpenStepper(c)
	if err != nil {
		return err.Error()
	}
	defer s.abandon()
	must(t, s.replay(t.Context()))
	var all strings.Builder
	for id := range s.Shards() {
		rows, _, err := s.host.shards[id].stateRows()
		must(t, err)
		for ok := rows.First(); ok; ok = rows.Next() {
			if rows.Key()[2] == byte(engine.MachineKV) {
				fmt.Fprintf(&all, "%x=%x\n", rows.Key(), rows.Value())
			}
		}
		must(t, rows.Close())
	}
	return all.String()
}

// endingContext is done after a number of checks.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// crashedPuts returns a crashed directory with tables and entries to replay, and the number of
// entries in its log.
func crashedPuts(t *testing.T) (fsys *vfs.MemFS, entries uint64) {
	t.Helper()
	whole := vfs.NewCrashableMem()
	c := kvConfig(whole, Sync)
	c.MemTableBytes = 4 << 20 // one table; all fits into one segment of the log
	h := open(t, c)
	defer closeHost(t, h)
	router := engine.NewRouter(h)
	store := engine.StoreOf[kv.Store](router, "default", 0)
	for part := range 2 { // more rows than between two checks of a context
		many := engine.NewTxn(router, "default", 1<<20)
		for i := range 600 {
			many.Do(kv.PutOp(fmt.Sprint("small", part, "-", i), nil))
		}
		_, err := many.Commit(t.Context())
		must(t, err)
	}
	for i := range 40 {
		_, err := store.Put(t.Context(), fmt.Sprint("key", i), make([]byte, 500))
		must(t, err)
		if i == 20 {
			must(t, errors.Join(h.db.Flush(), h.truncate()))
		}
	}
	for _, s := range h.shards {
		entries += s.log.LastIndex() - s.log.FirstIndex() + 1
	}
	return crash(whole, rand.New(rand.NewPCG(1, 1)), 0), entries
}

// TestVerifyEnds: Verify ends with its context at each point where it checks it, and reports
// nothing then. So does a Stepper's.
func TestVerifyEnds(t *testing.T) {
	noLeaks(t)
	fsys, _ := crashedPuts(t)
	c := VerifyConfig{Dir: "node", FS: fsys, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}}
	n, err := 0, context.Canceled
	for ; err != nil; n++ {
		var r VerifyReport
		if r, err = Verify(&endingContext{t.Context(), n}, c); err != nil && !errors.Is(err, context.Canceled) ||
			err == nil && len(r.Problems) > 0 {
			t.Fatalf("ended at check %d: %v, %q", n, err, r.Problems)
		}
	}
	if n < 6 {
		t.Errorf("it checks its context %d times", n)
	}
	files := take(t, fsys)
	segment := files[files.names(".ual")[0]]
	segment[len(segment)/2] ^= 0x10 // so that only the rows of tables are checked
	for c.FS, n, err = files.put(t), 0, context.Canceled; err != nil; n++ {
		if _, err = Verify(&endingContext{t.Context(), n}, c); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("with a damaged log, ended at check %d: %v", n, err)
		}
	}
	if n < 3 {
		t.Errorf("with a damaged log it checks its context %d times", n)
	}
	s := openStepped(t, kvConfig(fsys, Sync))
	defer func() { must(t, s.Close()) }()
	for n, err = 0, context.Canceled; err != nil; n++ {
		if _, err = s.Verify(&endingContext{t.Context(), n}, func(problem string) { t.Error(problem) }); err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Fatalf("ended at check %d: %v", n, err)
		}
	}
	if n < 3 {
		t.Errorf("a Stepper checks its context %d times", n)
	}
}

// TestVerifyCounts: the counts of a report are those of the directory.
func TestVerifyCounts(t *testing.T) {
	noLeaks(t)
	fsys, entries := crashedPuts(t)
	r, files := verify(t, fsys), take(t, fsys)
	closeHost(t, open(t, kvConfig(fsys, Sync)))
	want, tableBytes := []int64(nil), int64(0)
	for id := range engine.ShardID(3) {
		want = append(want, int64(rowsOf(t, fsys, id)))
	}
	for _, name := range files.names(".sst") {
		tableBytes += int64(len(files[name]))
	}
	if r.Entries != entries || entries < 10 || !slices.Equal(r.Rows, want) || r.Format != FormatVersion || r.Shards != 3 ||
		r.Segments != len(files.names(".ual")) || r.Tables != len(files.names(".sst")) || r.TableBytes != tableBytes ||
		r.LogBytes <= 0 || r.Elapsed <= 0 {
		t.Errorf("the report is %+v, want %d entries, %v rows, %d segments and %d tables of %d bytes", r, entries, want,
			len(files.names(".ual")), len(files.names(".sst")), tableBytes)
	}
	segment := files[files.names(".ual")[0]]
	segment[len(segment)/2] ^= 0x10 // so that only the rows of tables are checked
	r = verify(t, files.put(t))
	if len(r.Rows) != 3 || r.Rows[0] < 1 || r.Rows[1] < 1 || r.Rows[2] < 1 || len(r.Problems) == 0 {
		t.Errorf("with a damaged log %v rows are checked: %q", r.Rows, r.Problems)
	}
}

// TestProblemsAreBounded: problems beyond maxProblems are counted, and those of Pebble are dropped.
func TestProblemsAreBounded(t *testing.T) {
	for _, n := range []int{maxProblems - 1, maxProblems, maxProblems + 2} {
		v := &verification{}
		pebbles := &tables{verification: &verification{}, dir: "state"}
		for i := range n {
			v.problemf("%d", i)
			pebbles.complain(fmt.Sprint(i))
		}
		pebbles.tellComplaints()
		listed := min(n, maxProblems)
		if len(v.report.Problems) != listed || v.report.Unlisted != n-listed {
			t.Errorf("of %d problems %d are listed, and %d others counted", n, len(v.report.Problems), v.report.Unlisted)
		}
		if all := pebbles.report.Problems; len(all) != listed || all[0] != "state: 0" || pebbles.report.Unlisted != 0 {
			t.Errorf("of %d problems of Pebble %d are listed, the first is %q", n, len(all), all[0])
		}
	}
}

// TestVerifyReportsLogs: logs that do not match the state of a running replica.
func TestVerifyReportsLogs(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct {
		update func(a engine.Applied) raftlog.Update
		want   string
	}{
		"nothing": {func(engine.Applied) raftlog.Update { return raftlog.Update{} }, ""},
		"reset to the state": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{Reset: &raftlog.Position{Index: a.Index, Term: a.Term}}
		}, ""},
		"begins one later": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{Reset: &raftlog.Position{Index: a.Index + 1, Term: a.Term}}
		}, "begins at entry"},
		"another term": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{Reset: &raftlog.Position{Index: a.Index, Term: a.Term + 1},
				HardState: &raftpb.HardState{Term: new(a.Term + 1), Vote: new(uint64(1)), Commit: new(a.Index)}}
		}, "the state has applied it as of term"},
		"old term": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{HardState: &raftpb.HardState{Term: new(a.Term - 1), Vote: new(uint64(1)), Commit: new(a.Index)}}
		}, "its last entry is of term"},
		"commit at the end": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{HardState: &raftpb.HardState{Term: new(a.Term), Vote: new(uint64(1)), Commit: new(a.Index)}}
		}, ""},
		"commit behind the end": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{HardState: &raftpb.HardState{Term: new(a.Term), Vote: new(uint64(1)), Commit: new(a.Index + 1)}}
		}, "was committed, the last one is"},
		"no vote": {func(a engine.Applied) raftlog.Update {
			return raftlog.Update{HardState: &raftpb.HardState{Term: new(a.Term), Vote: new(uint64(0)), Commit: new(a.Index)}}
		}, ""},
	} {
		cfg := kvConfig(vfs.NewMem(), Sync)
		cfg.Shards = 1
		s := openStepped(t, cfg)
		u := c.update(s.State(0).Applied)
		if u.Reset != nil || u.HardState != nil {
			must(t, s.host.ual.Write([]raftlog.Update{u}))
		}
		var problems []string
		_, err := s.Verify(t.Context(), func(problem string) { problems = append(problems, problem) })
		must(t, err)
		if all := strings.Join(problems, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: reported %q, want %q", name, all, c.want)
		}
		s.abandon()
	}
}

// TestVerifyEntry: entries that a replica could not apply.
func TestVerifyEntry(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	defer closeHost(t, h)
	of := func(commands ...[]byte) []byte { return (&engine.Entry{Commands: commands}).AppendTo(nil) }
	skip := engine.Skip(0).AppendTo(nil)
	for name, c := range map[string]struct {
		e    *raftpb.Entry
		want string
	}{
		"of a new leader": {&raftpb.Entry{}, ""},
		"membership":      {&raftpb.Entry{Type: raftpb.EntryConfChange.Enum()}, "is of type EntryConfChange"},
		"garbage":         {&raftpb.Entry{Data: []byte("garbage")}, "entry version 103"},
		"a command":       {&raftpb.Entry{Data: of(skip)}, ""},
		"half a command":  {&raftpb.Entry{Data: of(skip, skip[:1])}, "command"},
		"unknown machine": {&raftpb.Entry{Data: of(skip, engine.Command{Machine: engine.MachineQueue, Kind: 1}.AppendTo(nil))},
			"unknown command: machine 3 kind 1"},
	} {
		got := ""
		if err := h.shards[0].verifyEntry(c.e); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
