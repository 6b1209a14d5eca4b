// Package raftlog is the unified append log of one node: one sequence of segment files shared by
// all its shards (raft groups), the storage under raft.
//
// A Log is passive: it has no goroutine and no clock. One caller at a time writes, with Write, what
// several shards want appended, and makes it durable with Sync; anyone reads through a Shard:
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
// state, compacted position, reserved mark and last index. So a segment is only kept for the
// entries in it. Start and checkpoint are durable, and so is all of the previous segment, before
// the first record is added behind them.
//
// Files are never cut. When the valid records of a segment end early (a failed or short write, a
// torn tail after a crash), the log goes on in a new segment whose start record says where the
// previous one ends; what lies beyond is ignored for ever. Open therefore never appends to a
// segment it found: the first Write starts the next one.
//
// # Blocks that exist
//
// A sync of a file that grows has to make its metadata durable too, which takes up to three times
// as long as one of blocks that were written before. So the length of a file says nothing about
// where its records end. Write fills its last block up with zeros, and where the file ends it
// writes zeros ahead. Prepare writes a whole spare file, and Truncate makes spare files
// (%08d.spare) of segments that are no longer needed. A spare file becomes a segment by being
// renamed. What then lies behind the records are zeros or records of an earlier life of the file.
// They read as the end, whatever a crash has mixed: the checksum of a record covers the number of
// its segment and its offset, a number is never used twice in the same file, and the mark that
// every record bears is a secret of the log, so that no entry can contain a record. Each state that
// a crash leaves is one that was there before:
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
// durable, the disk has lost durable data, and that is an error. If there is none, the bad record
// is the beginning of a tail that was never promised to anybody, and is left behind. Valid records
// behind a bad one alone prove nothing: after a power cut blocks survive in any order. In every
// other segment any bad record is corruption.
//
// Two records help this along. Close writes an end record, so that damage to the last records of a
// cleanly closed log is seen. And once a segment is in use, its predecessor gets a next record, so
// that the loss of the newest file is seen as well.
package raftlog
