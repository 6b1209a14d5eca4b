package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/overlayfs"
	"github.com/floedb/floe/internal/raftlog"
)

// VerifyConfig configures Verify.
type VerifyConfig struct {
	Dir        string
	Primitives []engine.Primitive // those of the Host that wrote it
	FS         vfs.FS             // nil: the operating system's
}

// maxProblems bounds the list of problems, because more would not help.
const maxProblems = 1000

// VerifyReport lists what Verify has checked and the problems found.
type VerifyReport struct {
	Problems   []string      `json:"problems"`    // each names the file, or the shard and row; at most 1,000
	Unlisted   int           `json:"unlisted"`    // problems beyond those
	Format     int           `json:"format"`      // version of the directory's layout; 0: unreadable
	CreatedBy  string        `json:"created_by"`  // build of floe that created it, "" if not recorded
	WrittenBy  string        `json:"written_by"`  // build that opened it last
	Shards     int           `json:"shards"`      // 0: the directory was never completed
	Segments   int           `json:"segments"`    // of the log
	LogBytes   int64         `json:"log_bytes"`   // of their records
	Entries    uint64        `json:"entries"`     // in the log, of all shards
	Tables     int           `json:"tables"`      // of the state
	TableBytes int64         `json:"table_bytes"` //
	Rows       []int64       `json:"rows"`        // of the state after replay of the log, by shard
	Elapsed    time.Duration `json:"elapsed_ns"`  //
}

func (r *VerifyReport) add(problem string) {
	if len(r.Problems) == maxProblems {
		r.Unlisted++
		return
	}
	r.Problems = append(r.Problems, problem)
}

// Verify reads all of a data directory and reports damage and inconsistencies. It checks the FORMAT
// file, every record of the log and every block of every table. Then it replays the log in memory,
// as Open would, and checks every row of the state. It changes nothing in the directory.
//
// Errors: engine.ErrInUse; engine.ErrInvalid if it is not a data directory; errors of reading, and
// ctx's error.
func Verify(ctx context.Context, c VerifyConfig) (VerifyReport, error) {
	v := &verification{ctx: ctx, primitives: c.Primitives, base: c.FS}
	if v.base == nil {
		v.base = vfs.Default
	}
	var err error
	if v.dir, err = absolute(v.base, c.Dir); err != nil {
		return v.report, fmt.Errorf("data directory: %w", err)
	}
	if err := v.recognise(); err != nil {
		return v.report, err
	}
	lock, err := lockToRead(v.base, v.dir)
	if err != nil {
		return v.report, err
	}
	started := time.Now()
	err = v.run()
	v.report.Elapsed = time.Since(started)
	return v.report, errors.Join(err, lock.Close())
}

// verification is a running Verify.
type verification struct {
	ctx        context.Context
	base       vfs.FS
	dir        string
	primitives []engine.Primitive
	format     *format // nil: missing or unreadable
	report     VerifyReport
}

// recognise returns an error unless the directory is a floe data directory.
func (v *verification) recognise() error {
	info, err := v.base.Stat(v.dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, name := range []string{"FORMAT", "log", "state"} {
		if _, err := v.base.Stat(v.base.PathJoin(v.dir, name)); err == nil && info.IsDir() {
			return nil
		}
	}
	return engine.Errorf(engine.ErrInvalid, "%s is not a data directory: it contains neither FORMAT nor log nor state", v.dir)
}

// run checks the files first, one kind after the other, regardless of earlier problems. It opens
// only undamaged parts.
func (v *verification) run() error {
	if err := v.verifyFormat(); err != nil {
		return err
	}
	v.verifyTallies()
	if err := v.verifyLog(); err != nil {
		return err
	}
	files := len(v.report.Problems)
	if v.format == nil && files == 0 && !v.hasState() {
		return v.verifyReplayed() // the creation of the directory has only begun
	}
	tables, err := v.openTables()
	if err != nil {
		v.problemf("%s: %v", v.path("state"), err)
		return nil
	}
	if err := tables.verify(); err != nil || len(v.report.Problems) > files {
		return errors.Join(err, tables.close())
	}
	if v.format == nil && v.report.Format != 0 && v.report.Format != FormatVersion {
		return tables.close() // rows of another layout: this program cannot check them
	}
	if files > 0 {
		return errors.Join(tables.verifyRows(), tables.close())
	}
	if err := tables.close(); err != nil {
		return err
	}
	return v.verifyReplayed()
}

// hasState reports whether a state database ever existed.
func (v *verification) hasState() bool {
	names, _ := v.base.List(v.path("state"))
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.manifest") })
}

// path returns the name of a file in reports.
func (v *verification) path(name string) string { return v.base.PathJoin(v.dir, name) }

func (v *verification) problemf(format string, args ...any) {
	v.report.add(fmt.Sprintf(format, args...))
}

// verifyFormat reads FORMAT, which must be exactly as this program writes it.
func (v *verification) verifyFormat() error {
	f, err := readFormat(v.base, v.dir)
	if f != nil {
		v.report.Format, v.report.CreatedBy, v.report.WrittenBy = f.Version, f.Created, f.Written
	}
	switch {
	case err != nil:
		v.problemf("%v", err)
		return nil
	case f == nil:
		return nil // lost, or never written; verifyReplayed determines which
	}
	v.report.Shards = f.Shards
	got, err := readFile(v.base, v.path("FORMAT"))
	if err != nil {
		return err
	}
	want, err := f.encode()
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(got, want):
		v.problemf("%s: is not what was written:\n%q, should be\n%q", v.path("FORMAT"), got, want)
	case !slices.Contains(f.Voters, f.NodeID):
		v.problemf("%s: node %d is not among the voters %v", v.path("FORMAT"), f.NodeID, f.Voters)
	default:
		v.format = f
	}
	return nil
}

func (f format) encode() ([]byte, error) {
	f.Sum = f.sum()
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// verifyTallies reads the node's counts of answered calls, if any.
func (v *verification) verifyTallies() {
	b, err := readFile(v.base, v.path(talliesName))
	if err == nil {
		_, err = decodeTallies(b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.problemf("%s: %v; without the file the node counts its reads from zero", v.path(talliesName), err)
	}
}

func (v *verification) verifyLog() error {
	o := raftlog.Options{FS: overlayfs.New(v.base), Dir: v.path("log")}
	sum, err := raftlog.Verify(o, func(damage *raftlog.CorruptionError) { v.problemf("%v", damage) })
	v.report.Segments, v.report.LogBytes = sum.Segments, sum.Bytes
	if errors.Is(err, fs.ErrNotExist) {
		if v.format != nil {
			v.problemf("%s: is missing", o.Dir)
		}
		return nil
	}
	if errors.Is(err, raftlog.ErrNewer) {
		v.problemf("%v", err)
		return nil
	}
	return err
}

// verifyReplayed opens the directory as Open does, over memory, and checks all rows.
func (v *verification) verifyReplayed() (err error) {
	defer func() {
		// Impossible states in Apply panic. A Host then fails; here the panic is reported as a
		// problem.
		if r := recover(); r != nil {
			v.problemf("replaying the log: %v\n%s", r, debug.Stack())
		}
	}()
	c := Config{Dir: v.dir, FS: overlayfs.New(v.base), Primitives: v.primitives, CacheBytes: tableCache, MemTableBytes: 16 << 20}
	if v.format != nil {
		c.NodeID, c.Voters = v.format.NodeID, v.format.Voters
	}
	s, err := OpenStepper(c)
	if err != nil {
		v.problemf("%v", err)
		return nil
	}
	defer s.abandon()
	if v.format == nil {
		return nil // a directory whose creation was interrupted: Open completes it
	}
	for id := range s.host.shards {
		st := s.State(engine.ShardID(id))
		v.report.Entries += st.Last + 1 - st.First
	}
	if err := s.replay(v.ctx); err != nil {
		v.problemf("replaying the log: %v", err)
		return v.ctx.Err()
	}
	v.report.Rows, err = s.Verify(v.ctx, v.report.add)
	return err
}

// abandon discards all data that the Stepper has in memory.
func (s *Stepper) abandon() {
	if s.host.Err() == nil {
		_ = s.Crash() // nothing is to be kept
	}
}

// replay applies all entries of the log that are known to be committed.
func (s *Stepper) replay(ctx context.Context) error {
	alone := len(s.host.cfg.Voters) == 1
	last := make([]uint64, s.Shards())
	for id := range s.host.shards {
		last[id] = s.State(engine.ShardID(id)).Last
		if alone {
			s.Campaign(engine.ShardID(id))
		}
	}
	const patience = 8 // rounds without progress; includes the few of an election
	for idle := 0; idle < patience && !s.reached(last); idle++ {
		before := s.appliedSum()
		if err := errors.Join(ctx.Err(), s.round(), s.host.Err()); err != nil {
			return err
		}
		if s.appliedSum() > before {
			idle = 0
		}
	}
	if alone && !s.reached(last) {
		return errors.New("not all entries were applied, though nothing failed")
	}
	return nil
}

func (s *Stepper) round() error {
	for id := range s.host.shards {
		s.Step(engine.ShardID(id), 0)
	}
	if err := s.WriteLog(); err != nil {
		return err
	}
	for id := range s.host.shards {
		if err := s.Apply(engine.ShardID(id)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stepper) reached(last []uint64) bool {
	for id, index := range last {
		if s.host.shards[id].exec.Applied().Index < index {
			return false
		}
	}
	return true
}

func (s *Stepper) appliedSum() (sum uint64) {
	for _, sh := range s.host.shards {
		sum += sh.exec.Applied().Index
	}
	return sum
}
