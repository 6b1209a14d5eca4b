package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/floedb/floe"
)

// options are the flags, see main.
type options struct {
	addr, dataDir     string
	peers, secretFile string
	nodeID            uint64
	cluster           bool
}

// sites returns what this process runs. One node, a member of a cluster and three nodes in one
// process differ in their floe.Config only.
func (o options) sites() ([]site, error) {
	switch {
	case o.cluster && o.peers != "":
		return nil, errors.New("-cluster and -peers exclude each other")
	case o.cluster:
		return o.local()
	case o.peers != "":
		return o.member()
	}
	return []site{{o.addr, floe.Config{DataDir: o.dataDir}}}, nil
}

// member returns one node of a cluster. It needs a directory: the other nodes do not admit a node
// again that has lost its log.
func (o options) member() ([]site, error) {
	if o.dataDir == "" || o.secretFile == "" || o.nodeID == 0 {
		return nil, errors.New("-peers needs -node-id, -secret-file and -data")
	}
	secret, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, err
	}
	c := floe.Config{DataDir: o.dataDir, NodeID: o.nodeID, Secret: secret}
	for peer := range strings.SplitSeq(o.peers, ",") {
		id, addr, _ := strings.Cut(peer, "=")
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("-peers: %q is not id=host:port", peer)
		}
		c.Peers = append(c.Peers, floe.Peer{ID: n, Addr: addr})
	}
	return []site{{o.addr, c}}, nil
}

// local returns three nodes for one process. Each serves the shop on its own port and talks to the
// others on a port that is 100 higher.
func (o options) local() ([]site, error) {
	host, text, err := net.SplitHostPort(o.addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("-cluster: the port of -addr is a number: %w", err)
	}
	var at []string
	var peers []floe.Peer
	for i := range 3 {
		at = append(at, net.JoinHostPort(host, strconv.Itoa(port+i)))
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port+100+i))})
	}
	return locally(at, peers, o.dataDir), nil
}

// locally returns the nodes of a cluster, with the addresses of their shops.
func locally(at []string, peers []floe.Peer, dataDir string) []site {
	secret := []byte(rand.Text())
	sites := make([]site, len(peers))
	for i, p := range peers {
		sites[i] = site{at[i], floe.Config{NodeID: p.ID, Peers: peers, Secret: secret}}
		if dataDir != "" {
			sites[i].node.DataDir = filepath.Join(dataDir, fmt.Sprint("node", p.ID))
		}
	}
	return sites
}
