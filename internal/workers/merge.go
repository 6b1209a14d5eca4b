package workers

import (
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// poller is the part of a shard's answer about a polling worker that merge adds up over all shards.
type poller struct {
	unregistered bool
	held         int         // runs of the shard that the worker holds
	stats        workerStats // runs of the shard that ended
}

func (i *Info) codePoller(c *codec.Coder) {
	there := i.poller != nil
	if c.Bool(&there); !there {
		return
	}
	if c.Reading() {
		i.poller = new(poller)
	}
	c.Bool(&i.poller.unregistered)
	c.Int(&i.poller.held)
	i.poller.stats.code(c)
}

// merge combines the answers of all shards about a worker. The description comes from the shard
// where the worker is registered. Each shard adds the runs that it counted.
func merge(answers []Info) Info {
	i := answers[max(slices.IndexFunc(answers, func(i Info) bool { return i.poller == nil || !i.poller.unregistered }), 0)]
	registered := i.poller == nil || !i.poller.unregistered
	var counted workerStats
	held := 0
	for _, p := range answers {
		if p.poller == nil {
			continue
		}
		held += p.poller.held
		counted = counted.plus(p.poller.stats)
		if i.LastSeen.Before(p.LastSeen) {
			i.LastSeen = p.LastSeen
		}
		if !registered && p.RegisteredAt.Before(i.RegisteredAt) {
			i.RegisteredAt = p.RegisteredAt
		}
		if i.Status == Unhealthy { // another shard may have received a heartbeat
			i.Status = p.Status
		}
	}
	reported := statsOf(i.Processes)
	reported.completed, reported.failed = i.Completed, i.Failed // the list may leave out processes
	all := reported.plus(counted)
	i.Load, i.Completed, i.Failed, i.Processes, i.poller = max(i.Load, held), all.completed, all.failed, all.processes(), nil
	if !registered {
		for _, p := range i.Processes {
			i.Handles = append(i.Handles, p.Name)
		}
	}
	return i
}
