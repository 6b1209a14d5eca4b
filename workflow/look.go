package workflow

import (
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// seen caches data of workflows that queries have decoded: versions, and the owners of numbers.
// Entries never become stale, since versions never change and numbers are never reused. Apply has
// its own cache, which belongs to its goroutine.
type seen struct {
	mu       sync.Mutex // guards the fields below
	versions map[versionID]*seenVersion
	bytes    int // of their compiled forms
	names    map[uint64]owner
}

// owner is the owner of a number: a workflow of a namespace.
type owner struct {
	ns   uint32
	name string
}

// maxNames limits the cached numbers.
const maxNames = 10_000

// seenVersion is the displayed part of a version.
type seenVersion struct {
	version string
	def     flow.Definition
	bytes   int
}

func (s *seen) get(at versionID) *seenVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[at]
}

// put stores a version, and evicts others if there are too many.
func (s *seen) put(at versionID, v *seenVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions[at] != nil {
		return
	}
	for other, o := range s.versions {
		if s.bytes+v.bytes <= maxRemembered {
			break
		}
		delete(s.versions, other)
		s.bytes -= o.bytes
	}
	if s.versions == nil {
		s.versions = make(map[versionID]*seenVersion)
	}
	s.versions[at] = v
	s.bytes += v.bytes
}

// forget clears the cache.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions, s.bytes, s.names = nil, 0, nil
}

// owner returns the owner of a number.
func (s *seen) owner(v *engine.View, id uint64) (owner, error) {
	s.mu.Lock()
	o, ok := s.names[id]
	s.mu.Unlock()
	if ok {
		return o, nil
	}
	n, ok, err := getRow(v, numberKey(nil, rowName, id), (*nameRow).code)
	if err == nil && !ok {
		err = fmt.Errorf("workflow %d has no name", id)
	}
	if err != nil {
		return o, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxNames {
		s.names = make(map[uint64]owner)
	}
	o = owner{n.ns, n.name}
	s.names[id] = o
	return o, nil
}

// version returns a version, whose definition must not be modified.
func (s *seen) version(v *engine.View, at versionID) (*seenVersion, error) {
	if known := s.get(at); known != nil {
		return known, nil
	}
	row, ok, err := getRow(v, versionKey(nil, at.id, at.number), (*versionRow).code)
	if err == nil && !ok {
		err = fmt.Errorf("workflow %d has no version %d", at.id, at.number)
	}
	if err != nil {
		return nil, err
	}
	d, err := decode(row.compiled, (*flow.Definition).Code)
	if err != nil {
		return nil, fmt.Errorf("workflow %d, version %q: %w", at.id, row.version, err)
	}
	known := &seenVersion{row.version, d, len(row.compiled)}
	s.put(at, known)
	return known, nil
}

// source returns the source of a version.
func (s *seen) source(v *engine.View, at versionID) ([]byte, error) {
	row, ok, err := getRow(v, versionKey(nil, at.id, at.number), (*versionRow).code)
	if err == nil && !ok {
		err = fmt.Errorf("workflow %d has no version %d", at.id, at.number)
	}
	return row.source, err
}
