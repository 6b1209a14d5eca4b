package shard

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// Identity says who a node is, to others of its cluster. A node that has voted must not come back without knowing: with its directory
// wiped, replaced, or put back to what it was before, it could vote again in the same term. So others remember what they have met.
type Identity struct {
	Node      uint64 `json:"node"`
	Directory string `json:"directory"` // random, of the data directory
	Boot      uint64 `json:"boot"`      // counts how often it was opened
	Run       string `json:"run"`       // random, of the process: a copy of the directory opened as often is another
}

// maxPast is how many earlier runs a directory remembers. A node that has been away for more starts of another one does not know it any more.
const maxPast = 2048

// pastRun is what a directory remembers of a run: a part of its name, so that many fit in a handshake.
func pastRun(run string) string { return run[:min(len(run), 16)] }

// identity is the part of FORMAT that changes: who this node is, and whom it has met.
type identity struct {
	mu     sync.Mutex // guards format, and is held while that is written
	format format
	theirs map[uint64]string // clusters of the nodes that were met in this run
}

// Identify begins a new life of the node among others: from here on Identity returns it, durably.
func (h *Host) Identify() error {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.format
	var err error
	if f.Self.Directory == "" {
		f.Self.Node = f.NodeID
		if f.Self.Directory, err = h.randomName(); err != nil {
			return err
		}
	}
	if f.Self.Run != "" {
		f.Past = append(slices.Clone(f.Past[max(0, len(f.Past)-maxPast+1):]), pastRun(f.Self.Run))
	}
	f.Self.Boot++
	if f.Self.Run, err = h.randomName(); err != nil {
		return err
	}
	return h.rewriteFormatLocked(f)
}

func (h *Host) randomName() (string, error) {
	b := make([]byte, 16)
	if _, err := io.ReadFull(h.cfg.Random, b); err != nil {
		return "", fmt.Errorf("read random numbers: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// Identity returns who this node is. It is zero before Identify.
func (h *Host) Identity() Identity {
	h.identity.mu.Lock()
	defer h.identity.mu.Unlock()
	return h.identity.format.Self
}

// Past returns the earlier runs of the node's directory, the latest last; it is not changed.
func (h *Host) Past() []string {
	h.identity.mu.Lock()
	defer h.identity.mu.Unlock()
	return h.identity.format.Past
}

// Meet notes, durably, that another node has proved to be one of the cluster; past are the earlier runs of its directory. The one that was met before
// has to be among them: a directory that was put back to what it was before counts its starts up like any other, and would come to a number that was never met.
// cluster is what it says about the cluster that its directory belongs to.
//
// Errors: ErrConflict if it is not the one that was met before under its id; ErrInvalid if it is of another cluster.
func (h *Host) Meet(other Identity, past []string, cluster string) error {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := h.compareClustersLocked(other, cluster); err != nil {
		return err
	}
	met, known := i.format.Met[other.Node]
	switch {
	case !known:
	case met == other:
		return nil
	case met.Directory != other.Directory:
		return engine.Errorf(engine.ErrConflict, "node %d comes with another data directory than before: it was wiped or exchanged, so it can not "+
			"know what it has promised; put the old one back, or replace the node as a member under a new id", other.Node)
	case other.Boot <= met.Boot || !slices.Contains(past, pastRun(met.Run)):
		return engine.Errorf(engine.ErrConflict, "node %d comes with an older copy of its data directory (start %d, start %d is known): it can not "+
			"know what it has promised since; put the newest one back, or replace the node as a member under a new id", other.Node, other.Boot, met.Boot)
	}
	f := i.format
	f.Met = maps.Clone(f.Met)
	if f.Met == nil {
		f.Met = make(map[uint64]Identity)
	}
	f.Met[other.Node] = other
	return h.rewriteFormatLocked(f)
}

func (h *Host) rewriteFormatLocked(f format) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	if err := h.space.retry(func() error { return writeFormat(h.fs, h.cfg.Dir, f) }); err != nil {
		return err
	}
	h.identity.format = f
	return nil
}

// Cluster returns the name of the cluster that the node's directory belongs to, "" if it does not know yet. It is the directory of the voter with the
// lowest id, which all come to know in the same way: each by its first meeting with that node.
func (h *Host) Cluster() string {
	h.identity.mu.Lock()
	defer h.identity.mu.Unlock()
	return h.identity.cluster()
}

func (i *identity) cluster() string {
	first := slices.Min(i.format.Voters)
	if first == i.format.NodeID {
		return i.format.Self.Directory
	}
	return i.format.Met[first].Directory
}

// compareClustersLocked refuses a node whose directory belongs to another cluster. Which of the two is the wrong one the others know: if most nodes are
// of one other cluster it is this one's, and the node fails. So the log that names a directory is that of the node that has it.
func (h *Host) compareClustersLocked(other Identity, cluster string) error {
	i := &h.identity
	own := i.cluster()
	if cluster == "" || own == "" {
		return nil
	}
	if i.theirs == nil {
		i.theirs = make(map[uint64]string)
	}
	i.theirs[other.Node] = cluster
	if cluster == own {
		return nil
	}
	with, against := i.agree(own), i.agree(cluster)
	most := len(i.format.Voters) / 2
	switch {
	case len(against) > most:
		err := engine.Errorf(engine.ErrInvalid, "the data directory %s belongs to another cluster than those of the nodes %v, which are of one: it was wiped or "+
			"exchanged; start node %d with its own", h.cfg.Dir, against, h.cfg.NodeID)
		h.Fail(err)
		return err
	case len(with)+1 > most:
		return engine.Errorf(engine.ErrInvalid, "node %d comes with a data directory of another cluster, or one that was wiped: start it with its own", other.Node)
	}
	return engine.Errorf(engine.ErrInvalid, "node %d and this one, node %d, have data directories of different clusters, or one that was wiped: when more nodes "+
		"are up it shows which is the wrong one", other.Node, h.cfg.NodeID)
}

// agree returns the nodes that were met in this run and are of a cluster.
func (i *identity) agree(cluster string) (nodes []uint64) {
	for node, c := range i.theirs {
		if c == cluster {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
