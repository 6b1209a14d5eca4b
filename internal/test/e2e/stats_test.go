package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/kv"
)

// TestStatsEverywhere queries the cluster state from every node of a cluster, a client, and their
// dashboards: with all nodes, with a node down, and without a quorum. There is one shard, so two of
// the nodes are followers and exchange nothing but heartbeats.
func TestStatsEverywhere(t *testing.T) {
	t.Parallel()
	c := &three{t: t, nodes: make([]*floe.Node, 3), shards: 1}
	c.open()
	client := c.dial(0, 1, 2)
	for range 5 {
		ok[kv.Counted](t)(c.nodes[2].KV("counted").Incr(t.Context(), "k", 1))
	}
	ok[kv.Counted](t)(client.KV("counted").Incr(t.Context(), "other", 1))

	c.shows(client, "ok", "healthy healthy healthy")
	c.keepsShowing("healthy healthy healthy")
	c.stop(1)
	c.shows(client, "ok", "healthy unhealthy healthy")
	if _, err := client.StatsOf(t.Context(), 2); !errors.Is(err, floe.ErrUnavailable) {
		t.Errorf("stats of a dead node through a client: %v, want ErrUnavailable", err)
	}
	if _, err := c.nodes[0].StatsOf(t.Context(), 2); !errors.Is(err, floe.ErrUnavailable) {
		t.Errorf("stats of a dead node: %v, want ErrUnavailable", err)
	}
	c.stop(0)
	c.shows(client, "no quorum", "unhealthy unhealthy unhealthy")
	c.start(1)
	c.shows(client, "ok", "unhealthy healthy healthy")
}

// shows waits until all running nodes and a client report the same state of the cluster, and checks
// their other reports.
func (c *three) shows(client *floe.Client, state, status string) {
	c.t.Helper()
	ctx := c.t.Context()
	running := 0
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		running++
		c.awaitShown(fmt.Sprint("node ", i+1), n, state, status)
		for name, db := range map[string]database{"itself": n, "a client": client} {
			if s, err := db.StatsOf(ctx, uint64(i+1)); err != nil || s.Node != uint64(i+1) {
				c.t.Errorf("stats of node %d from %s are those of node %d, %v", i+1, name, s.Node, err)
			}
		}
		for other := range c.nodes {
			s, err := n.StatsOf(ctx, uint64(other+1))
			if c.nodes[other] != nil && (err != nil || s.Node != uint64(other+1)) {
				c.t.Errorf("stats of node %d from node %d: those of %d, %v", other+1, i+1, s.Node, err)
			}
		}
	}
	c.awaitShown("a client", client, state, status)
	for _, id := range []uint64{0, 4} {
		for name, db := range map[string]database{"a node": c.nodes[2], "a client": client} {
			if _, err := db.StatsOf(ctx, id); !errors.Is(err, floe.ErrNotFound) {
				c.t.Errorf("stats of node %d from %s: %v, want ErrNotFound", id, name, err)
			}
		}
	}
}

func (c *three) awaitShown(name string, db database, state, status string) {
	c.t.Helper()
	var s floe.Stats
	before := time.Now().Truncate(time.Millisecond) // the resolution of a node's time
	await(c.t, name+" shows "+status+", "+state, func() bool {
		var err error
		s, err = db.Stats(c.t.Context())
		return err == nil && string(s.State) == state && shownStatus(s) == status
	})
	for i, n := range s.Nodes {
		if n.Addr != c.peers[i].Addr {
			c.t.Errorf("%s has node %s at %q, it is at %q", name, n.ID, n.Addr, c.peers[i].Addr)
		}
	}
	if s.Now.Before(before) || s.Now.After(time.Now()) || s.Now.Before(s.Started) {
		c.t.Errorf("%s: it is %v, started %v", name, s.Now, s.Started)
	}
	for _, sh := range s.Shards {
		if sh.Commit < sh.Applied || sh.Applied == 0 || (sh.Leader == 0) != (state == "no quorum") {
			c.t.Errorf("%s: %s, but shard %+v", name, state, sh)
		}
	}
	c.dashboardShows(name, db, state, status)
}

// keepsShowing checks that the reports of the nodes do not change while nothing happens, for longer
// than a heartbeat is valid.
func (c *three) keepsShowing(status string) {
	c.t.Helper()
	over := time.After(4 * time.Second)
	for tick := time.Tick(50 * time.Millisecond); ; {
		for i, n := range c.nodes {
			if s := ok[floe.Stats](c.t)(n.Stats(c.t.Context())); shownStatus(s) != status {
				c.t.Fatalf("node %d shows %s, want %s", i+1, shownStatus(s), status)
			}
		}
		select {
		case <-tick:
		case <-over:
			return
		}
	}
}

func shownStatus(s floe.Stats) string {
	var all []string
	for _, n := range s.Nodes {
		all = append(all, string(n.Status))
	}
	return strings.Join(all, " ")
}

// dashboardShows checks the same report of a dashboard in front of a node or a client.
func (c *three) dashboardShows(name string, backend floe.DB, state, status string) {
	c.t.Helper()
	server := httptest.NewServer(dashboard.New(backend, dashboard.Options{}))
	defer server.Close()
	wantStatus := http.StatusOK
	if state != "ok" {
		wantStatus = http.StatusServiceUnavailable
	}
	var health struct{ Status string }
	if code := getJSON(c.t, server.URL+"/health", &health); code != wantStatus || health.Status != state {
		c.t.Errorf("/health of %s: %d %q, want %d %q", name, code, health.Status, wantStatus, state)
	}
	var stats struct {
		Uptime string
		Nodes  []struct{ ID, Status, Role string }
	}
	code := getJSON(c.t, server.URL+"/api/v1/cluster/stats", &stats)
	shown := ""
	for _, n := range stats.Nodes {
		shown += fmt.Sprintf("%s %s %s;", n.ID, n.Status, n.Role)
	}
	words := strings.Fields(status)
	if want := fmt.Sprintf("1 %s active;2 %s active;3 %s active;", words[0], words[1], words[2]); code != http.StatusOK || shown != want ||
		!strings.HasPrefix(stats.Uptime, "0d 0h ") {
		c.t.Errorf("/cluster/stats of %s: %d, %q, uptime %s, want %q", name, code, shown, stats.Uptime, want)
	}
	if state != "ok" {
		return
	}
	type namespace struct {
		Name    string
		KVCount int64 `json:"kv_count"`
	}
	var list []namespace
	await(c.t, "namespaces of "+name, func() bool { // the default one is created once there are leaders
		code := getJSON(c.t, server.URL+"/api/v1/namespaces", &list)
		list = slices.DeleteFunc(list, func(n namespace) bool { return n.Name == "_system" }) // made with the first audit line
		return code == http.StatusOK && fmt.Sprint(list) == "[{counted 2} {default 0}]"
	})
}

func getJSON(t *testing.T, url string, into any) (status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("GET %s: %v\n%s", url, err, b)
	}
	return resp.StatusCode
}
