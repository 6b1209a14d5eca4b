package dashboard

import (
	"context"
	"fmt"
	"time"

	"github.com/floedb/floe"
)

var clusterRoutes = []route{
	endpoint("GET /api/v1/cluster/stats", (*handler).clusterStats, "Get throughput, connections and members of the cluster."),
	endpoint("GET /api/v1/metrics", (*handler).metrics, "Get the counters of the server and of each primitive."),
}

// clusterStats is the body of /cluster/stats. Received, sent and active count requests of the
// handler, and connections of the node's own port. Commands and bytes count since the start of the
// process, as its uptime does, so a decrease means a restart. Counts of a namespace or an object in
// one survive restarts.
type clusterStats struct {
	RPS               int64       `json:"rps"`
	ActiveConnections int64       `json:"active_connections"`
	Uptime            string      `json:"uptime"`
	Version           string      `json:"version"`
	NumShards         int         `json:"num_shards"`
	CommandsTotal     int64       `json:"commands_total"`
	BytesReceived     int64       `json:"bytes_received"`
	BytesSent         int64       `json:"bytes_sent"`
	Subscriptions     int         `json:"subscriptions"`
	Nodes             []nodeStats `json:"nodes"`
}

type nodeStats struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Role   string `json:"role"`
}

func (h *handler) clusterStats(ctx context.Context, _ nothing) (clusterStats, error) {
	s, err := h.backend.Stats(ctx)
	if err != nil {
		return clusterStats{}, err
	}
	nodes := make([]nodeStats, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes = append(nodes, nodeStats{ID: n.ID, Status: string(n.Status), Role: string(n.Role)})
	}
	return clusterStats{
		RPS:               s.Rate,
		ActiveConnections: h.traffic.inFlight.Load() + int64(s.Port.Connections),
		Uptime:            uptime(s.Now.Sub(s.Started)),
		Version:           s.Version,
		NumShards:         len(s.Shards),
		CommandsTotal:     s.Commands,
		BytesReceived:     h.traffic.received.Load() + s.Port.BytesReceived,
		BytesSent:         h.traffic.sent.Load() + s.Port.BytesSent,
		Subscriptions:     s.Waiting,
		Nodes:             nodes,
	}, nil
}

// uptime formats a duration as <d>d <h>h <m>m.
func uptime(d time.Duration) string {
	minutes := max(0, int64(d/time.Minute))
	return fmt.Sprintf("%dd %dh %dm", minutes/(24*60), minutes/60%24, minutes%60)
}

// metrics is the body of /metrics.
type metrics struct {
	Server       serverMetrics   `json:"server"`
	Streams      int64           `json:"streams"`
	Queues       int64           `json:"queues"`
	KVNamespaces int64           `json:"kv_namespaces"` // namespaces with keys, as listed by /kv/namespaces
	Workflows    workflowMetrics `json:"workflows"`
}

// serverMetrics count since the start of the process, UptimeSeconds ago.
type serverMetrics struct {
	Connections   int64 `json:"connections"`
	Subscriptions int   `json:"subscriptions"`
	CommandsTotal int64 `json:"commands_total"`
	BytesReceived int64 `json:"bytes_received"`
	BytesSent     int64 `json:"bytes_sent"`
	UptimeSeconds int64 `json:"uptime_seconds"`
}

// workflowMetrics are counted in the log, and so survive restarts. A signal counts as delivered
// when its run has received it, even if no step has consumed it yet. A step counts as executed when
// a run reaches it, even if the step waits or the run is cancelled meanwhile.
type workflowMetrics struct {
	ActiveRuns            int64 `json:"active_runs"`
	StartedTotal          int64 `json:"started_total"`
	CompletedTotal        int64 `json:"completed_total"`
	FailedTotal           int64 `json:"failed_total"`
	CancelledTotal        int64 `json:"cancelled_total"`
	TimedOutTotal         int64 `json:"timed_out_total"`
	SignalsDeliveredTotal int64 `json:"signals_delivered_total"`
	TimersFiredTotal      int64 `json:"timers_fired_total"`
	StepsExecutedTotal    int64 `json:"steps_executed_total"`
	ActiveSchedules       int64 `json:"active_schedules"`
}

func (h *handler) metrics(ctx context.Context, _ nothing) (metrics, error) {
	s, err := h.backend.Stats(ctx)
	if err != nil {
		return metrics{}, err
	}
	m := metrics{Server: h.serverMetrics(s)}
	for info, err := range h.backend.Namespaces().All(ctx) {
		if err != nil {
			return metrics{}, err
		}
		if holdsKeys(info) {
			m.KVNamespaces++
		}
		m.Streams += info.Counts.Streams
		m.Queues += info.Counts.Queues
		m.Workflows.add(info.Counts)
	}
	return m, nil
}

// add adds the counts of a namespace.
func (m *workflowMetrics) add(c floe.Counts) {
	m.ActiveRuns += c.RunsActive
	m.StartedTotal += c.RunsStarted
	m.CompletedTotal += c.RunsCompleted
	m.FailedTotal += c.RunsFailed
	m.CancelledTotal += c.RunsCancelled
	m.TimedOutTotal += c.RunsTimedOut
	m.SignalsDeliveredTotal += c.Signals
	m.TimersFiredTotal += c.Timers
	m.StepsExecutedTotal += c.Steps
	m.ActiveSchedules += c.Schedules
}

func (h *handler) serverMetrics(s floe.Stats) serverMetrics {
	return serverMetrics{
		Connections:   h.traffic.inFlight.Load() + int64(s.Port.Connections),
		Subscriptions: s.Waiting,
		CommandsTotal: s.Commands,
		BytesReceived: h.traffic.received.Load() + s.Port.BytesReceived,
		BytesSent:     h.traffic.sent.Load() + s.Port.BytesSent,
		UptimeSeconds: max(0, int64(s.Now.Sub(s.Started)/time.Second)),
	}
}

// shardState is an item of /console/shards: a shard as seen by this node. The endpoint accesses no
// shard, so it works when none does.
type shardState struct {
	ID      int    `json:"id"`
	Leader  uint64 `json:"leader"` // node id; 0: no leader, so nothing in the shard can be read or written
	Behind  uint64 `json:"behind"` // committed log entries that reads of this replica do not see yet
	LSN     uint64 `json:"lsn"`
	Queued  int    `json:"queued"`  // proposals
	Waiting int    `json:"waiting"` // queries
}

func (h *handler) shards(ctx context.Context, _ nothing) (listing[shardState], error) {
	s, err := h.backend.Stats(ctx)
	if err != nil {
		return listing[shardState]{}, err
	}
	l := listing[shardState]{items: make([]shardState, 0, len(s.Shards))}
	for _, sh := range s.Shards {
		l.items = append(l.items, shardState{ID: sh.ID, Leader: sh.Leader, Behind: sh.Commit - min(sh.Applied, sh.Commit), LSN: sh.LSN,
			Queued: sh.Queued, Waiting: sh.Waiting})
	}
	return l, nil
}
