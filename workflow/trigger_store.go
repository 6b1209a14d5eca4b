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

// TriggerInfo is the trigger of a workflow's default version, with its state.
type TriggerInfo struct {
	Stream    string
	Namespace string // of the stream
	Group     string // consumer group; its lag is the trigger's lag, and package stream lists it too
	Mode      TriggerMode
	Batch     int // maximum number of records of a run
	Wait      time.Duration
	Start     TriggerStart
	Most      int // maximum number of active runs; 0: no limit

	// State of the trigger; not set in listings.

	State    TriggerState
	Reason   string // why the trigger is not TriggerActive, or starts no runs now; for display
	Lag      int64  // records that have not started a run yet
	Active   int64  // active runs started by the trigger; counted only if there is a limit
	Started  int64  // batches that have started a run
	Records  int64  // of all batches
	Repeated int64  // batches that already had a run, because the group was moved back
	Refused  int64  // batches whose records went to the dead-letter queue, because they cannot start a run
	Note     string // reason of the last such batch
}

// TriggerMode is how the consumers of a trigger's new group share a stream.
type TriggerMode string

// The modes of triggers' groups.
const (
	TriggerShared    TriggerMode = "shared"
	TriggerExclusive TriggerMode = "exclusive"
	TriggerKeyShared TriggerMode = "key_shared"
)

// TriggerStart is the initial position of a trigger's new group.
type TriggerStart string

// The initial positions of triggers' groups.
const (
	TriggerLatest   TriggerStart = "latest"
	TriggerEarliest TriggerStart = "earliest"
)

// TriggerState is the state of a trigger.
type TriggerState uint8

// The states of triggers.
const (
	TriggerStarting TriggerState = iota + 1 // not all shards of the stream have received it yet
	TriggerWaiting                          // the stream does not exist: it begins with the first record once the stream is created
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

// triggerInfo returns the trigger of a definition.
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

// standing reads the state of a workflow's trigger from the shards of the stream.
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
	// Each shard of the stream receives the trigger first and the group later. Only then does the
	// group start there, at the end of the shard's records.
	unheard := func(p *protocol.SubscriptionQuery) bool {
		i := &p.Info
		return !i.Found || i.Revision < revision || q.Info.Grouped && i.Exists && !i.Grouped
	}
	switch home := &q.Info; {
	case slices.ContainsFunc(parts, unheard):
		t.State, t.Reason = TriggerStarting, fmt.Sprintf("a shard of stream %q has not received the trigger yet", t.Stream)
	case home.Paused:
		t.State, t.Reason = TriggerPaused, "the workflow is disabled"
	case !home.Exists:
		t.State, t.Reason = TriggerWaiting, fmt.Sprintf("stream %q not found in namespace %q", t.Stream, t.Namespace)
	case !home.Grouped:
		t.State, t.Reason = TriggerWaiting, fmt.Sprintf("stream %q has no consumer group %q", t.Stream, t.Group)
		if home.Note != "" {
			t.Reason += ": " + home.Note
		}
	default:
		t.State = TriggerActive
		if t.Most > 0 && t.Active >= int64(t.Most) {
			t.Reason = fmt.Sprintf("%d runs are active, which is the limit", t.Active)
		}
	}
	return nil
}
