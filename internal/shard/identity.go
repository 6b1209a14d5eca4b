package shard

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
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

// identity is the part of FORMAT that changes: who this node is, and whom it has met.
type identity struct {
	mu     sync.Mutex // guards format, and is held while that is written
	format format
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

// Meet notes, durably, that another node has proved to be one of the cluster. Errors: ErrConflict if it is not the one that was met before under
// its id.
func (h *Host) Meet(other Identity) error {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	met, known := i.format.Met[other.Node]
	switch {
	case !known:
	case met == other:
		return nil
	case met.Directory != other.Directory:
		return engine.Errorf(engine.ErrConflict, "node %d comes with another data directory than before: it was wiped or exchanged, so it can not "+
			"know what it has promised; put the old one back, or replace the node as a member under a new id", other.Node)
	case other.Boot < met.Boot || other.Boot == met.Boot && other.Run != met.Run:
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
