package shard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// A snapshot of a shard is all rows of its key range, in order:
//
//	magic "floesnp1"
//	block ...   length u32 | CRC-32C u32 | (key length uvarint, key, value length uvarint, value) ...
//	end         length 0 u32 | CRC-32C u32 of the following | number of rows u64
//
// All integers are little-endian. The row with the applied position of the state is included.
const snapshotMagic = "floesnp1"

const (
	snapshotBlock    = 64 << 10 // a block ends with the row that reaches this size
	maxSnapshotBlock = 64 << 20 // no honest block is larger
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// exports holds the states that raft has announced to followers but not sent yet.
type exports struct {
	mu    sync.Mutex // guards all; no I/O under it
	next  uint64
	ready map[uint64]*export
}

// export holds an iterator rather than a snapshot of the database, because installing a snapshot on
// this node would empty the latter.
type export struct {
	rows  *pebble.Iterator
	index uint64
}

// maxExports bounds the number of states held for followers.
const maxExports = 8

// prepareExport exports the current state and announces it as a raft snapshot. The data of the
// announcement names the export.
func (s *shard) prepareExport() (*raftpb.Snapshot, error) {
	x := &s.exports
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.ready) >= maxExports {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	rows, applied, err := s.stateRows()
	if err != nil {
		return nil, err
	}
	x.next++
	x.ready[x.next] = &export{rows, applied.Index}
	return &raftpb.Snapshot{
		Data: binary.LittleEndian.AppendUint64(nil, x.next),
		Metadata: &raftpb.SnapshotMetadata{
			Index: new(applied.Index), Term: new(applied.Term), ConfState: s.confState(),
		},
	}, nil
}

// stateRows returns an iterator over all rows of the shard, and their applied position.
func (s *shard) stateRows() (*pebble.Iterator, engine.Applied, error) {
	state := s.host.db.NewSnapshot()
	defer state.Close()
	applied, err := engine.ReadApplied(state, s.id)
	if err != nil {
		return nil, applied, err
	}
	lower, upper := engine.Bounds(s.id)
	rows, err := state.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, applied, fmt.Errorf("shard %d: read state: %w", s.id, err)
	}
	return rows, applied, nil
}

func (x *exports) take(id uint64) *export {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.ready[id]
	delete(x.ready, id)
	return e
}

func (x *exports) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, e := range x.ready {
		e.rows.Close()
		delete(x.ready, id)
	}
}

// sendSnapshot streams the export that the message announces.
func (s *shard) sendSnapshot(m *raftpb.Message) {
	to := m.GetTo()
	report := func(err error) {
		if err != nil {
			s.host.log.Warn("snapshot not delivered", "shard", s.id, "to", to, "error", err)
		}
		s.mail.put(func(in *input) { in.reports = append(in.reports, snapshotReport{to, err == nil}) })
	}
	data := m.GetSnapshot().GetData()
	if len(data) != 8 {
		report(fmt.Errorf("announcement without export"))
		return
	}
	e := s.exports.take(binary.LittleEndian.Uint64(data))
	if e == nil {
		report(errors.New("the announced state is gone"))
		return
	}
	s.host.log.Info("sending snapshot", "shard", s.id, "to", to, "index", e.index)
	r, w := io.Pipe()
	s.host.running.Add(1)
	go func() {
		defer s.host.running.Done()
		// A receiver that does not read must not prevent the host from closing.
		stop := context.AfterFunc(s.host.ctx, func() { w.CloseWithError(engine.ErrClosed) })
		defer stop()
		err := writeSnapshot(w, e.rows)
		if closeErr := e.rows.Close(); err == nil {
			err = closeErr
		}
		w.CloseWithError(err)
	}()
	s.host.cfg.Transport.SendSnapshot(uint16(s.id), m, r, report)
}

// writeSnapshot writes the rows of a shard; the caller keeps ownership of the iterator.
func writeSnapshot(dst io.Writer, it *pebble.Iterator) error {
	w := bufio.NewWriter(dst)
	w.WriteString(snapshotMagic)
	var block []byte
	count := uint64(0)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		block = codec.AppendBytes(codec.AppendBytes(block, it.Key()), value)
		count++
		if len(block) >= snapshotBlock {
			writeBlock(w, uint32(len(block)), block)
			block = block[:0]
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if len(block) > 0 {
		writeBlock(w, uint32(len(block)), block)
	}
	writeBlock(w, 0, binary.LittleEndian.AppendUint64(nil, count))
	return w.Flush()
}

// writeBlock leaves errors to Flush, because a bufio.Writer keeps its first error.
func writeBlock(w *bufio.Writer, length uint32, b []byte) {
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], length)
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(b, castagnoli))
	w.Write(head[:])
	w.Write(b)
}

// errSnapshot is matched by every defect that readSnapshot finds.
var errSnapshot = errors.New("malformed snapshot")

// readSnapshot reads the output of writeSnapshot and calls row for every row, in order. It checks
// that all rows belong to the shard. The input is not trusted.
func readSnapshot(src io.Reader, shard engine.ShardID, row func(key, value []byte) error) error {
	r := bufio.NewReader(src)
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != snapshotMagic {
		return fmt.Errorf("%w: no snapshot begins here", errSnapshot)
	}
	lower, _ := engine.Bounds(shard)
	var last []byte
	count := uint64(0)
	for {
		length, block, err := readBlock(r)
		if err != nil {
			return err
		}
		if length == 0 {
			if got := binary.LittleEndian.Uint64(block); got != count {
				return fmt.Errorf("%w: %d rows, its end says %d", errSnapshot, count, got)
			}
			return nil
		}
		rows := codec.NewReader(block)
		for rows.Len() > 0 {
			k, v := rows.Bytes(), rows.Bytes()
			if rows.Err() != nil {
				return fmt.Errorf("%w: %w", errSnapshot, rows.Err())
			}
			if !bytes.HasPrefix(k, lower) || bytes.Compare(k, last) <= 0 {
				return fmt.Errorf("%w: row %x of another shard or out of order", errSnapshot, k)
			}
			last = append(last[:0], k...)
			count++
			if err := row(k, v); err != nil {
				return err
			}
		}
	}
}

func readBlock(r io.Reader) (length uint32, b []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	length = binary.LittleEndian.Uint32(head[:])
	if length > maxSnapshotBlock {
		return 0, nil, fmt.Errorf("%w: block of %d bytes", errSnapshot, length)
	}
	n := int64(length)
	if length == 0 {
		n = 8
	}
	// Memory grows with the bytes received, not with the claimed length.
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, n); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if sum := crc32.Checksum(buf.Bytes(), castagnoli); sum != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, fmt.Errorf("%w: checksum %08x does not match", errSnapshot, sum)
	}
	return length, buf.Bytes(), nil
}

// ReceiveSnapshot spools the rows into a table beside the state and then passes the message to
// raft, which decides whether to use the snapshot.
func (h *Host) ReceiveSnapshot(id uint16, m *raftpb.Message, body io.Reader) error {
	if int(id) >= len(h.shards) || raft.IsEmptySnap(m.GetSnapshot()) {
		return fmt.Errorf("snapshot for unknown shard %d", id)
	}
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	if h.space.readOnly() {
		return engine.Errorf(engine.ErrReadOnly, "no space for a snapshot of shard %d: %d bytes are free", id, h.space.freeBytes())
	}
	s := h.shards[id]
	name := fmt.Sprintf("%s%d-%d", spoolPrefix, s.id, h.spooled.Add(1))
	if err := h.spool(name, s.id, body); err != nil {
		_ = h.fs.Remove(h.fs.PathJoin(h.stateDir, name))
		return err
	}
	// The announcement now names the spooled table.
	m.Snapshot.Data = []byte(name)
	s.mail.put(func(in *input) { in.messages = append(in.messages, m) })
	return nil
}

// dropUnused removes the tables of snapshots that the core received in this step and did not use.
func (l *loop) dropUnused(messages []*raftpb.Message) {
	h := l.shard.host
	for _, m := range messages {
		if m.GetType() != raftpb.MsgSnap {
			continue
		}
		name := string(m.GetSnapshot().GetData())
		used := slices.ContainsFunc(l.held, func(t *appendTask) bool {
			return t.snapshot != nil && string(t.snapshot.GetData()) == name
		})
		if !used {
			_ = h.fs.Remove(h.fs.PathJoin(h.stateDir, name))
		}
	}
}

// spoolPrefix begins the names of received snapshots.
const spoolPrefix = "snapshot-"

// removeSpools removes received snapshots whose names begin with prefix.
func (h *Host) removeSpools(prefix string) error {
	names, err := h.fs.List(h.stateDir)
	if err != nil {
		return fmt.Errorf("list state: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := h.fs.Remove(h.fs.PathJoin(h.stateDir, name)); err != nil {
				return fmt.Errorf("remove left-over snapshot: %w", err)
			}
		}
	}
	return nil
}

func (h *Host) spool(name string, shard engine.ShardID, body io.Reader) error {
	f, err := h.fs.Create(h.fs.PathJoin(h.stateDir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("shard %d: receive snapshot: %w", shard, err)
	}
	// The writer now owns the file.
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{TableFormat: h.db.TableFormat()})
	err = readSnapshot(body, shard, w.Set)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("shard %d: receive snapshot: %w", shard, err)
	}
	return nil
}

// install replaces the shard's rows with those of a received snapshot and makes the log begin after
// it. It runs in the applier, so all earlier entries have been applied.
func (s *shard) install(t *appendTask) error {
	index := t.snapshot.GetMetadata().GetIndex()
	name := s.host.fs.PathJoin(s.host.stateDir, string(t.snapshot.GetData()))
	if err := s.announceInstall(index); err != nil {
		return fmt.Errorf("shard %d: install snapshot at %d: %w", s.id, index, err)
	}
	lower, upper := engine.Bounds(s.id)
	s.exec.Suspend()
	_, err := s.host.db.IngestAndExcise(context.Background(), []string{name}, nil, nil, pebble.KeyRange{Start: lower, End: upper})
	if err != nil {
		return fmt.Errorf("shard %d: install snapshot at %d: %w", s.id, index, err)
	}
	if err := s.exec.Restore(); err != nil {
		return err
	}
	if got := s.exec.Applied().Index; got != index {
		return fmt.Errorf("shard %d: snapshot announced for index %d holds %d", s.id, index, got)
	}
	s.progress.visibleLSN.Store(uint64(s.exec.Applied().LSN))
	s.clock.observe(s.exec.Applied().Stamp)
	s.host.log.Info("installed snapshot", "shard", s.id, "index", index)
	s.exec.WakeAll()
	s.admitVisible()
	s.mail.put(func(in *input) { in.installed = true })
	return nil
}

// installKey is the key of the node's own row, outside of all shards, that records the snapshot
// installed last: index u64, little-endian. A crash before the log begins after the snapshot leaves
// the state ahead of the log. Only this row distinguishes that from a log that has lost its end.
func (s *shard) installKey() []byte {
	return binary.BigEndian.AppendUint16([]byte{0xff, 0xff, 'i'}, uint16(s.id))
}

// announceInstall makes the row durable.
func (s *shard) announceInstall(index uint64) error {
	if err := s.host.db.Set(s.installKey(), binary.LittleEndian.AppendUint64(nil, index), pebble.NoSync); err != nil {
		return err
	}
	return s.host.db.Flush()
}

// installed reports whether the state is exactly that of the last installed snapshot. No entries
// can be applied after a snapshot before the log begins there.
func (s *shard) installed(index uint64) (bool, error) {
	row, closer, err := s.host.db.Get(s.installKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("shard %d: read state: %w", s.id, err)
	}
	defer closer.Close()
	return len(row) == 8 && binary.LittleEndian.Uint64(row) == index, nil
}
