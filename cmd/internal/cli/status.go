package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
)

var clusterRows = []row{
	{use: "status", short: "Show all nodes and shards of the cluster", run: clusterStatus,
		long: `Show all nodes and shards of the cluster, as seen by one node, which queries the others.

A row per node shows whether it is alive and can write, and how many shards it leads. A row
per shard shows its leader, term and commit index, and the progress of each node; - is a
node without an answer. Below are the connection problems between nodes. The exit code is 5
while a shard has no leader.`},
}

// clusterStats are the nodes and shards of a cluster, as the called node sees them and as the other
// nodes answered it.
type clusterStats struct {
	Version       string       `json:"version"`
	Node          uint64       `json:"node"` // the node that was called; the fields below, up to NumShards, are its own
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
	ID            string         `json:"id"`
	Addr          string         `json:"addr"`
	Status        string         `json:"status"`
	Role          string         `json:"role"`
	Leads         int            `json:"leads"` // number of shards that it leads
	State         string         `json:"state"` // as the node reports it; up to Durability, empty if it does not answer
	Version       string         `json:"version"`
	UptimeSeconds int64          `json:"uptime_seconds"`
	RPS           int64          `json:"rps"`
	Durability    string         `json:"durability"`
	Problems      []problemStats `json:"problems"` // known problems with the node
}

// problemStats is a problem that a node reports: another node that it cannot reach or does not
// accept, or a problem of its own.
type problemStats struct {
	SeenBy uint64 `json:"seen_by"`
	Text   string `json:"text"`
}

type shardStats struct {
	ID       int            `json:"id"`
	Leader   uint64         `json:"leader"` // node id, 0: unknown
	Term     uint64         `json:"term"`
	Commit   uint64         `json:"commit"`
	Replicas []replicaStats `json:"replicas"` // of the nodes that answer
}

// replicaStats is the replica of a shard on a node.
type replicaStats struct {
	Node    uint64 `json:"node"`
	Leader  uint64 `json:"leader"` // as seen by this node
	Term    uint64 `json:"term"`
	Commit  uint64 `json:"commit"`
	Applied uint64 `json:"applied"`
	LSN     uint64 `json:"lsn"`
	Queued  int    `json:"queued"`
	Waiting int    `json:"waiting"`
}

func clusterStatus(ctx context.Context, s *session, _ []string) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	all := newClusterStats(stats, s.askNodes(ctx, stats))
	if err := s.printCluster(all); err != nil {
		return err
	}
	return all.led()
}

// led returns an error that names the shards without a leader.
func (c *clusterStats) led() error {
	var without []string
	for _, sh := range c.Shards {
		if sh.Leader == 0 {
			without = append(without, decimal(sh.ID))
		}
	}
	if len(without) == 0 {
		return nil
	}
	text := "no leader of shard " + strings.Join(without, ", ")
	return &hintedError{&textError{floe.ErrUnavailable, text},
		"a majority of the nodes must run and reach each other; the reasons above say what prevents it"}
}

// answerTime is the time limit for a node to report its state. A node that takes longer counts as
// not answering.
const answerTime = 2 * time.Second

// askNodes returns the stats of each node that the first one lists; nil for a node that does not
// answer.
func (s *session) askNodes(ctx context.Context, first floe.Stats) []*floe.Stats {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answers := make([]*floe.Stats, len(first.Nodes))
	var calls sync.WaitGroup
	for i, n := range first.Nodes {
		id, err := nodeID(n.ID)
		if err != nil || id == first.Node {
			answers[i] = &first
			continue
		}
		calls.Go(func() {
			if stats, err := s.StatsOf(ctx, id); err == nil {
				answers[i] = &stats
			}
		})
	}
	calls.Wait()
	return answers
}

// newClusterStats combines the stats of the first node with the answers of all nodes that it lists;
// nil for a node that has not answered.
func newClusterStats(first floe.Stats, answers []*floe.Stats) clusterStats {
	c := clusterStats{
		Version: first.Version, Node: first.Node, State: string(first.State), Uptime: uptime(first.Now.Sub(first.Started)), RPS: first.Rate,
		CommandsTotal: first.Commands, Subscriptions: first.Waiting, NumShards: len(first.Shards),
	}
	leads := make(map[string]int)
	for i := range first.Shards {
		sh := newShardStats(i, answers)
		leads[decimal(sh.Leader)]++
		c.Shards = append(c.Shards, sh)
	}
	for i, n := range first.Nodes {
		node := nodeStats{ID: n.ID, Addr: n.Addr, Status: string(floe.StatusUnhealthy), Role: string(n.Role), Leads: leads[n.ID]}
		if own := answers[i]; own != nil {
			node.Status = string(ownStatus(own))
			node.State, node.Version, node.RPS = string(own.State), own.Version, own.Rate
			node.UptimeSeconds = int64(own.Now.Sub(own.Started) / time.Second)
			node.Durability = own.Durability.String()
		}
		node.Problems = problemsOf(n.ID, answers)
		c.Nodes = append(c.Nodes, node)
	}
	return c
}

// problemsOf collects the problems of a node from all answers.
func problemsOf(id string, answers []*floe.Stats) []problemStats {
	all := []problemStats{}
	for _, a := range answers {
		if a == nil {
			continue
		}
		for _, n := range a.Nodes {
			if n.ID == id && n.Problem != "" {
				all = append(all, problemStats{a.Node, n.Problem})
			}
		}
	}
	return all
}

// ownStatus is the status of a node in its own list of nodes.
func ownStatus(s *floe.Stats) floe.NodeStatus {
	for _, n := range s.Nodes {
		if n.ID == decimal(s.Node) {
			return n.Status
		}
	}
	return floe.StatusUnhealthy
}

// newShardStats takes the leader from the node that has seen the latest term.
func newShardStats(id int, answers []*floe.Stats) shardStats {
	sh := shardStats{ID: id, Replicas: []replicaStats{}}
	for _, own := range answers {
		if own == nil || id >= len(own.Shards) {
			continue
		}
		r := own.Shards[id]
		if r.Term > sh.Term || r.Term == sh.Term && r.Leader != 0 {
			sh.Term, sh.Leader = r.Term, r.Leader
		}
		sh.Commit = max(sh.Commit, r.Commit)
		sh.Replicas = append(sh.Replicas, replicaStats{
			Node: own.Node, Leader: r.Leader, Term: r.Term, Commit: r.Commit, Applied: r.Applied, LSN: r.LSN, Queued: r.Queued,
			Waiting: r.Waiting,
		})
	}
	return sh
}

func (s *session) printCluster(c clusterStats) error {
	nodes := table{name: "node", head: []string{"NODE", "ADDRESS", "STATUS", "LEADS", "UPTIME", "COMMANDS/S"}}
	shards := table{name: "shard", head: []string{"SHARD", "LEADER", "TERM", "COMMIT"}}
	for _, n := range c.Nodes {
		row := []string{n.ID, cmp.Or(n.Addr, "-"), n.Status, decimal(n.Leads), "-", "-"}
		if n.State != "" {
			row[4], row[5] = (time.Duration(n.UptimeSeconds) * time.Second).String(), decimal(n.RPS)
		}
		nodes.rows = append(nodes.rows, row)
		shards.head = append(shards.head, "APPLIED BY "+n.ID)
	}
	for _, sh := range c.Shards {
		row := []string{decimal(sh.ID), "none", decimal(sh.Term), decimal(sh.Commit)}
		if sh.Leader != 0 {
			row[1] = decimal(sh.Leader)
		}
		for _, n := range c.Nodes {
			row = append(row, sh.appliedBy(n.ID))
		}
		shards.rows = append(shards.rows, row)
	}
	problems := table{name: "problem", head: []string{"NODE", "SEEN BY", "PROBLEM"}}
	for _, n := range c.Nodes {
		for _, p := range n.Problems {
			problems.rows = append(problems.rows, []string{n.ID, decimal(p.SeenBy), p.Text})
		}
	}
	if len(problems.rows) == 0 {
		return s.print(c, nodes, shards)
	}
	return s.print(c, nodes, shards, problems)
}

func (sh *shardStats) appliedBy(id string) string {
	for _, r := range sh.Replicas {
		if decimal(r.Node) == id {
			return decimal(r.Applied)
		}
	}
	return "-"
}

// serverStats are the stats of a node in JSON.
type serverStats struct {
	Version       string    `json:"version"`
	Node          uint64    `json:"node"`
	State         string    `json:"state"` // ok, no quorum, replicas differ, failed
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
	Full         int64 `json:"full_total"`     // operations that failed for lack of space
	Slow         int64 `json:"slow_total"`     // writes and fsyncs that took longer than 2 s
}

func statusCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state, load and disk of a node",
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
	up := max(0, stats.Now.Sub(stats.Started).Truncate(time.Second))
	disk := diskStats(stats.Disk)
	return s.print(serverStats{
		Version: stats.Version, Node: stats.Node, State: string(stats.State), StartedAt: stats.Started.UnixMilli(), Uptime: uptime(up),
		UptimeSeconds: int64(up / time.Second),
		CommandsTotal: stats.Commands, RPS: stats.Rate, Subscriptions: stats.Waiting, NumShards: len(stats.Shards), Disk: disk,
	}, table{rows: [][]string{
		{"version", stats.Version},
		{"node", decimal(stats.Node)},
		{"state", string(stats.State)},
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
