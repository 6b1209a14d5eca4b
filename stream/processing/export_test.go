package processing

import (
	"context"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// KindSubmit is the kind of the command of Submit.
const KindSubmit = kindSubmit

// MaxOutBytes is how much may wait for sinks in other shards.
const MaxOutBytes = maxOutBytes

// MaxInboxBytes is how much waits in the inbox of a section.
const MaxInboxBytes = maxInboxBytes

// MessageOf returns the inbox of a row that is a message in one.
func MessageOf(row rig.Row) (inbox string, ok bool) {
	if row.Machine != engine.MachineProcessing || row.Key[0] != rowMessage {
		return "", false
	}
	return string(row.Key[:len(row.Key)-8]), true
}

// Lane returns the shard and the name of the duty that runs a job.
func Lane(id JobID) (shard int, duty string) {
	_, r, err := id.parse()
	if err != nil {
		panic(err)
	}
	return int(r.shard), laneNames[r.number%lanes]
}

// Observed returns the table of a node that remembers so many bytes of keyed state, and functions that tell how often its tasks have looked for something to do,
// and how much they remember.
func Observed(bytes int) (table engine.Primitive, looks func() int64, remembered func() int) {
	shared := newMemory(cacheBytes)
	table = tableOf(shared)
	table.Kept.SetLimit(int64(bytes))
	var all []*machine
	table.New = func() engine.Machine {
		m := &machine{memory: shared}
		all = append(all, m)
		return m
	}
	looks = func() (n int64) {
		for _, m := range all {
			m.live.Range(func(_, l any) bool {
				l.(*live).mu.Lock()
				n += l.(*live).looks
				l.(*live).mu.Unlock()
				return true
			})
		}
		return n
	}
	remembered = func() int {
		used, _ := table.Kept.Used()
		return int(used)
	}
	return table, looks, remembered
}

// SubmitOnly is the submission of Apply, which has seen no job of the name: ErrConflict if there is one by now.
func (s *Store) SubmitOnly(ctx context.Context, definition []byte) (Submitted, error) {
	return s.submit(ctx, definition, true)
}
