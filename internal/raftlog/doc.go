// Package raftlog is the unified append log of one node: one sequence of segment files shared by
// all its shards (raft groups), the storage under raft.
//
// A Log is passive: it has no goroutine and no clock. One caller at a time writes the updates of
// several shards with Write and makes them durable with Sync. Any goroutine reads through a Shard:
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
// record is added after them.
//
// Files are never truncated. When the valid records of a segment end early (a failed or short
// write, a torn tail after a crash), the log continues in a new segment. Its start record has the
// end of the previous segment; bytes beyond that are ignored forever. Open therefore never appends
// to an existing segment: the first Write starts the next one.
//
// # Blocks that exist
//
// Syncing a growing file must make its metadata durable too, which takes up to three times as long
// as syncing existing blocks. So files are written ahead, and the length of a file does not show
// where its records end. Write pads its last block with zeros, and at the end of the file it writes
// zeros ahead. Prepare writes a whole spare file, and Truncate turns segments that are no longer
// needed into spare files (%08d.spare). A spare file becomes a segment by a rename. The records are
// then followed by zeros or by records of the file's earlier use. These read as the end of the log,
// in any mix that a crash leaves. The checksum of a record covers the number of its segment and its
// offset, and a number is never used twice in the same file. The mark in every record is a secret
// of the log, so that no entry can contain a record. A crash leaves one of these states:
//
//   - Dropped segment, renamed or not: its number is below the oldest live one, which was durable
//     before the rename, or it is a spare file. Open removes both, regardless of their contents.
//   - Spare file renamed to a segment, its start not written or torn: if the newest segment has no
//     complete head, it was never used. Its number is used again, in another file.
//   - Start durable, name not: no record after the start counts before the directory was synced.
//
// # Torn or corrupt
//
// Every record carries the offset that was known to be durable when it was written. If Open finds a
// bad record in the last segment, a later valid record may prove that the bad one was already
// durable. Then the disk has lost durable data, which is an error. Otherwise the bad record begins
// a tail that was never acknowledged as durable, and is skipped. A later valid record alone proves
// nothing, because blocks survive a power failure in any order. In every other segment any bad
// record is corruption.
//
// Two records help to detect damage. Close writes an end record, which reveals damage to the last
// records of a cleanly closed log. Once a segment is in use, its predecessor gets a next record,
// which reveals the loss of the newest file.
package raftlog
