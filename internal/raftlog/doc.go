// Package raftlog is the unified append log of one node: one sequence of segment files shared by
// all its shards (raft groups), the storage under raft.
//
// A Log is passive: it has no goroutine and no clock. One caller at a time writes, with Write, the
// updates of several shards and makes them durable with Sync. Any goroutine reads through a Shard:
//
//	l, err := raftlog.Open(raftlog.Options{FS: vfs.Default, Dir: "data/ual"})
//	err = l.Write([]raftlog.Update{{Shard: 3, HardState: rd.HardState, Entries: rd.Entries}})
//	err = l.Sync()
//	es, err := l.Shard(3).Entries(1, 10, math.MaxUint64)
//
// # Files
//
// Segments are named <dir>/<%08d>.ual, numbered from 1 without gaps. A segment is a sequence of
// records (see header) and begins with a start record and a checkpoint: for every shard its hard
// state, compacted position, reserved mark and last index. So a segment is kept only for its
// entries. Start and checkpoint, and all of the previous segment, are durable before the first
// record is added behind them.
//
// Files are never cut. When the valid records of a segment end early (a failed or short write, a
// torn tail after a crash), the log continues in a new segment. Its start record says where the
// previous segment ends; bytes beyond that are ignored for ever. Open therefore never appends to a
// segment it found: the first Write starts the next one.
//
// # Blocks that exist
//
// Syncing a growing file must make its metadata durable too, which takes up to three times as long
// as syncing blocks that exist. So files are written ahead, and the length of a file does not show
// where its records end. Write pads its last block with zeros, and at the end of the file it writes
// zeros ahead. Prepare writes a whole spare file, and Truncate makes spare files (%08d.spare) of
// segments that are no longer needed. A spare file becomes a segment by being renamed. The records
// are then followed by zeros or by records of the file's earlier life. These read as the end of the
// log, in whatever mix a crash leaves them: the checksum of a record covers the number of its
// segment and its offset, a number is never used twice in the same file, and the mark that every
// record bears is a secret of the log, so that no entry can contain a record. A crash leaves one of
// these states:
//
//   - Dropped segment, renamed or not: its number is below the oldest live one, which was durable
//     before the renaming, or it is a spare file. Open removes both, whatever they contain.
//   - Spare file renamed to a segment, its start not written or torn: a newest segment without a
//     complete head was never used. Its number is used again, in another file.
//   - Start durable, name not: no record behind the start counts before the directory was synced.
//
// # Torn or corrupt
//
// Every record carries the offset that was known durable when it was written. Open meets a bad
// record in the last segment: if a valid record behind it was written when the bad one was already
// durable, the disk has lost durable data, and that is an error. Otherwise the bad record begins a
// tail that was never acknowledged as durable, and is skipped. Valid records behind a bad one prove
// nothing by themselves: after a power cut blocks survive in any order. In every other segment any
// bad record is corruption.
//
// Two records help to detect damage. Close writes an end record, which reveals damage to the last
// records of a cleanly closed log. Once a segment is in use, its predecessor gets a next record,
// which reveals the loss of the newest file.
package raftlog
