package workers

import (
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// caller is what a shard answers of a worker that calls by itself, beside what its row says: other shards may have more of it.
type caller struct {
	unregistered bool
	held         int         // runs that it has of the shard
	stats        workerStats // of its runs that the shard has seen end
}

func (i *Info) codeCaller(c *codec.Coder) {
	there := i.caller != nil
	if c.Bool(&there); !there {
		return
	}
	if c.Reading() {
		i.caller = new(caller)
	}
	c.Bool(&i.caller.unregistered)
	c.Int(&i.caller.held)
	i.caller.stats.code(c)
}

// merge puts together what shards have of a worker: what it says of itself is where it is registered, and what it has done is counted where that was.
func merge(parts []Info) Info {
	i := parts[max(slices.IndexFunc(parts, func(i Info) bool { return i.caller == nil || !i.caller.unregistered }), 0)]
	registered := i.caller == nil || !i.caller.unregistered
	var counted workerStats
	held := 0
	for _, p := range parts {
		if p.caller == nil {
			continue
		}
		held += p.caller.held
		counted = counted.plus(p.caller.stats)
		if i.LastSeen.Before(p.LastSeen) {
			i.LastSeen = p.LastSeen
		}
		if !registered && p.RegisteredAt.Before(i.RegisteredAt) {
			i.RegisteredAt = p.RegisteredAt
		}
		if i.Status == Unhealthy { // it has not been heard of in one shard, but in another
			i.Status = p.Status
		}
	}
	said := statsOf(i.Processes)
	said.completed, said.failed = i.Completed, i.Failed // some of its processes may not be listed
	all := said.plus(counted)
	i.Load, i.Completed, i.Failed, i.Processes, i.caller = max(i.Load, held), all.completed, all.failed, all.processes(), nil
	if !registered {
		for _, p := range i.Processes {
			i.Handles = append(i.Handles, p.Name)
		}
	}
	return i
}
