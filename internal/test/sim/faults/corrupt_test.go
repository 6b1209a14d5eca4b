package faults

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/shard"
)

var corruptCases = flag.Int("corrupt-cases", 100, "damaged directories that are opened")

// TestCorrupt damages part of a node's directory: a bit, a block, the end of a file, a file, two
// files. The node must never give a wrong answer. Either it does not open and names the file, or
// calls that need the damaged part fail, or the damage is harmless. If it does not open, nothing
// may have been removed. Only data that the log cannot know to have been durable may be lost.
func TestCorrupt(t *testing.T) {
	cases := *corruptCases
	if testing.Short() {
		cases = 20
	}
	seed := rigSeed(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	var bases []*corruptBase
	for _, d := range []shard.Durability{shard.Sync, shard.Async} {
		for _, clean := range []bool{true, false} {
			b, err := newCorruptBase(rng.Uint64(), d, clean)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			bases = append(bases, b)
		}
	}
	found := make(map[string]int)
	for n := range cases {
		b := bases[n%len(bases)]
		what, outcome, err := b.damaged(rand.New(rand.NewPCG(seed, uint64(n)+1000)), n/len(bases))
		if err != nil {
			t.Errorf("seed %d, case %d: %v, %s: %v", seed, n, b, what, err)
		}
		found[outcome]++
	}
	t.Logf("%d cases: %v", cases, found)
	if !testing.Short() && (found["not opened"] < cases/4 || found["harmless"] < cases/20) {
		t.Error("too few of something for this to prove anything")
	}
}

// corruptBase is a directory to damage, and its expected contents.
type corruptBase struct {
	*pointRun
	clean bool
	names []string // of its files, in order
	marks []corruptMark
}

// corruptMark is a moment of the log: what was acknowledged, and where the log ended.
type corruptMark struct {
	name  string // of the segment
	end   int64
	sync  bool // everything so far was known to be durable when the next record was written
	floor [rigShards]rigCut
}

func (b *corruptBase) String() string {
	state := "killed"
	if b.clean {
		state = "closed"
	}
	return fmt.Sprintf("%v node that was %s", b.durability, state)
}

// newCorruptBase makes a directory with several segments of the log and tables of the state. The
// log holds entries that the tables do not.
func newCorruptBase(seed uint64, d shard.Durability, clean bool) (*corruptBase, error) {
	b := &corruptBase{pointRun: newPointRun(seed, d), clean: clean}
	b.load.onAck = func() error { b.mark(d == shard.Sync); return nil }
	compact := func() error { return b.rig.stepper.Compact() }
	flush := func() error { return b.rig.stepper.Flush() }
	truncate := func() error { return b.rig.stepper.Truncate() }
	acts := func(n int) func() error { return func() error { return b.acts(n) } }
	script := []func() error{
		b.open, acts(40), flush, truncate, acts(30), flush, compact, acts(40), flush, truncate, acts(30), b.syncMarked, acts(40),
		b.syncMarked, acts(2),
	}
	if clean {
		script = append(script, b.close)
	} else {
		script = append(script, b.kill)
	}
	for _, step := range script {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if !clean {
		// A file left behind by a node that was receiving a snapshot.
		if err := rigWrite(b.mem, rigDir+"/state/snapshot-1-1", bytes.Repeat([]byte("half a snapshot "), 1000)); err != nil {
			return nil, err
		}
	}
	files, err := rigFiles(b.mem)
	b.names = slices.Sorted(maps.Keys(files))
	return b, err
}

func (b *corruptBase) syncMarked() error {
	if err := b.sync(); err != nil {
		return err
	}
	b.mark(true)
	return nil
}

func (b *corruptBase) mark(sync bool) {
	name, end := b.disk.lastLogWrite()
	b.marks = append(b.marks, corruptMark{name, end, sync, b.ledger.floor(false)})
}

// damaged damages a copy of the directory and describes the outcome.
func (b *corruptBase) damaged(rng *rand.Rand, n int) (what, outcome string, err error) {
	left, d, err := corruptCopy(b.mem, b.names, rng, n)
	if err != nil {
		return "", "", err
	}
	outcome, err = b.judge(left, d)
	return d.what, outcome, err
}

// corruptCopy returns a damaged copy of a directory.
func corruptCopy(mem *vfs.MemFS, names []string, rng *rand.Rand, n int) (*vfs.MemFS, *corruptDamage, error) {
	left, err := rigKill(mem)
	if err != nil {
		return nil, nil, err
	}
	files, err := rigFiles(left)
	if err != nil {
		return nil, nil, err
	}
	d := &corruptDamage{rng: rng, files: files, name: corruptPick(names, rng, n)}
	d.choose(corruptPick(names, rng, rng.IntN(100)))
	for _, name := range slices.Sorted(maps.Keys(d.changed)) {
		if err := rigReplace(left, name, d.changed[name]); err != nil {
			return nil, nil, err
		}
	}
	return left, d, nil
}

// corruptPick chooses a file. Each kind of file has the same probability, however many files it
// has.
func corruptPick(names []string, rng *rand.Rand, n int) string {
	kinds := make(map[string][]string)
	for _, name := range names {
		kinds[corruptKind(name)] = append(kinds[corruptKind(name)], name)
	}
	names = kinds[slices.Sorted(maps.Keys(kinds))[n%len(kinds)]]
	return names[rng.IntN(len(names))]
}

// corruptKind returns the kind of a file.
func corruptKind(name string) string {
	base := name[strings.LastIndex(name, "/")+1:]
	for _, kind := range []string{"FORMAT", "LOCK", ".spare", ".ual", ".sst", "MANIFEST-", "OPTIONS-", "marker.format", "marker.manifest",
		"snapshot-"} {
		if strings.Contains(base, kind) {
			return kind
		}
	}
	return "other"
}

// corruptDamage is the damage done to a directory.
type corruptDamage struct {
	rng     *rand.Rand
	files   map[string][]byte
	name    string
	what    string
	from    int64             // first byte that differs
	to      int64             // first byte after it that is equal again
	changed map[string][]byte // nil: removed
}

// choose applies one kind of damage.
func (d *corruptDamage) choose(other string) {
	b := slices.Clone(d.files[d.name])
	size := len(b)
	d.changed = map[string][]byte{d.name: b}
	d.to = int64(size)
	kind := d.rng.IntN(5)
	if size == 0 && kind < 3 {
		kind = 3
	}
	switch kind {
	case 0:
		at := d.rng.IntN(size)
		b[at] ^= 1 << d.rng.IntN(8)
		d.from, d.to = int64(at), int64(at)+1
		d.what = fmt.Sprintf("bit of byte %d of %s (%d bytes) flipped", at, d.name, size)
	case 1:
		at := d.rng.IntN((size+4095)/4096) * 4096
		clear(b[at:min(at+4096, size)])
		d.from, d.to = int64(at), int64(min(at+4096, size))
		d.what = fmt.Sprintf("block at %d of %s (%d bytes) zeroed", at, d.name, size)
	case 2:
		at := d.rng.IntN(size)
		d.changed[d.name] = b[:at]
		d.from = int64(at)
		d.what = fmt.Sprintf("%s cut to %d of %d bytes", d.name, at, size)
	case 3:
		d.changed[d.name] = nil
		d.what = d.name + " removed"
	default:
		same := []string{}
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			if name != d.name && corruptKind(name) == corruptKind(d.name) {
				same = append(same, name)
			}
		}
		if len(same) > 0 && d.rng.IntN(3) > 0 {
			other = same[d.rng.IntN(len(same))]
		}
		d.changed[d.name], d.changed[other] = d.files[other], d.files[d.name]
		d.what = fmt.Sprintf("%s and %s swapped", d.name, other)
	}
}

// floor returns what must be there if the node opens. Writes at the end of the log may be lost with
// it, unless a record after the damage shows that they were durable.
func (b *corruptBase) floor(d *corruptDamage) [rigShards]rigCut {
	all := b.ledger.floor(false)
	last := b.marks[len(b.marks)-1]
	if b.clean && d.to < int64(len(d.files[d.name])) {
		return all
	}
	if _, hit := d.changed[last.name]; !hit {
		return all
	}
	floor, durable := [rigShards]rigCut{}, false
	for _, m := range b.marks {
		switch {
		case m.name != last.name || m.end <= d.from:
			floor = m.floor
		case durable && m.end > d.to && b.intactFrom(m) >= d.to:
			return all // its record says so
		}
		durable = durable || m.sync && m.name == last.name && m.end > d.from
	}
	return floor
}

// intactFrom returns where the log ended before a mark.
func (b *corruptBase) intactFrom(m corruptMark) int64 {
	before := int64(0)
	for _, o := range b.marks {
		if o.name == m.name && o.end < m.end {
			before = o.end
		}
	}
	return before
}

// judge opens the damaged directory and reads everything in it.
func (b *corruptBase) judge(left *vfs.MemFS, d *corruptDamage) (string, error) {
	before, err := rigFiles(left)
	if err != nil {
		return "", err
	}
	disk := newPointFS(left)
	disk.suspect()
	defer disk.freeze()
	r, err := openRig(b.config(disk), disk)
	if r == nil {
		return "not opened", errors.Join(d.named(err), rigUntouched(left, before))
	}
	defer func() { _ = r.crash() }()
	if err != nil {
		return "stopped", d.named(errors.Join(err, r.failure()))
	}
	floor := b.ledger.upToNow(b.floor(d))
	if _, err := b.ledger.verify(r, floor); err != nil {
		return "read fails", d.honest(r, err)
	}
	if err := errors.Join(r.call(r.stepper.Flush), r.call(r.stepper.Compact)); err != nil {
		return "compaction fails", d.honest(r, err)
	}
	if _, err := b.ledger.verify(r, floor); err != nil {
		return "read fails", d.honest(r, err)
	}
	return "harmless", nil
}

// honest returns an error unless it is that of a read or write that failed because of the damage.
func (d *corruptDamage) honest(r *rig, err error) error {
	if errors.Is(err, errParked) || r.failure() != nil {
		return d.named(r.failure())
	}
	if strings.Contains(err.Error(), "corrupt") || strings.Contains(err.Error(), "checksum") {
		return nil
	}
	return err
}

// named checks that an error names the damaged file and, in the log, the place. For the state, its
// directory suffices.
func (d *corruptDamage) named(err error) error {
	for name := range d.changed {
		base := name[strings.LastIndex(name, "/")+1:]
		switch {
		case strings.Contains(err.Error(), base) && (corruptKind(name) != ".ual" || strings.Contains(err.Error(), "offset")):
			return nil
		case strings.HasPrefix(name, rigDir+"/state/") && strings.Contains(err.Error(), rigDir+"/state"):
			return nil
		case strings.HasPrefix(name, rigDir+"/log/") && strings.Contains(err.Error(), "part of") && strings.Contains(err.Error(), " log "):
			return nil
		case strings.HasPrefix(name, rigDir+"/log/") && strings.Contains(err.Error(), rigDir+"/log/0") &&
			strings.Contains(err.Error(), "missing"):
			return nil
		}
	}
	return fmt.Errorf("the error does not name what is damaged: %w", err)
}

// TestTrioCorrupt damages the directory of one of three nodes while it is down. The node does not
// open, or stops, or becomes equal to the others, and these continue to work.
func TestTrioCorrupt(t *testing.T) {
	cases := *corruptCases / 3
	if testing.Short() {
		cases = 6
	}
	seed := rigSeed(t)
	cryptotest.SetGlobalRandom(t, seed)
	r, err := newTrioRun(seed, func(int, pointOp) *pointFault { return nil })
	if err == nil {
		err = errors.Join(r.run(), r.down(trioVictim), r.acts(6))
	}
	if err != nil {
		t.Fatal(err)
	}
	var disks [3]*vfs.MemFS
	for i, n := range r.nodes {
		disks[i] = n.mem
	}
	if err := errors.Join(r.down(0), r.down(1)); err != nil {
		t.Fatal(err)
	}
	files, err := rigFiles(disks[trioVictim])
	if err != nil {
		t.Fatal(err)
	}
	names, found := slices.Sorted(maps.Keys(files)), make(map[string]int)
	for n := range cases {
		rng := rand.New(rand.NewPCG(seed, uint64(n)+2000))
		left, d, err := corruptCopy(disks[trioVictim], names, rng, n)
		outcome := ""
		if err == nil {
			outcome, err = r.corrupted(disks, left, d)
		}
		if err != nil {
			t.Fatalf("seed %d, case %d: %s: %v", seed, n, d.what, err)
		}
		found[outcome]++
	}
	t.Logf("%d cases: %v", cases, found)
	if !testing.Short() && (found["not opened"] < cases/4 || found["healed"] < cases/20) {
		t.Error("too few of something for this to prove anything")
	}
}

// corrupted starts the cluster with the third node on a damaged directory.
func (r *trioRun) corrupted(disks [3]*vfs.MemFS, left *vfs.MemFS, d *corruptDamage) (outcome string, err error) {
	before, err := rigFiles(left)
	if err != nil {
		return "", err
	}
	clock := *r.clock
	t := &trio{clock: &clock}
	for i := range disks {
		mem := left
		if i != trioVictim {
			if mem, err = rigKill(disks[i]); err != nil {
				return "", err
			}
		}
		t.nodes[i] = &trioNode{mem: mem, disk: newPointFS(mem)}
	}
	victim := t.nodes[trioVictim]
	victim.disk.suspect()
	defer victim.disk.freeze()
	defer t.end()
	if err := errors.Join(t.start(0), t.start(1)); err != nil {
		return "", err
	}
	if err := t.start(trioVictim); err != nil {
		victim.rig, outcome = nil, "not opened"
		if err := errors.Join(d.named(err), rigUntouched(left, before)); err != nil {
			return "", err
		}
	}
	err = t.lead(0)
	if err == nil {
		err = t.level()
	}
	if victim.rig != nil && victim.failure() != nil {
		_ = t.down(trioVictim)
		outcome = "stopped"
		if err = d.named(victim.stopped); err == nil {
			err = t.level()
		}
	}
	if err != nil {
		return "", err
	}
	_, err = r.ledger.verify(t.leader, r.ledger.upToNow(r.ledger.floor(false)))
	return cmp.Or(outcome, "healed"), err
}

// rigUntouched checks that everything that existed before still exists unchanged.
func rigUntouched(fsys *vfs.MemFS, before map[string][]byte) error {
	after, err := rigFiles(fsys)
	if err != nil {
		return err
	}
	for name, want := range before {
		if kind := corruptKind(name); kind == "LOCK" || kind == ".spare" {
			continue // these have no contents that are ever read
		}
		if got, ok := after[name]; !ok || !bytes.Equal(got, want) {
			err = errors.Join(err, fmt.Errorf("%s (there: %v) is not what it was (checksum %08x)", name, ok, crc32.ChecksumIEEE(want)))
		}
	}
	return err
}

// rigFiles returns the contents of every file of a node.
func rigFiles(fsys *vfs.MemFS) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, dir := range []string{rigDir, rigDir + "/log", rigDir + "/state"} {
		names, err := fsys.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			path := dir + "/" + name
			if info, err := fsys.Stat(path); err != nil || info.IsDir() {
				continue
			}
			f, err := fsys.Open(path)
			if err != nil {
				return nil, err
			}
			b, err := io.ReadAll(f)
			if err = errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
			files[path] = b
		}
	}
	return files, nil
}

// rigReplace replaces the contents of a file, or removes it.
func rigReplace(fsys *vfs.MemFS, name string, b []byte) error {
	if b == nil {
		return fsys.Remove(name)
	}
	return rigWrite(fsys, name, b)
}

func rigWrite(fsys *vfs.MemFS, name string, b []byte) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Clone(b))
	return errors.Join(err, f.Sync(), f.Close())
}
