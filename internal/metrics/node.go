package metrics

import (
	"context"

	"github.com/floedb/floe/internal/shard"
)

// Metrics of the node itself.
var (
	buildInfo   = gauge("build_info", "Version and durability of the node; always 1.", "version", "node", "durability")
	ready       = gauge("ready", "1 if the node can serve reads and writes, else 0.")
	startTime   = gauge("start_time_seconds", "Time when the node was opened, in seconds since the epoch.")
	waiting     = gauge("waiting_queries", "Waiting queries: long polls and watches.")
	peerHealthy = gauge("peer_healthy", "1 if this node considers the peer healthy, else 0.", "peer")

	connections   = gauge("port_connections", "Open connections to the port for clients and nodes.")
	receivedBytes = counter("port_received_bytes_total", "Bytes received on the port for clients and nodes.")
	sentBytes     = counter("port_sent_bytes_total", "Bytes sent on the port for clients and nodes.")
	limitUsed     = gauge("limit_used", "Current use of a limit.", "limit")
	limitSize     = gauge("limit_size", "Size of a limit; requests beyond it are rejected as busy.", "limit")

	readOnly     = gauge("disk_read_only", "1 if the disk is full and the node rejects writes that need space, else 0.")
	freeBytes    = gauge("disk_free_bytes", "Free space on the disk of the data directory.")
	minFreeBytes = gauge("disk_min_free_bytes", "Free space below which the node becomes read-only.")
	diskFull     = counter("disk_full_total", "Operations that failed because the disk was full.")
	diskSlow     = counter("disk_slow_total", "Writes and fsyncs that took longer than 2 s.")

	operations = counter("operations_total", "Reads and writes executed by this node as leader, by primitive and operation.",
		"primitive", "operation")
	operationErrors = counter("operation_errors_total", "Reads and writes that have failed, by reason.", "primitive", "reason")
	operationBytes  = counter("operation_bytes_total", "Bytes of writes.", "primitive")
	operationTime   = distribution("operation_duration_seconds",
		"Duration of reads and writes, except those that wait; kind is read or write.", "primitive", "kind")
	fsyncTime  = distribution("fsync_duration_seconds", "Duration of fsyncs of the log.")
	stateBytes = gauge("state_cache_bytes", "Bytes of cached keyed state of processing jobs.")
	stateLimit = gauge("state_cache_limit_bytes", "Maximum number of bytes of cached keyed state of processing jobs.")
	cacheHits  = counter("row_cache_hits_total", "Reads answered by the row cache, not included in floe_operations_total.")

	shardLeads   = gauge("shard_leader", "1 if this node leads the shard, else 0.", "shard")
	shardLeader  = gauge("shard_leader_node", "ID of the node that leads the shard, as known by this node; 0: none.", "shard")
	shardTerm    = gauge("shard_term", "Raft term.", "shard")
	shardCommit  = gauge("shard_commit_index", "Highest log index known to be committed.", "shard")
	shardApplied = gauge("shard_applied_index", "Highest log index that is applied and visible to reads.", "shard")
	shardLSN     = counter("shard_changes_total", "Changes visible to reads: the log sequence number.", "shard")
	shardQueued  = gauge("shard_proposals", "Proposals waiting in the queue.", "shard")
	shardBytes   = gauge("shard_proposal_bytes", "Bytes of proposals waiting in the queue.", "shard")
	shardWaiting = gauge("shard_waiting_queries", "Waiting queries.", "shard")
	shardStopped = gauge("shard_stopped",
		"1 if the shard is stopped on this node because its replicas differ and no majority agrees, else 0.", "shard")
)

// Metrics of the log and of Pebble, which stores the state.
var (
	logBytes       = gauge("log_bytes", "Size of the segments of the log.")
	storeBytes     = gauge("store_bytes", "Size of the state on disk.")
	levelTables    = gauge("store_level_tables", "Tables in a level of the LSM tree.", "level")
	levelBytes     = gauge("store_level_bytes", "Size of a level of the LSM tree.", "level")
	levelScore     = gauge("store_level_score", "Compaction score of a level; it is due above 1.", "level")
	readAmp        = gauge("store_read_amplification", "Number of tables that a read may have to search.")
	memtables      = gauge("store_memtables", "Memtables.")
	memtableBytes  = gauge("store_memtable_bytes", "Size of the memtables.")
	blockCacheSize = gauge("store_block_cache_bytes", "Size of the blocks in the cache.")
	blockHits      = counter("store_block_cache_hits_total", "Block reads served by the cache.")
	blockMisses    = counter("store_block_cache_misses_total", "Block reads not served by the cache.")
	filterHits     = counter("store_filter_hits_total", "Table reads avoided by a Bloom filter.")
	flushes        = counter("store_flushes_total", "Flushes of memtables.")
	flushedBytes   = counter("store_flushed_bytes_total", "Bytes written by flushes.")
	compactions    = counter("store_compactions_total", "Compactions.")
	compacting     = gauge("store_compactions_running", "Compactions in progress.")
	compactedBytes = counter("store_compacted_bytes_total", "Bytes written by compactions.")
	compactFailed  = counter("store_compactions_failed_total", "Compactions that have failed.")
	debtBytes      = gauge("store_compaction_debt_bytes", "Estimated number of bytes still to be compacted.")
	tombstones     = gauge("store_tombstones", "Estimated number of tombstones.")
	snapshots      = gauge("store_snapshots", "Open snapshots of the state.")
	iterators      = gauge("store_iterators", "Open table iterators.")
	tableCacheSize = gauge("store_open_tables", "Open tables.")
)

// node adds the metrics of the node itself, which are available at once, and reports whether it is
// open.
func (s *scrape) node() bool {
	stats, err := s.source.Host.Stats()
	s.send(ready, truth(err == nil && stats.State == "ok"))
	if err != nil {
		return false
	}
	s.send(buildInfo, 1, s.source.Version, number(stats.Node), stats.Durability)
	s.send(startTime, float64(stats.Started.UnixMilli())/1000)
	s.send(waiting, float64(stats.Waiting))
	for _, n := range stats.Nodes {
		s.send(peerHealthy, truth(n.Status == "healthy"), n.ID)
	}
	s.port()
	s.send(readOnly, truth(stats.Disk.ReadOnly))
	s.send(freeBytes, float64(stats.Disk.FreeBytes))
	s.send(minFreeBytes, float64(stats.Disk.MinFreeBytes))
	s.send(diskFull, float64(stats.Disk.Full))
	s.send(diskSlow, float64(stats.Disk.Slow))
	for _, sh := range stats.Shards {
		id := number(sh.ID)
		s.send(shardLeads, truth(sh.Leader == stats.Node), id)
		s.send(shardLeader, float64(sh.Leader), id)
		s.send(shardTerm, float64(sh.Term), id)
		s.send(shardCommit, float64(sh.Commit), id)
		s.send(shardApplied, float64(sh.Applied), id)
		s.send(shardLSN, float64(sh.LSN), id)
		s.send(shardWaiting, float64(sh.Waiting), id)
		s.send(shardStopped, truth(sh.Problem != ""), id)
	}
	m, err := s.source.Host.Measure()
	if err == nil {
		s.measured(m)
	}
	return err == nil
}

func (s *scrape) port() {
	if s.source.Limits != nil {
		for _, l := range s.source.Limits() {
			s.send(limitUsed, float64(l.Used), l.Name)
			s.send(limitSize, float64(l.Limit), l.Name)
		}
	}
	if s.source.Traffic == nil {
		return
	}
	t := s.source.Traffic()
	s.send(connections, float64(t.Connections))
	s.send(receivedBytes, float64(t.BytesReceived))
	s.send(sentBytes, float64(t.BytesSent))
}

func (s *scrape) measured(m shard.Measured) {
	for _, p := range m.Primitives {
		for _, o := range append(p.Writes, p.Reads...) {
			s.send(operations, float64(o.Count), p.Name, o.Name)
		}
		for i, n := range p.Errors {
			s.send(operationErrors, float64(n), p.Name, shard.Reasons[i])
		}
		s.send(operationBytes, float64(p.Bytes), p.Name)
		s.distribution(operationTime, p.Written, p.Name, "write")
		s.distribution(operationTime, p.Read, p.Name, "read")
	}
	for i, q := range m.Queued {
		s.send(shardQueued, float64(q.Count), number(i))
		s.send(shardBytes, float64(q.Bytes), number(i))
	}
	s.distribution(fsyncTime, m.Fsyncs)
	s.send(cacheHits, float64(m.CacheHits))
	s.send(logBytes, float64(m.LogBytes))
	s.send(stateBytes, float64(m.State.Bytes))
	s.send(stateLimit, float64(m.State.Limit))
}

// stored adds the metrics of Pebble, which block while it writes its manifest.
func (s *scrape) stored(context.Context) {
	m, err := s.source.Host.MeasureStore()
	if err != nil {
		s.failed++
		return
	}
	for i := range m.Levels {
		l := &m.Levels[i]
		s.send(levelTables, float64(l.TablesCount), number(i))
		s.send(levelBytes, float64(l.TablesSize), number(i))
		s.send(levelScore, l.Score, number(i))
	}
	total := m.Total()
	s.send(storeBytes, float64(m.DiskSpaceUsage()))
	s.send(readAmp, float64(m.ReadAmp()))
	s.send(memtables, float64(m.MemTable.Count))
	s.send(memtableBytes, float64(m.MemTable.Size))
	s.send(blockCacheSize, float64(m.BlockCache.Size))
	s.send(blockHits, float64(m.BlockCache.Hits))
	s.send(blockMisses, float64(m.BlockCache.Misses))
	s.send(filterHits, float64(m.Filter.Hits))
	s.send(flushes, float64(m.Flush.Count))
	s.send(flushedBytes, float64(total.TableBytesFlushed))
	s.send(compactions, float64(m.Compact.Count))
	s.send(compacting, float64(m.Compact.NumInProgress))
	s.send(compactedBytes, float64(total.TableBytesCompacted))
	s.send(compactFailed, float64(m.Compact.FailedCount))
	s.send(debtBytes, float64(m.Compact.EstimatedDebt))
	s.send(tombstones, float64(m.Keys.TombstoneCount))
	s.send(snapshots, float64(m.Snapshots.Count))
	s.send(iterators, float64(m.TableIters))
	s.send(tableCacheSize, float64(m.FileCache.TableCount))
}
