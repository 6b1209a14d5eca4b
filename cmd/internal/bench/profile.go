package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// The sampling rates of the profiles: one sample per 512 KiB allocated, one per 10 us of waiting on
// average, and one in ten contended locks.
const (
	allocRate = 512 << 10
	blockRate = 10_000
	mutexRate = 10
)

// profiled is a work that can be profiled.
type profiled interface {
	profile(b *bench) (figures, error)
}

// profileRows profiles rows, each in its own process, because the profiles of allocations, waits
// and locks cover the whole life of a process.
func (b *bench) profileRows(rows []row) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return err
	}
	for _, r := range rows {
		p, ok := r.work.(profiled)
		if !ok {
			continue
		}
		if len(rows) > 1 {
			child := exec.Command(program, append(os.Args[1:], "-only", "="+r.name)...)
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			if err := child.Run(); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			continue
		}
		b.profiling = strings.ReplaceAll(r.name, "/", "-")
		f, err := p.profile(b)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Printf("%s: %v\n", r.name, f)
	}
	return nil
}

// observed runs a load, and profiles it if requested. Sampling starts only here, so that the
// profiles show the load and not its preparation.
func (b *bench) observed(run func() (figures, error)) (figures, error) {
	if b.profiling == "" {
		return run()
	}
	cpu, err := os.Create(b.profileFile("cpu"))
	if err != nil {
		return figures{}, err
	}
	runtime.MemProfileRate = allocRate
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexRate)
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return figures{}, errors.Join(err, cpu.Close())
	}
	f, err := run()
	pprof.StopCPUProfile()
	err = errors.Join(err, cpu.Close())
	runtime.GC() // the allocation profile is as of the last collection
	for _, kind := range []string{"allocs", "block", "mutex"} {
		err = errors.Join(err, b.writeProfile(kind))
	}
	return f, err
}

func (b *bench) writeProfile(kind string) error {
	f, err := os.Create(b.profileFile(kind))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}

func (b *bench) profileFile(kind string) string {
	return filepath.Join(b.profiles, b.profiling+"."+kind+".prof")
}
