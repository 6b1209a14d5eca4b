package faults

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPointFS checks the file system under the suites. It calls before for every operation, a
// failed operation has no effect, and a short write has half of its effect.
func TestPointFS(t *testing.T) {
	mem := vfs.NewCrashableMem()
	disk := newPointFS(mem)
	var asked []string
	failing := ""
	disk.watch(func(op pointOp) *pointFault {
		asked = append(asked, op.kind)
		if op.kind == failing {
			return &pointFault{err: syscall.EIO, short: true}
		}
		return nil
	})
	steps := []struct {
		kind string
		do   func() error
	}{
		{"mkdir", func() error { return disk.MkdirAll("d", 0o700) }},
		{"create", func() error { return pointClose(disk.Create("d/a", vfs.WriteCategoryUnspecified)) }},
		{"open-write", func() error { return pointClose(disk.OpenReadWrite("d/a", vfs.WriteCategoryUnspecified)) }},
		{"open", func() error { return pointClose(disk.Open("d/a")) }},
		{"open-dir", func() error { return pointClose(disk.OpenDir("d")) }},
		{"link", func() error { return disk.Link("d/a", "d/b") }},
		{"rename", func() error { return disk.Rename("d/b", "d/c") }},
		{"reuse", func() error { return pointClose(disk.ReuseForWrite("d/c", "d/e", vfs.WriteCategoryUnspecified)) }},
		{"list", func() error { _, err := disk.List("d"); return err }},
		{"stat", func() error { _, err := disk.Stat("d/a"); return err }},
		{"remove", func() error { return disk.Remove("d/e") }},
		{"remove-all", func() error { return disk.RemoveAll("d/e") }},
		{"lock", func() error {
			l, err := disk.Lock("d/LOCK")
			if err == nil {
				err = l.Close()
			}
			return err
		}},
	}
	for _, s := range steps {
		before := mem.String()
		asked, failing = nil, s.kind
		if err := s.do(); !errors.Is(err, syscall.EIO) || mem.String() != before {
			t.Errorf("%s on a failing disk = %v, and left\n%swant the failure, and\n%s", s.kind, err, mem.String(), before)
		}
		failing = ""
		if err := s.do(); err != nil || !slices.Equal(asked, []string{s.kind, s.kind}) {
			t.Errorf("%s = %v, asked %v; want to be asked once each time", s.kind, err, asked)
		}
	}
	f, err := disk.OpenReadWrite("d/a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	failing = "write"
	for _, write := range []func() (int, error){
		func() (int, error) { return f.Write([]byte("0123")) },
		func() (int, error) { return f.WriteAt([]byte("4567"), 2) },
	} {
		if n, err := write(); n != 2 || !errors.Is(err, syscall.EIO) {
			t.Errorf("short write = %d, %v; want 2 and the failure", n, err)
		}
	}
	failing = ""
	if b, err := io.ReadAll(io.NewSectionReader(f, 0, 10)); string(b) != "0145" || err != nil {
		t.Errorf("after two short writes the file holds %q, %v; want 0145", b, err)
	}
	failing = "sync"
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Sync on a failing disk = %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if !disk.hasFailed() || disk.parks() || !strings.HasPrefix(disk.first.String(), "mkdir") {
		t.Errorf("failed %v, parks %v, first %v", disk.hasFailed(), disk.parks(), disk.first)
	}
}

func pointClose(f vfs.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
