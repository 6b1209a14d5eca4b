package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

func clusterCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := group("cluster", "See the nodes of a cluster", clusterStatus(f))
	f.equip(cmd)
	return cmd
}

// clusterStats are the nodes and shards, as the node that was asked sees them.
type clusterStats struct {
	Version       string       `json:"version"`
	State         string       `json:"state"`
	Uptime        string       `json:"uptime"`
	RPS           int64        `json:"rps"`
	CommandsTotal int64        `json:"commands_total"`
	Subscriptions int          `json:"subscriptions"`
	NumShards     int          `json:"num_shards"`
	Nodes         []nodeStats  `json:"nodes"`
	Shards        []shardStats `json:"shards"`
}

type nodeStats struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Role   string `json:"role"`
}

type shardStats struct {
	ID      int    `json:"id"`
	Leader  uint64 `json:"leader"` // node, 0: none known
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
	LSN     uint64 `json:"lsn"`
	Queued  int    `json:"queued"`
	Waiting int    `json:"waiting"`
}

func clusterStatus(f *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show nodes and shards as the node sees them that answers",
		Long: `Show nodes and shards as the node sees them that answers: which nodes it can reach, and for
each shard the node that leads it, its term, and how far this node has come with it.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.call(cmd, func(ctx context.Context, s *session) error {
				stats, err := s.Stats(ctx)
				if err != nil {
					return err
				}
				return s.printCluster(stats)
			})
		},
	}
}

func (s *session) printCluster(stats floe.Stats) error {
	document := clusterStats{
		Version: stats.Version, State: stats.State, Uptime: uptime(time.Since(stats.Started)), RPS: stats.Rate,
		CommandsTotal: stats.Commands, Subscriptions: stats.Waiting, NumShards: len(stats.Shards),
	}
	nodes := table{name: "node", head: []string{"NODE", "STATUS", "ROLE"}}
	for _, n := range stats.Nodes {
		document.Nodes = append(document.Nodes, nodeStats{n.ID, n.Status, n.Role})
		nodes.rows = append(nodes.rows, []string{n.ID, n.Status, n.Role})
	}
	shards := table{name: "shard", head: []string{"SHARD", "LEADER", "TERM", "APPLIED"}}
	for _, sh := range stats.Shards {
		document.Shards = append(document.Shards, shardStats(sh))
		leader := "none"
		if sh.Leader != 0 {
			leader = decimal(sh.Leader)
		}
		shards.rows = append(shards.rows, []string{decimal(sh.ID), leader, decimal(sh.Term), decimal(sh.Applied)})
	}
	return s.print(document, nodes, shards)
}

// serverStats are what a node says about itself.
type serverStats struct {
	Version       string    `json:"version"`
	State         string    `json:"state"` // ok, no quorum, failed
	StartedAt     int64     `json:"started_at"`
	Uptime        string    `json:"uptime"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	CommandsTotal int64     `json:"commands_total"`
	RPS           int64     `json:"rps"`
	Subscriptions int       `json:"subscriptions"`
	NumShards     int       `json:"num_shards"`
	Disk          diskStats `json:"disk"`
}

type diskStats struct {
	ReadOnly     bool  `json:"read_only"`
	FreeBytes    int64 `json:"free_bytes"`
	MinFreeBytes int64 `json:"min_free_bytes"` // with less the node is read-only
	Full         int64 `json:"full_total"`     // operations that found no space
	Slow         int64 `json:"slow_total"`     // writes and fsyncs that took longer than 2 s
}

func statusCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a node is: version, uptime, state, load and disk",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.call(cmd, func(ctx context.Context, s *session) error {
				stats, err := s.Stats(ctx)
				if err != nil {
					return err
				}
				return s.printServer(stats)
			})
		},
	}
	f.equip(cmd)
	return cmd
}

func (s *session) printServer(stats floe.Stats) error {
	up := max(0, time.Since(stats.Started).Truncate(time.Second))
	disk := diskStats(stats.Disk)
	return s.print(serverStats{
		Version: stats.Version, State: stats.State, StartedAt: stats.Started.UnixMilli(), Uptime: uptime(up), UptimeSeconds: int64(up / time.Second),
		CommandsTotal: stats.Commands, RPS: stats.Rate, Subscriptions: stats.Waiting, NumShards: len(stats.Shards), Disk: disk,
	}, table{rows: [][]string{
		{"version", stats.Version},
		{"state", stats.State},
		{"started", shownTime(stats.Started)},
		{"uptime", up.String()},
		{"shards", decimal(len(stats.Shards))},
		{"commands", decimal(stats.Commands)},
		{"commands/s", decimal(stats.Rate)},
		{"waiting", decimal(stats.Waiting)},
		{"disk free", shownBytes(disk.FreeBytes)},
		{"disk needed", shownBytes(disk.MinFreeBytes)},
		{"read-only", strconv.FormatBool(disk.ReadOnly)},
		{"disk full", decimal(disk.Full)},
		{"disk slow", decimal(disk.Slow)},
	}})
}

func shownBytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// uptime renders a duration as <d>d <h>h <m>m, like the JSON API.
func uptime(d time.Duration) string {
	minutes := max(0, int64(d/time.Minute))
	return fmt.Sprintf("%dd %dh %dm", minutes/(24*60), minutes/60%24, minutes%60)
}
