package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/overlayfs"
)

// tableCache is the size of the block cache while everything is read once or twice.
const tableCache = 32 << 20

// tables is the state database of the verified directory, open for reading.
type tables struct {
	*verification
	fs   vfs.FS
	dir  string
	opts *pebble.Options
	db   *pebble.DB

	mu        sync.Mutex // guards corrupted
	corrupted []string   // problems reported by Pebble itself
}

func (v *verification) openTables() (*tables, error) {
	t := &tables{verification: v, fs: overlayfs.New(v.base), dir: v.path("state")}
	t.opts = &pebble.Options{
		FS: t.fs, ReadOnly: true, CacheSize: tableCache, FormatMajorVersion: pebble.FormatNewest,
		Logger: pebbleLogger{discardLog, func(err error) { t.complain(err.Error()) }},
	}
	t.opts.EventListener = &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) {
		t.complain(fmt.Sprintf("%s: %v", i.Path, i.Details))
	}}
	t.opts.EnsureDefaults()
	var err error
	t.db, err = pebble.Open(t.dir, t.opts)
	return t, err
}

func (t *tables) complain(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.corrupted) < maxProblems {
		t.corrupted = append(t.corrupted, what)
	}
}

func (t *tables) close() error {
	if err := t.db.Close(); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}

// verify reads every block of every table. If all are intact, it checks that the levels of the
// tables agree.
func (t *tables) verify() error {
	levels, err := t.db.SSTables()
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	seen, damaged := make(map[string]bool), false
	for _, level := range levels {
		for _, table := range level {
			// Several tables may be parts of one file.
			name := t.fs.PathJoin(t.dir, fmt.Sprintf("%06d.sst", uint64(table.BackingSSTNum)))
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := t.ctx.Err(); err != nil {
				return err
			}
			if err := t.verifyTable(name); err != nil {
				t.problemf("%s: %v", name, err)
				damaged = true
			}
		}
	}
	t.report.Tables = len(seen)
	if damaged {
		return nil
	}
	if err := t.db.CheckLevels(nil); err != nil {
		t.problemf("%s: %v", t.dir, err)
	}
	t.tellComplaints()
	return t.verifyApplied()
}

func (t *tables) tellComplaints() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, what := range t.corrupted {
		t.problemf("%s: %s", t.dir, what)
	}
}

// verifyApplied reports shards with rows but without an applied position. A Host would replay the
// whole log over them.
func (t *tables) verifyApplied() error {
	if t.format == nil {
		return nil
	}
	for id := range engine.ShardID(t.format.Shards) {
		applied, err := engine.ReadApplied(t.db, id)
		if err != nil {
			t.problemf("%v", err)
			continue
		}
		lower, upper := engine.Bounds(id)
		it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return fmt.Errorf("read state: %w", err)
		}
		if applied.Index == 0 && it.First() {
			t.problemf("shard %d: has rows, but none with its applied position", id)
		}
		if err := it.Close(); err != nil {
			return fmt.Errorf("read state: %w", err)
		}
	}
	return nil
}

func (t *tables) verifyTable(name string) error {
	f, err := t.fs.Open(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t.report.TableBytes += info.Size()
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	// The reader now owns the file.
	r, err := sstable.NewReader(t.ctx, readable, t.opts.MakeReaderOptions())
	if err != nil {
		return err
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// verifyRows checks the rows on disk, because a damaged log cannot be replayed.
func (t *tables) verifyRows() error {
	if t.format == nil {
		return nil
	}
	t.report.Rows = make([]int64, t.format.Shards)
	for id := range t.report.Rows {
		x := engine.NewExecutor(engine.Config{Shard: engine.ShardID(id), Shards: t.format.Shards, DB: t.db, Primitives: t.primitives})
		if err := x.Restore(); err != nil {
			t.problemf("%v", err)
			continue
		}
		rows, err := x.Verify(t.ctx, t.report.add)
		t.report.Rows[id] = rows
		if err := errors.Join(err, x.Release()); err != nil {
			return err
		}
	}
	return nil
}

// Verify reports inconsistencies in and between the logs and states of the shards. It returns the
// number of rows of each shard. Errors: ctx's error, and errors of reading.
func (s *Stepper) Verify(ctx context.Context, report func(problem string)) (rows []int64, err error) {
	var all []*engine.Executor
	for _, sh := range s.host.shards {
		all = append(all, sh.exec)
		if err := sh.verifyLog(ctx, report); err != nil {
			return rows, err
		}
		n, err := sh.exec.Verify(ctx, report)
		rows = append(rows, n)
		if err != nil {
			return rows, err
		}
	}
	if len(s.host.cfg.Voters) == 1 {
		if err := engine.VerifyPairs(all, report); err != nil {
			return rows, err
		}
	}
	return rows, s.host.verifyForeignRows(report)
}

// discardLog discards Pebble's messages during verification, because relevant problems are
// reported.
var discardLog = slog.New(slog.DiscardHandler)
