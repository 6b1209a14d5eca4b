package overlayfs

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFS does random operations on an overlay and on a file system in memory that began as a copy
// of the one below, and compares every result. What lies below must not change.
func TestFS(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, round))
		base, model := vfs.NewMem(), vfs.NewMem()
		fill(t, rng, base, model)
		before := contents(t, base)
		m := &twin{t: t, rng: rng, overlay: New(base), model: model, open: make(map[string][2]vfs.File)}
		for range 300 {
			m.step()
		}
		m.close()
		if got, want := contents(t, m.overlay), contents(t, model); got != want {
			t.Fatalf("round %d: the overlay shows\n%.2000s\nwant\n%.2000s", round, got, want)
		}
		if after := contents(t, base); after != before {
			t.Fatalf("round %d: the file system below has changed", round)
		}
	}
}

// fill gives both file systems the same files.
func fill(t *testing.T, rng *rand.Rand, both ...vfs.FS) {
	t.Helper()
	for _, dir := range []string{"d", "d/e"} {
		for i := range 3 {
			content := make([]byte, rng.IntN(3*pageSize))
			for k := range content {
				content[k] = byte(rng.Uint32())
			}
			for _, fsys := range both {
				must(t, fsys.MkdirAll(dir, 0o700))
				must(t, writeFile(fsys, fmt.Sprintf("%s/f%d", dir, i), bytes.Clone(content)))
			}
		}
	}
}

// contents returns all files below "d" with what is in them.
func contents(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	var all bytes.Buffer
	for _, dir := range []string{"d", "d/e", "d/new"} {
		names, err := fsys.List(dir)
		slices.Sort(names)
		fmt.Fprintln(&all, dir, errors.Is(err, fs.ErrNotExist), names)
		for _, name := range names {
			if name = dir + "/" + name; name == "d/e" || name == "d/new" {
				continue
			}
			f, err := fsys.Open(name)
			must(t, err)
			b, err := io.ReadAll(f)
			must(t, err)
			must(t, f.Close())
			fmt.Fprintf(&all, "%s %d %08x\n", name, len(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return all.String()
}

// twin does each operation twice.
type twin struct {
	t              *testing.T
	rng            *rand.Rand
	overlay, model vfs.FS
	open           map[string][2]vfs.File // for writing, by the name they were opened by
	last           string
}

func (m *twin) name() string {
	return []string{"d/", "d/e/", "d/new/"}[m.rng.IntN(3)] + fmt.Sprint("f", m.rng.IntN(5))
}

// both does an operation on both file systems. Of errors it compares what kind they are.
func (m *twin) both(what string, op func(vfs.FS) error) (ok bool) {
	m.t.Helper()
	m.last = what
	got, want := op(m.overlay), op(m.model)
	if (got == nil) != (want == nil) || errors.Is(got, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
		m.t.Fatalf("%s: %v, want %v", what, got, want)
	}
	return got == nil
}

func (m *twin) step() {
	a, b := m.name(), m.name()
	if _, err := m.model.Stat(m.model.PathDir(b)); err != nil {
		b = "d/other" // a MemFS loses a file that is renamed into a directory that is not there
	}
	switch m.rng.IntN(9) {
	case 0:
		m.use(a, "create", func(fsys vfs.FS) (vfs.File, error) { return fsys.Create(a, "") })
	case 1, 2:
		m.use(a, "open", func(fsys vfs.FS) (vfs.File, error) { return fsys.OpenReadWrite(a, "") })
	case 3:
		m.both("remove "+a, func(fsys vfs.FS) error { return fsys.Remove(a) })
	case 4:
		if a != b {
			m.both("rename "+a+" "+b, func(fsys vfs.FS) error { return fsys.Rename(a, b) })
		}
	case 5:
		m.both("link "+a+" "+b, func(fsys vfs.FS) error { return fsys.Link(a, b) })
	case 6:
		if a != b {
			m.use(b, "reuse "+a, func(fsys vfs.FS) (vfs.File, error) { return fsys.ReuseForWrite(a, b, "") })
		}
	case 7:
		if m.rng.IntN(4) == 0 {
			m.both("mkdir", func(fsys vfs.FS) error { return fsys.MkdirAll("d/new", 0o700) })
		} else if m.rng.IntN(10) == 0 {
			m.both("remove all", func(fsys vfs.FS) error { return fsys.RemoveAll("d/e") })
			m.both("mkdir", func(fsys vfs.FS) error { return fsys.MkdirAll("d/e", 0o700) })
		}
	case 8:
		m.stat(a)
	}
	for name, pair := range m.open {
		m.write(name, pair)
		break
	}
	m.read(a)
}

// use opens a file on both sides and keeps it for a while.
func (m *twin) use(name, what string, open func(vfs.FS) (vfs.File, error)) {
	m.t.Helper()
	var pair [2]vfs.File
	ok := m.both(what+" "+name, func(fsys vfs.FS) error {
		f, err := open(fsys)
		if fsys == m.overlay {
			pair[0] = f
		} else {
			pair[1] = f
		}
		return err
	})
	if !ok {
		return
	}
	if old, open := m.open[name]; open {
		must(m.t, errors.Join(old[0].Close(), old[1].Close()))
	}
	m.open[name] = pair
}

func (m *twin) write(name string, pair [2]vfs.File) {
	m.t.Helper()
	b := make([]byte, m.rng.IntN(2*pageSize))
	if m.rng.IntN(3) > 0 {
		for i := range b {
			b[i] = byte(m.rng.Uint32())
		}
	}
	off := m.rng.Int64N(3 * pageSize)
	for _, f := range pair {
		if n, err := f.WriteAt(bytes.Clone(b), off); n != len(b) || err != nil {
			m.t.Fatalf("write %d bytes to %s at %d: %d, %v", len(b), name, off, n, err)
		}
	}
}

func (m *twin) read(name string) {
	m.t.Helper()
	off, size := m.rng.Int64N(5*pageSize), 1+m.rng.IntN(2*pageSize)
	var read [2][]byte
	m.both(fmt.Sprintf("read %d bytes of %s at %d", size, name, off), func(fsys vfs.FS) error {
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, size)
		n, err := f.ReadAt(b, off)
		if fsys == m.overlay {
			read[0] = b[:n]
			if (err == io.EOF) != (n < size) {
				m.t.Fatalf("read %d of %d bytes of %s at %d: %v", n, size, name, off, err)
			}
		} else {
			read[1] = b[:n]
		}
		if err == io.EOF {
			return nil
		}
		return err
	})
	if !bytes.Equal(read[0], read[1]) {
		m.t.Fatalf("after %s: %d bytes, want %d, or others", m.last, len(read[0]), len(read[1]))
	}
}

func (m *twin) stat(name string) {
	m.t.Helper()
	var sizes [2]int64
	m.both("stat "+name, func(fsys vfs.FS) error {
		info, err := fsys.Stat(name)
		if err == nil && fsys == m.overlay {
			sizes[0] = info.Size()
		} else if err == nil {
			sizes[1] = info.Size()
		}
		return err
	})
	if sizes[0] != sizes[1] {
		m.t.Fatalf("%s has %d bytes, want %d", name, sizes[0], sizes[1])
	}
}

func (m *twin) close() {
	for _, pair := range m.open {
		must(m.t, errors.Join(pair[0].Close(), pair[1].Close()))
	}
}

// TestOverlayFSZeros fills a large file beforehand: it must not take memory.
func TestOverlayFSZeros(t *testing.T) {
	o := New(vfs.NewMem())
	must(t, o.MkdirAll("d", 0o700))
	f, err := o.Create("d/f", "")
	must(t, err)
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := f.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	info, err := f.Stat()
	must(t, err)
	if pages := len(f.(*file).node.pages); info.Size() != 64<<20 || pages > 0 {
		t.Errorf("%d bytes in %d pages, want 64 MiB in none", info.Size(), pages)
	}
}

// TestOverlayFSRefuses: operations that a real file system refuses fail and change nothing, even
// where the in-memory one would allow them.
func TestOverlayFSRefuses(t *testing.T) {
	base := vfs.NewMem()
	must(t, base.MkdirAll("d/sub", 0o700))
	must(t, writeFile(base, "d/f", []byte("below")))
	o := New(base)
	must(t, o.MkdirAll("d/new/deep", 0o700))
	second := func(_ any, err error) error { return err }
	dir, err := o.OpenDir("d")
	must(t, err)
	file, err := o.Open("d/f")
	must(t, err)
	whole, err := o.OpenReadWrite("d/f", "")
	must(t, err)
	for name, c := range map[string]struct{ err, want error }{
		"create over a directory":         {second(o.Create("d/sub", "")), fs.ErrInvalid},
		"create in a file":                {second(o.Create("d/f/x", "")), fs.ErrInvalid},
		"create in no directory":          {second(o.Create("none/x", "")), fs.ErrNotExist},
		"open what is not there":          {second(o.Open("d/none")), fs.ErrNotExist},
		"link what is not there":          {o.Link("d/none", "d/x"), fs.ErrNotExist},
		"link to a name that there is":    {o.Link("d/f", "d/sub"), fs.ErrExist},
		"link into no directory":          {o.Link("d/f", "none/x"), fs.ErrNotExist},
		"rename a directory":              {o.Rename("d/sub", "d/x"), errors.ErrUnsupported},
		"rename what is not there":        {o.Rename("d/none", "d/x"), fs.ErrNotExist},
		"rename to a directory":           {o.Rename("d/f", "d/sub"), fs.ErrInvalid},
		"rename to itself":                {o.Rename("d/f", "d//f"), nil},
		"reuse what is not there":         {second(o.ReuseForWrite("d/none", "d/x", "")), fs.ErrNotExist},
		"remove what is not there":        {o.Remove("d/none"), fs.ErrNotExist},
		"remove all of what is not there": {o.RemoveAll("d/none"), nil},
		"make a directory of a file":      {o.MkdirAll("d/f", 0o700), fs.ErrExist},
		"make a directory again":          {o.MkdirAll("d/sub", 0o700), nil},
		"list a file":                     {second(o.List("d/f")), fs.ErrInvalid},
		"list what is not there":          {second(o.List("d/none")), fs.ErrNotExist},
		"read a directory":                {second(dir.ReadAt(make([]byte, 1), 0)), fs.ErrInvalid},
		"read before the beginning":       {second(file.ReadAt(make([]byte, 1), -1)), fs.ErrInvalid},
		"read at the end":                 {second(file.ReadAt(make([]byte, 1), 5)), io.EOF},
		"write what was opened to read":   {second(file.WriteAt([]byte("x"), 0)), fs.ErrPermission},
		"write before the beginning":      {second(whole.WriteAt([]byte("x"), -1)), fs.ErrPermission},
		"sync":                            {errors.Join(file.Sync(), file.SyncData(), file.Preallocate(0, 1), file.Prefetch(0, 1)), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if err := o.Remove("d"); err == nil {
		t.Error("a directory with files is removed")
	}
	if full, err := file.SyncTo(1); full || err != nil {
		t.Errorf("SyncTo = %v, %v", full, err)
	}
	for _, part := range []string{"bel", "ow", ""} {
		b := make([]byte, 3)
		n, err := file.Read(b)
		if string(b[:n]) != part || (err == io.EOF) != (part == "") {
			t.Errorf("read %q, %v, want %q", b[:n], err, part)
		}
	}
	for _, part := range []string{"BE", "L"} {
		if n, err := whole.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	must(t, errors.Join(file.Close(), whole.Close(), dir.Close()))
	if b, err := readFile(o, "d/f"); string(b) != "BELow" || err != nil {
		t.Errorf("written %q, %v", b, err)
	}
	for name, mode := range map[string]fs.FileMode{"d/f": 0o600, "d/sub": fs.ModeDir | 0o700, "d/new": fs.ModeDir | 0o700} {
		info, err := o.Stat(name)
		must(t, err)
		if info.Mode() != mode || info.IsDir() != mode.IsDir() || info.Name() != o.PathBase(name) || info.Sys() != nil ||
			info.ModTime().IsZero() && name == "d/new" {
			t.Errorf("%s is %v", name, info)
		}
	}
	if usage, err := o.GetDiskUsage("d"); err != nil || usage.AvailBytes < 1<<40 || o.Unwrap() != nil {
		t.Errorf("GetDiskUsage = %+v, %v", usage, err)
	}
	must(t, o.RemoveAll("d/new"))
	must(t, o.Remove("d/sub"))
	if names, err := o.List("d"); err != nil || !slices.Equal(names, []string{"f"}) {
		t.Errorf("List = %q, %v", names, err)
	}
	if names, err := base.List("d"); err != nil || len(names) != 2 {
		t.Errorf("below there are %q, %v", names, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(fsys vfs.FS, name string, content []byte) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
