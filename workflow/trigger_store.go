package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// TriggerInfo is the trigger of a workflow, as its default version says, and how it stands.
type TriggerInfo struct {
	Stream    string
	Namespace string // of the stream
	Group     string // whose lag is that of the trigger; package stream shows it too
	Mode      TriggerMode
	Batch     int // records of a run at most
	Wait      time.Duration
	Start     TriggerStart
	Most      int // runs that are active at a time; 0: no limit

	// How it stands; listings do not say.

	State    TriggerState
	Reason   string // why it is not TriggerActive, or why it starts nothing now; for people
	Lag      int64  // records that have started no run yet
	Active   int64  // runs that it has started and that have not ended; counted if there is a limit
	Started  int64  // batches that have started a run
	Records  int64  // of all batches
	Repeated int64  // batches for which there was a run already: somebody has moved the group back
	Refused  int64  // batches whose records went to the dead letters, because no run could be started with them
	Note     string // why that was, the last time
}

// TriggerMode is how the consumers of a group that is made for a trigger share a stream.
type TriggerMode string

// The modes of groups of triggers.
const (
	TriggerShared    TriggerMode = "shared"
	TriggerExclusive TriggerMode = "exclusive"
	TriggerKeyShared TriggerMode = "key_shared"
)

// TriggerStart is where a group that is made for a trigger begins.
type TriggerStart string

// The starts of groups of triggers.
const (
	TriggerLatest   TriggerStart = "latest"
	TriggerEarliest TriggerStart = "earliest"
)

// TriggerState says what a trigger does.
type TriggerState uint8

// The states of triggers.
const (
	TriggerStarting TriggerState = iota + 1 // some shards of the stream do not know of it yet
	TriggerWaiting                          // there is no such stream: it begins with the first record of one that is made
	TriggerActive
	TriggerPaused // the workflow is disabled
)

var triggerStates = [...]string{TriggerStarting: "starting", TriggerWaiting: "waiting", TriggerActive: "active", TriggerPaused: "paused"}

// String returns the name of the state: starting, waiting, active or paused.
func (s TriggerState) String() string {
	if s < TriggerStarting || s > TriggerPaused {
		return "unknown"
	}
	return triggerStates[s]
}

func (t *TriggerInfo) code(c *codec.Coder) {
	for _, s := range [...]*string{&t.Stream, &t.Namespace, &t.Group, (*string)(&t.Mode), (*string)(&t.Start)} {
		c.String(s)
	}
	c.Int(&t.Batch)
	c.Varint((*int64)(&t.Wait))
	c.Int(&t.Most)
}

// triggerInfo is what a definition says of the trigger.
func triggerInfo(t *flow.Trigger, namespace string) *TriggerInfo {
	if t == nil {
		return nil
	}
	i := &TriggerInfo{
		Stream: t.Stream, Namespace: t.Namespace, Group: t.Group, Mode: TriggerMode(t.Mode), Batch: int(t.Batch),
		Wait: time.Duration(t.Wait) * time.Millisecond, Start: TriggerStart(t.Start),
		Most: int(t.Most),
	}
	if i.Namespace == "" {
		i.Namespace = namespace
	}
	return i
}

// standing asks the shards of the stream how the trigger of a workflow stands.
func (s *Store) standing(ctx context.Context, workflow string, t *TriggerInfo, revision uint64) error {
	of := s.scope.Other(t.Namespace)
	subscriber := protocol.Subscriber{Machine: engine.MachineWorkflow, Namespace: s.Namespace(), Name: workflow}
	q := protocol.SubscriptionQuery{Namespace: t.Namespace, Stream: t.Stream, Key: subscriber.Key()}
	spread, err := of.Spread(ctx)
	if err != nil {
		return err
	}
	parts := []*protocol.SubscriptionQuery{&q}
	if !spread || engine.Tagged(t.Stream) {
		err = of.Query(ctx, t.Stream, &q)
	} else {
		var shards []engine.ShardID
		parts, shards, err = engine.AskAll(ctx, &of, q)
		home := of.SpreadShard(t.Stream)
		for i := range parts {
			if shards[i] == home {
				q = *parts[i]
			}
		}
	}
	if err != nil {
		return err
	}
	for _, p := range parts {
		t.Lag += p.Info.Lag
		t.Started += p.Info.Taken
		t.Records += p.Info.Records
		t.Repeated += p.Info.Repeated
		t.Refused += p.Info.Refused
		if p.Info.Note != "" {
			t.Note = p.Info.Note
		}
	}
	t.Active = q.Info.Active
	// Each shard of the stream is told of the trigger first, and of the group after that. Only then
	// does the group start there, at the end of the shard's records.
	unheard := func(p *protocol.SubscriptionQuery) bool {
		i := &p.Info
		return !i.Found || i.Revision < revision || q.Info.Grouped && i.Exists && !i.Grouped
	}
	switch home := &q.Info; {
	case slices.ContainsFunc(parts, unheard):
		t.State, t.Reason = TriggerStarting, fmt.Sprintf("a shard of stream %q does not know of the trigger yet", t.Stream)
	case home.Paused:
		t.State, t.Reason = TriggerPaused, "the workflow is disabled"
	case !home.Exists:
		t.State, t.Reason = TriggerWaiting, fmt.Sprintf("there is no stream %q in namespace %q", t.Stream, t.Namespace)
	case !home.Grouped:
		t.State, t.Reason = TriggerWaiting, fmt.Sprintf("stream %q has no consumer group %q", t.Stream, t.Group)
		if home.Note != "" {
			t.Reason += ": " + home.Note
		}
	default:
		t.State = TriggerActive
		if t.Most > 0 && t.Active >= int64(t.Most) {
			t.Reason = fmt.Sprintf("%d of its runs are active, the limit", t.Active)
		}
	}
	return nil
}
