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

// Identity identifies a node to the other nodes of its cluster. A node that has voted must not
// return without its vote. With its directory wiped, replaced or restored from a copy, it could
// vote again in the same term. So the others remember the identities they have met.
type Identity struct {
	Node      uint64 `json:"node"`
	Directory string `json:"directory"` // random, of the data directory
	Boot      uint64 `json:"boot"`      // number of times it was opened
	Run       string `json:"run"`       // random, of the process: a copy of the directory opened as often has another
}

// Introduction describes a node to another node of its cluster.
//
// A directory remembers, for each other node, the runs in which that node may have met it: the run
// last confirmed, and every later run with an introduction. A node that met this directory in any
// other run met another copy of it. The list stays short even if the directory is opened often,
// because runs that no node has met are not in it.
//
// Meetings with third nodes show whether two nodes have seen the same history of a third; see
// Host.Meet.
type Introduction struct {
	Identity
	Cluster string // cluster of the directory, "" if not known yet; see Host.Cluster
	Shown   []Shown
	Met     []Meeting // with other nodes, limited to what concerns the recipient
}

// Shown is the list of runs of a directory in which another node may have met it, the latest last.
type Shown struct {
	Node uint64   `json:"node"`
	Runs []string `json:"runs"` // each as of shortRun
}

// Meeting is a node's last meeting with another node: the other's identity, and the runs in which
// the other believed that nodes had met it.
type Meeting struct {
	Identity
	Shown []Shown `json:"shown,omitempty"`
}

// shownTo returns the runs that a node may have met.
func shownTo(node uint64, all []Shown) []string {
	if i := slices.IndexFunc(all, func(s Shown) bool { return s.Node == node }); i >= 0 {
		return all[i].Runs
	}
	return nil
}

// withShown returns all with other runs for a node.
func withShown(all []Shown, node uint64, runs []string) []Shown {
	all = slices.DeleteFunc(slices.Clone(all), func(s Shown) bool { return s.Node == node })
	return append(all, Shown{node, runs})
}

// maxShown bounds the runs shown to a node but not confirmed, which happens only if a connection
// breaks at that moment. Beyond it the oldest of these is dropped, never the confirmed one.
const maxShown = 256

// shortRun returns the part of a run's name that is remembered, so that a handshake has room for
// many.
func shortRun(run string) string { return run[:min(len(run), 16)] }

// identity is the part of FORMAT that changes: the node's identity and the nodes it has met.
type identity struct {
	mu     sync.Mutex // guards format; held while that is written
	format format
	// By node, for nodes met in this run:
	clusters map[uint64]string
	theirs   map[uint64]Introduction // as received
}

// Identify begins a new run of the node in its cluster, durably. From then on Identity returns it.
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
	if f.Past != nil { // of a build that remembered all its runs, shown or not
		runs := append(slices.Clone(f.Past[max(0, len(f.Past)-maxShown+1):]), shortRun(f.Self.Run))
		for _, node := range f.Voters {
			if node != f.NodeID {
				f.Shown = withShown(f.Shown, node, runs)
			}
		}
		f.Past = nil
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

// Identity returns the identity of this node. It is zero before Identify.
func (h *Host) Identity() Identity {
	h.identity.mu.Lock()
	defer h.identity.mu.Unlock()
	return h.identity.format.Self
}

// Introduce returns this node's introduction to another node. That node may then remember this run,
// so Introduce first records that durably.
func (h *Host) Introduce(to uint64) (Introduction, error) {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	run, runs := shortRun(i.format.Self.Run), shownTo(to, i.format.Shown)
	if slices.Contains(i.format.Voters, to) && !slices.Contains(runs, run) {
		if runs = append(slices.Clone(runs), run); len(runs) > maxShown {
			runs = slices.Delete(runs, 1, 2)
		}
		f := i.format
		f.Shown = withShown(f.Shown, to, runs)
		if err := h.rewriteFormatLocked(f); err != nil {
			return Introduction{}, err
		}
	}
	self := Introduction{Identity: i.format.Self, Cluster: i.cluster(), Shown: i.format.Shown}
	for _, node := range slices.Sorted(maps.Keys(i.format.Met)) {
		m := i.format.Met[node]
		self.Met = append(self.Met, Meeting{m.Identity, []Shown{{to, shownTo(to, m.Shown)}}})
	}
	return self, nil
}

// Confirmed records that another node remembers this run and will not require an earlier one. It
// becomes durable with the next change. If it is lost, the list is only longer.
func (h *Host) Confirmed(node uint64) {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(shownTo(node, i.format.Shown)) > 1 {
		i.format.Shown = withShown(i.format.Shown, node, []string{shortRun(i.format.Self.Run)})
	}
}

// Meet records durably that another node has proved to be in the cluster, and its introduction.
//
// The runs shown by the other's directory must contain the one in which this node last met it. The
// number of starts proves nothing, because a directory restored from an earlier copy continues to
// count, and reaches numbers that no node has met. This node may never have met the later runs of
// such a directory. Nodes that have met them report the copy, unless they are down. In that case
// the two may have formed a quorum that lacks writes acknowledged in those later runs. Nodes that
// meet therefore compare their meetings with third nodes. If a third node has met runs that belong
// to different histories, the two must not merge their logs.
//
// Errors: ErrConflict if it differs from the node met before under its id; ErrInvalid if it is in
// another cluster, or has met another copy of a third node's directory.
func (h *Host) Meet(other Introduction) error {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := h.compareClustersLocked(&other); err != nil {
		return err
	}
	met, known := i.format.Met[other.Node]
	switch {
	case known && met.Directory != other.Directory:
		return engine.Errorf(engine.ErrConflict,
			"node %d has another data directory than before: it was wiped or replaced, so its "+
				"votes and acknowledgments are lost; restore the old one", other.Node)
	case known && met.Identity != other.Identity &&
		(other.Boot <= met.Boot || !slices.Contains(shownTo(i.format.NodeID, other.Shown), shortRun(met.Run))):
		return olderCopy(&other, met.Boot)
	}
	if err := i.compareMeetingsLocked(&other); err != nil {
		return err
	}
	i.theirs[other.Node] = other
	if known && met.Identity == other.Identity {
		return nil
	}
	f := i.format
	f.Met = maps.Clone(f.Met)
	if f.Met == nil {
		f.Met = make(map[uint64]Meeting)
	}
	f.Met[other.Node] = Meeting{other.Identity, other.Shown}
	return h.rewriteFormatLocked(f)
}

func olderCopy(other *Introduction, known uint64) error {
	return engine.Errorf(engine.ErrConflict,
		"node %d has an older copy of its data directory (start %d, start %d is known): its latest "+
			"votes and acknowledgments are lost; restore the newest copy", other.Node, other.Boot, known)
}

// compareMeetingsLocked compares the meetings with third nodes of this node, of others met in this
// run, and of another node.
func (i *identity) compareMeetingsLocked(other *Introduction) error {
	for _, theirs := range i.theirs {
		for _, m := range theirs.Met {
			// This does not check whether the run is among those shown, because the node may have
			// met a later one since it sent this.
			if m.Node == other.Node && m.Directory == other.Directory && m.Identity != other.Identity && other.Boot <= m.Boot {
				return olderCopy(other, m.Boot)
			}
		}
	}
	for _, theirs := range other.Met {
		ours, known := i.format.Met[theirs.Node]
		if known && !oneHistory(i.format.NodeID, ours, other.Node, theirs) {
			return engine.Errorf(engine.ErrInvalid,
				"nodes %d and %d have met different copies of the data directory of node %d (its starts %d and %d): an older one was put "+
					"back, and each side may have acknowledged writes that the other lacks, so they do not join; keep the side "+
					"whose data is to be kept, with the newest "+
					"directory of node %d that belongs to it", i.format.NodeID, other.Node, theirs.Node, ours.Boot, theirs.Boot,
				theirs.Node)
		}
	}
	return nil
}

// oneHistory reports whether two nodes met a third one in runs of one history of its directory. The
// later run must have the earlier one in its list.
func oneHistory(a uint64, metA Meeting, b uint64, metB Meeting) bool {
	if metA.Boot < metB.Boot {
		a, metA, b, metB = b, metB, a, metA
	}
	switch {
	case metA.Identity == metB.Identity:
		return true
	case metA.Directory != metB.Directory:
		return false
	case metA.Shown == nil:
		return true // noted by a build that did not check
	}
	return slices.Contains(shownTo(b, metA.Shown), shortRun(metB.Run))
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

// Cluster returns the name of the cluster of the node's directory, "" if not known yet. It is the
// name of the directory of the voter with the lowest id. Each node learns it at its first meeting
// with that voter.
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

// compareClustersLocked refuses a node whose directory belongs to another cluster. The other nodes
// decide which of the two is wrong. If most nodes are in one other cluster, this node's directory
// is wrong, and this node fails. So a wrong directory is reported in the log of its own node.
func (h *Host) compareClustersLocked(other *Introduction) error {
	i := &h.identity
	if i.clusters == nil {
		i.clusters, i.theirs = make(map[uint64]string), make(map[uint64]Introduction)
	}
	own, cluster := i.cluster(), other.Cluster
	if cluster == "" || own == "" {
		return nil
	}
	i.clusters[other.Node] = cluster
	if cluster == own {
		return nil
	}
	with, against := i.agree(own), i.agree(cluster)
	most := len(i.format.Voters) / 2
	switch {
	case len(against) > most:
		err := engine.Errorf(engine.ErrInvalid,
			"the data directory %s belongs to another cluster than those of the nodes %v: it was wiped or "+
				"replaced; start node %d with its own", h.cfg.Dir, against, h.cfg.NodeID)
		h.Fail(err)
		return err
	case len(with)+1 > most:
		return engine.Errorf(engine.ErrInvalid,
			"node %d has the data directory of another cluster, or one that was wiped: start it with its own", other.Node)
	}
	return engine.Errorf(engine.ErrInvalid,
		"node %d and this one, node %d, have data directories of different clusters, or one that was wiped: when more nodes "+
			"are up, the wrong one can be identified", other.Node, h.cfg.NodeID)
}

// agree returns the nodes that were met in this run and belong to a cluster.
func (i *identity) agree(cluster string) (nodes []uint64) {
	for node, c := range i.clusters {
		if c == cluster {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
