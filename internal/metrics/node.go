package metrics

import (
	"context"

	"github.com/floedb/floe/internal/shard"
)

// Metrics of the node itself.
var (
	buildInfo   = gauge("build_info", "The node and its version; always 1.", "version", "node", "durability")
	ready       = gauge("ready", "Whether the node can answer and write: 1, or 0.")
	startTime   = gauge("start_time_seconds", "When the node was opened, in seconds since the epoch.")
	waiting     = gauge("waiting_queries", "Queries that wait: long polls and watches.")
	peerHealthy = gauge("peer_healthy", "Whether a node of the cluster is healthy as this one sees it: 1, or 0.", "peer")

	connections   = gauge("port_connections", "Connections that others have opened to the port for clients and nodes.")
	receivedBytes = counter("port_received_bytes_total", "Bytes received on the port for clients and nodes.")
	sentBytes     = counter("port_sent_bytes_total", "Bytes sent on the port for clients and nodes.")
	limitUsed     = gauge("limit_used", "How much of a limit is used.", "limit")
	limitSize     = gauge("limit_size", "How much may be used; what goes beyond is refused as busy.", "limit")

	readOnly     = gauge("disk_read_only", "Whether the disk is full, so that what takes space is refused: 1, or 0.")
	freeBytes    = gauge("disk_free_bytes", "Free space on the disk of the data directory.")
	minFreeBytes = gauge("disk_min_free_bytes", "With less free space the node is read-only.")
	diskFull     = counter("disk_full_total", "Operations that have found no space.")
	diskSlow     = counter("disk_slow_total", "Writes and fsyncs that took longer than 2 s.")

	operations = counter("operations_total", "Reads and writes that this node has carried out as the leader, by primitive and kind.",
		"primitive", "operation")
	operationErrors = counter("operation_errors_total", "Reads and writes that have failed, by why.", "primitive", "reason")
	operationBytes  = counter("operation_bytes_total", "Bytes of writes.", "primitive")
	operationTime   = gauge("operation_duration_seconds",
		"How long reads and writes took, but for those that wait for others; the kind is read or write.", "primitive", "kind")
	fsyncTime  = gauge("fsync_duration_seconds", "How long fsyncs of the log took.")
	stateBytes = gauge("state_cache_bytes", "Bytes of keyed state of jobs that are remembered.")
	stateLimit = gauge("state_cache_limit_bytes", "How many bytes of keyed state of jobs may be remembered.")
	cacheHits  = counter("row_cache_hits_total", "Reads that the cache of rows has answered, beside those of floe_operations_total.")

	shardLeads   = gauge("shard_leader", "Whether this node leads the shard: 1, or 0.", "shard")
	shardLeader  = gauge("shard_leader_node", "Which node leads the shard as far as this one knows; 0: none.", "shard")
	shardTerm    = gauge("shard_term", "The term of raft.", "shard")
	shardCommit  = gauge("shard_commit_index", "Index of the log up to which the node knows it to be committed.", "shard")
	shardApplied = gauge("shard_applied_index", "Index of the log up to which reads see it.", "shard")
	shardLSN     = counter("shard_changes_total", "Changes that reads see, ever: the log sequence number.", "shard")
	shardQueued  = gauge("shard_proposals", "Proposals that wait.", "shard")
	shardBytes   = gauge("shard_proposal_bytes", "Bytes of the proposals that wait.", "shard")
	shardWaiting = gauge("shard_waiting_queries", "Queries that wait.", "shard")
	shardStopped = gauge("shard_stopped",
		"Whether the shard is stopped on this node because its replicas differ and no majority agrees: 1, or 0.", "shard")
)

// Metrics of the log and of Pebble, which stores the state.
var (
	logBytes       = gauge("log_bytes", "Bytes of the segments of the log.")
	storeBytes     = gauge("store_bytes", "Bytes of the state on the disk.")
	levelTables    = gauge("store_level_tables", "Tables of a level of the state.", "level")
	levelBytes     = gauge("store_level_bytes", "Bytes of a level of the state.", "level")
	levelScore     = gauge("store_level_score", "How urgent it is to compact a level of the state; more than 1: it is.", "level")
	readAmp        = gauge("store_read_amplification", "How many tables a read may have to look into.")
	memtables      = gauge("store_memtables", "Memtables.")
	memtableBytes  = gauge("store_memtable_bytes", "Bytes of the memtables.")
	blockCacheSize = gauge("store_block_cache_bytes", "Bytes of blocks in the cache.")
	blockHits      = counter("store_block_cache_hits_total", "Blocks that were in the cache.")
	blockMisses    = counter("store_block_cache_misses_total", "Blocks that had to be read.")
	filterHits     = counter("store_filter_hits_total", "Reads of tables that a Bloom filter has spared.")
	flushes        = counter("store_flushes_total", "Flushes of memtables.")
	flushedBytes   = counter("store_flushed_bytes_total", "Bytes written by flushes.")
	compactions    = counter("store_compactions_total", "Compactions.")
	compacting     = gauge("store_compactions_running", "Compactions under way.")
	compactedBytes = counter("store_compacted_bytes_total", "Bytes written by compactions.")
	compactFailed  = counter("store_compactions_failed_total", "Compactions that have failed.")
	debtBytes      = gauge("store_compaction_debt_bytes", "Bytes that have to be compacted until the state has come to rest, estimated.")
	tombstones     = gauge("store_tombstones", "Deleted rows that are not gone yet, estimated.")
	snapshots      = gauge("store_snapshots", "Views of the state that are open.")
	iterators      = gauge("store_iterators", "Iterators over tables that are open.")
	tableCacheSize = gauge("store_open_tables", "Tables that are open.")
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
