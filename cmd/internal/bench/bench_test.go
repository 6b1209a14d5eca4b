package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestMain lets the test binary be the processes that rows start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-"+idleFlag || os.Args[1] == "-"+memberFlag) {
		main()
		return
	}
	os.Exit(m.Run())
}

// tiny is a bench whose rounds are as short as can be.
func tiny(t *testing.T) *bench {
	return &bench{
		settings: settings{rounds: 1, last: 10 * time.Millisecond, shards: []int{2}, fsync: time.Millisecond, keys: 2000, hot: 500,
			puts: 500, tail: 500, counted: 10, behind: 2000},
		values: newValues(1), seed: 1, dir: t.TempDir(), log: t.Logf, sync: func() {},
	}
}

// TestRowsMeasure measures every row, with hardly any data, and checks that its figures are there.
func TestRowsMeasure(t *testing.T) {
	b := tiny(t)
	for _, r := range b.rows() {
		t.Run(r.name, func(t *testing.T) {
			m, err := b.measure(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, absent := r.work.(nothing); absent {
				return // what it compares with is not on this machine, and the row says so
			}
			if r.absolute {
				// A difference of two times may be negative on a busy machine.
				if math.IsNaN(m.value) || math.IsInf(m.value, 0) || m.value == 0 && r.unit == "ms" {
					t.Errorf("%s: %v %s", r.name, m.value, r.unit)
				}
				return
			}
			if m.ratio <= 0 || m.rate <= 0 || m.limit.rate <= 0 || m.p50 <= 0 || m.p99 < m.p50 {
				t.Errorf("%s: %+v, want figures", r.name, m.result)
			}
		})
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v are left in the directory, want two of stored keys and one of overwritten ones", left, err)
	}
}

func TestIdle(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := idle(filepath.Join(t.TempDir(), "node"), r); err != nil {
		t.Error(err)
	}
}

// TestKeys checks that no two callers ever make the same key, that stored keys are not made again,
// and that keys are spread.
func TestKeys(t *testing.T) {
	const existing, callers, each = 100, 3, 2*keysPerChunk + 5
	seen := make(map[string]bool)
	for i := range uint64(existing) {
		seen[keyOf(i)] = true
	}
	first := make(map[byte]int)
	for _, w := range (load{callers: callers, existing: existing}).workers(1) {
		for range each {
			k := w.keys.take()
			if len(k) != keyBytes || seen[k] {
				t.Fatalf("key %q is made twice or not of %d bytes", k, keyBytes)
			}
			seen[k] = true
			first[k[0]]++
		}
		for _, k := range w.picks {
			if !seen[k] {
				t.Fatalf("a caller picks %q, which does not exist", k)
			}
		}
	}
	for c, n := range first {
		if want := callers * each / 16; n < want*8/10 || n > want*12/10 {
			t.Errorf("%d keys begin with %c, want about %d", n, c, want)
		}
	}
	if len(first) != 16 {
		t.Errorf("keys begin with %d digits, want 16", len(first))
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 5}, 5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

// TestGroupCommit checks that the limit has written and synced what it says: every append once,
// whole, and on disk on return.
func TestGroupCommit(t *testing.T) {
	fs := vfs.NewCrashableMem()
	f, err := fs.Create("segment", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := fs.OpenDir(""); err != nil || dir.Sync() != nil {
		t.Fatal("sync directory", err)
	}
	g := newGroupCommit(f)
	const callers, each, size = 20, 50, 8
	var done sync.WaitGroup
	for c := range callers {
		done.Go(func() {
			for i := range each {
				if err := g.append(appendKey(nil, uint64(c*each+i))[:size]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	survived, err := fs.CrashClone(vfs.CrashCloneCfg{}).Open("segment")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, callers*each*size)
	if n, err := survived.ReadAt(got, 0); n != len(got) {
		t.Fatalf("%d of %d bytes survive, %v", n, len(got), err)
	}
	var records, want []string
	for i := range callers * each {
		records = append(records, string(got[i*size:(i+1)*size]))
		want = append(want, keyOf(uint64(i))[:size])
	}
	slices.Sort(records)
	slices.Sort(want)
	if !slices.Equal(records, want) {
		t.Error("the file does not hold each record once")
	}
}

// failingFile fails its second sync.
type failingFile struct {
	vfs.File
	syncs int
}

var errDisk = errors.New("the disk is gone")

func (f *failingFile) SyncData() error {
	if f.syncs++; f.syncs > 1 {
		return errDisk
	}
	return nil
}

func TestGroupCommitTellsErrors(t *testing.T) {
	mem, err := vfs.NewMem().Create("segment", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	g := newGroupCommit(&failingFile{File: mem})
	if err := g.append([]byte("a")); err != nil {
		t.Error(err)
	}
	if err := g.append([]byte("b")); !errors.Is(err, errDisk) {
		t.Errorf("append = %v, want %v", err, errDisk)
	}
}

func TestSlowFS(t *testing.T) {
	const delay = 20 * time.Millisecond
	f, err := newFS(delay).Create(filepath.Join(t.TempDir(), "file"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, sync := range map[string]func() error{"Sync": f.Sync, "SyncData": f.SyncData} {
		start := time.Now()
		if err := sync(); err != nil || time.Since(start) < delay {
			t.Errorf("%s took %v, %v, want at least %v", name, time.Since(start), err, delay)
		}
	}
}

func TestRender(t *testing.T) {
	on := machine{cpu: "A CPU", cores: 2, kernel: "6.1", fs: "ext4", goVersion: "go1.26", date: "2026-11-21"}
	got := render(on, "Medians of 5 rounds of 10s.", []measured{
		{row{name: "put/64/shards=1", against: "L1", bar: 0.7}, result{
			ratio:   0.654,
			figures: figures{rate: 1234567.8, p50: 1234567, p99: 23 * time.Millisecond, allocs: 12.34, written: 2.5},
			limit:   figures{rate: 2000000, written: 1.3},
		}},
		{row{name: "recycled/1", against: "L1"}, result{ratio: 2, figures: figures{rate: 10}, limit: figures{rate: 5}}},
		{row{name: "open/empty", bar: 100, unit: "ms", absolute: true}, result{value: 12.34}},
		{row{name: "allocs/get", bar: 0, unit: "allocs", absolute: true}, result{value: 1}},
		{row{name: "rest/get/64", bar: 40_000, unit: "requests/s", absolute: true, more: true},
			result{value: 39_999, figures: figures{p50: time.Millisecond, p99: time.Second}}},
	})
	want := `A CPU, 2 cores, linux 6.1, ext4, go1.26, 2026-11-21. Medians of 5 rounds of 10s.

| row | floe ops/s | limit ops/s | ratio | bar | p50 | p99 | written/user byte | allocs |
|---|---|---|---|---|---|---|---|---|
| put/64/shards=1 | 1,234,568 | L1 2,000,000 | 0.65 | >= 0.70, missed | 1.23ms | 23ms | 2.5 (limit 1.3) | 12.3 |
| recycled/1 | 10 | L1 5 | 2.00 |  |  |  |  | 0.0 |
| open/empty | 12.3 ms |  |  | <= 100 ms |  |  |  |  |
| allocs/get | 1.0 allocs |  |  | <= 0 allocs, missed |  |  |  |  |
| rest/get/64 | 39,999 requests/s |  |  | >= 40,000 requests/s, missed | 1ms | 1s |  |  |
`
	if got != want {
		t.Errorf("render =\n%s\nwant\n%s", got, want)
	}
}

func TestReplaceTable(t *testing.T) {
	const text = "# floe\n\n" + beginMark + "old\n" + endMark + "rest\n"
	got, err := replaceTable(text, "new\n")
	if want := "# floe\n\n" + beginMark + "\nnew\n\n" + endMark + "rest\n"; err != nil || got != want {
		t.Errorf("replaceTable = %q, %v, want %q", got, err, want)
	}
	again, err := replaceTable(got, "new\n")
	if err != nil || again != got {
		t.Errorf("replaced again = %q, %v, want the same", again, err)
	}
	for _, bad := range []string{"", beginMark, endMark + beginMark} {
		if got, err := replaceTable(bad, "new"); err == nil {
			t.Errorf("replaceTable(%q) = %q, want an error", bad, got)
		}
	}
}

// TestPageHasMarks checks that make bench finds where the table goes.
func TestPageHasMarks(t *testing.T) {
	text, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceTable(string(text), "table"); err != nil {
		t.Errorf("docs/performance.md: %v", err)
	}
}

func TestBaseline(t *testing.T) {
	ratio := func(name string, ratio float64) measured {
		return measured{row{name: name, against: "L1"}, result{ratio: ratio}}
	}
	value := func(name string, value float64) measured {
		return measured{row{name: name, unit: "allocs", absolute: true}, result{value: value}}
	}
	name := filepath.Join(t.TempDir(), "baseline.json")
	write := func(form string, all ...measured) baseline {
		t.Helper()
		if err := (baseline{Form: form}).write(name, all); err != nil {
			t.Fatal(err)
		}
		base, err := readBaseline(name)
		if err != nil {
			t.Fatal(err)
		}
		return base
	}
	rate := func(rate float64) measured {
		return measured{row{name: "rest", unit: "requests/s", absolute: true, more: true}, result{value: rate}}
	}
	write("short", ratio("put", 0.4), value("allocs", 6), rate(1000))
	base := write("short", ratio("get", 0.8)) // rows that were not measured stay
	for _, c := range []struct {
		m    measured
		want string // of the error
	}{
		{ratio("put", 0.5), ""},
		{ratio("put", 0.341), ""},
		{ratio("put", 0.339), "put: ratio 0.339 to L1 is below 0.85 of the baseline's 0.400"},
		{ratio("get", 0.6), "get: ratio 0.600 to L1 is below 0.85 of the baseline's 0.800"},
		{value("allocs", 7.1), ""},
		{value("allocs", 7.3), "allocs: 7.3 allocs, was 6.0 in the baseline"},
		{rate(851), ""},
		{rate(849), "rest: 849 requests/s, was 1000 in the baseline"},
		{ratio("new", 1), "new: not in the baseline"},
	} {
		if err := base.check(c.m); (err != nil) != (c.want != "") || err != nil && err.Error() != c.want {
			t.Errorf("check(%s) = %v, want %q", c.m.name, err, c.want)
		}
	}
	if base = write("full", ratio("get", 0.8)); len(base.Rows) != 1 {
		t.Errorf("a baseline of another form holds %v, want only the row just measured", base.Rows)
	}
}

// TestFormsAreNotMixed checks that figures of another form than the baseline's are refused before
// anything is measured.
func TestFormsAreNotMixed(t *testing.T) {
	b := tiny(t)
	name := filepath.Join(t.TempDir(), "baseline.json")
	if err := (baseline{Form: "another"}).write(name, nil); err != nil {
		t.Fatal(err)
	}
	untouchable := row{name: "untouchable", work: duel{limit: func(string) (*subject, error) {
		t.Error("something is measured")
		return nil, errDisk
	}}}
	err := b.report([]row{untouchable}, options{check: true, baseline: name})
	if err == nil || !strings.Contains(err.Error(), "was measured with another, this is to be medians of 1 rounds") {
		t.Errorf("report = %v, want an error that names both forms", err)
	}
}

func TestCompareMeasuresTwice(t *testing.T) {
	base := baseline{Form: "short", Rows: map[string]float64{"lucky": 1, "slow": 1, "good": 1}}
	var all []measured
	for name, ratio := range map[string]float64{"lucky": 0.5, "slow": 0.5, "good": 1} {
		all = append(all, measured{row{name: name, against: "L1"}, result{ratio: ratio}})
	}
	var again []string
	err := base.compare(all, func(m measured) (measured, error) {
		again = append(again, m.name)
		if m.name == "lucky" {
			m.ratio = 0.9
		}
		return m, nil
	})
	slices.Sort(again)
	if !slices.Equal(again, []string{"lucky", "slow"}) {
		t.Errorf("measured again: %v, want those below the baseline", again)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "slow:") {
		t.Errorf("compare = %v, want the error of slow alone", err)
	}
}

func TestChoose(t *testing.T) {
	var all []row
	for _, name := range []string{"put/6/a", "put/64/a", "put/64/a/slow", "get"} {
		all = append(all, row{name: name, short: name == "get"})
	}
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{}, "put/6/a put/64/a put/64/a/slow get"},
		{options{short: true}, "get"},
		{options{only: "put/6"}, "put/6/a"},
		{options{only: "put/64/a"}, "put/64/a put/64/a/slow"},
		{options{only: "=put/64/a"}, "put/64/a"},
		{options{only: "get,put/64", short: true}, "put/64/a put/64/a/slow get"},
		{options{only: "ge"}, ""},
	} {
		var names []string
		for _, r := range choose(all, c.o) {
			names = append(names, r.name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("choose(%+v) = %s, want %s", c.o, got, c.want)
		}
	}
}

func TestMachine(t *testing.T) {
	const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:5 / /data rw - tmpfs tmpfs rw
31 22 0:6 / /data rw shared:2 - xfs /dev/vdb rw
`
	for dir, want := range map[string]mount{
		"/tmp/x":    {"254:0", "/", "ext4"},
		"/data":     {"0:6", "/data", "xfs"},
		"/data/a/b": {"0:6", "/data", "xfs"},
		"/database": {"254:0", "/", "ext4"},
	} {
		if got := mountOf(mounts, dir); got != want {
			t.Errorf("mountOf(%s) = %v, want %v", dir, got, want)
		}
	}
	if got := cpuModel("processor\t: 0\nmodel name\t: A CPU\nmodel name\t: Another\n"); got != "A CPU" {
		t.Errorf("cpuModel = %q", got)
	}
	if got, err := field("Name:\tx\nVmRSS:\t   1234 kB\n", "VmRSS"); got != 1234 || err != nil {
		t.Errorf("field = %d, %v, want 1234", got, err)
	}
	if _, err := field("Name:\tx\n", "VmRSS"); err == nil {
		t.Error("a missing field is no error")
	}
}

// TestProfile checks that a profile of each kind is written.
func TestProfile(t *testing.T) {
	b := tiny(t)
	b.profiles, b.profiling = t.TempDir(), "put"
	if _, err := b.rows()[0].work.(profiled).profile(b); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"cpu", "allocs", "block", "mutex"} {
		if info, err := os.Stat(b.profileFile(kind)); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, %v, want a file that is not empty", kind, info, err)
		}
	}
}

// TestFormsAreWhole: a form that leaves out how much is measured measures nothing, or panics.
func TestFormsAreWhole(t *testing.T) {
	for _, args := range [][]string{nil, {"-short"}} {
		_, s, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		for field, v := range reflect.ValueOf(s).Fields() {
			if v.IsZero() {
				t.Errorf("%v: %s is 0", args, field.Name)
			}
		}
	}
}
