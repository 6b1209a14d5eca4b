package main

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowFS delays every sync of a file or directory, like a remote disk.
type slowFS struct {
	vfs.FS
	delay time.Duration
}

// newFS returns the operating system's file system, with delay added to each sync.
func newFS(delay time.Duration) vfs.FS {
	if delay == 0 {
		return vfs.Default
	}
	return &slowFS{vfs.Default, delay}
}

// Unwrap returns the underlying file system.
func (s *slowFS) Unwrap() vfs.FS { return s.FS }

func (s *slowFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file(s.FS.Create(name, c))
}

func (s *slowFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.file(s.FS.OpenReadWrite(name, c, opts...))
}

func (s *slowFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file(s.FS.ReuseForWrite(oldname, newname, c))
}

func (s *slowFS) OpenDir(name string) (vfs.File, error) { return s.file(s.FS.OpenDir(name)) }

func (s *slowFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &slowFile{f, s.delay}, nil
}

type slowFile struct {
	vfs.File
	delay time.Duration
}

func (f *slowFile) Sync() error     { return f.late(f.File.Sync()) }
func (f *slowFile) SyncData() error { return f.late(f.File.SyncData()) }

// SyncTo only starts writing on systems that can do that; it then has no delay.
func (f *slowFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	if full {
		err = f.late(err)
	}
	return full, err
}

func (f *slowFile) late(err error) error {
	<-time.After(f.delay)
	return err
}
