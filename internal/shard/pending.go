package shard

import "sync"

// pending holds the proposals that are in the log, or about to be, and have no outcome yet.
type pending struct {
	mu  sync.Mutex             // guards all; nothing is called under it
	all map[uint64][]*proposal // by sequence of the entry
}

func (p *pending) add(entries []proposedEntry) {
	if len(entries) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		p.all[e.sequence] = e.proposals
	}
}

// take returns the proposals of an entry, or nil if they are not of this process or were abandoned.
func (p *pending) take(sequence uint64) []*proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	proposals := p.all[sequence]
	delete(p.all, sequence)
	return proposals
}

// takeAll returns the proposals of all entries.
func (p *pending) takeAll() map[uint64][]*proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = make(map[uint64][]*proposal)
	return all
}
