package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/workflow"
)

// signals is the stream whose records start runs, in both namespaces.
const signals = "signals"

// triggers are the workflows that records start, in the same namespace and from another one.
var triggers = []struct{ name, flows, streams string }{
	{"near", Plain, Plain},
	{"wide", Spread, Spread},
	{"far", Plain, Spread},
}

// mostTriggered is the concurrency limit of a trigger.
const mostTriggered = 4

// triggered returns a version of a workflow that records start, two or three at a time.
func triggered(name, streams string, version int) []byte {
	return workflow.Definition{
		Name: name, Version: fmt.Sprint(version), Retention: keepsRuns,
		Trigger: &workflow.Trigger{
			Stream: signals, Namespace: streams, Group: name, BatchSize: 2 + version%2, BatchTimeout: 20 * time.Millisecond,
			Start:         "earliest",
			MaxConcurrent: mostTriggered,
		},
		Start: workflow.Step{Do: workflow.Sleep{For: 5 * time.Millisecond}, Transitions: onSuccess("flo.Completed")},
	}.YAML()
}

// triggerJob appends records that start runs.
type triggerJob struct {
	mu    sync.Mutex // guards what follows
	acked map[string][]string
}

func newTriggerJob() Job { return &triggerJob{acked: make(map[string][]string)} }

// triggerClient appends records and changes the workflows that they start.
type triggerClient struct {
	World
	*triggerJob
	made    uint64
	version int
}

func (c *triggerClient) flows(namespace string) *workflow.Store {
	return engine.StoreOf[workflow.Store](c.Router(), namespace, MaxValue)
}

func (c *triggerClient) streams(namespace string) *stream.Store {
	return engine.StoreOf[stream.Store](c.Router(), namespace, MaxValue)
}

func (j *triggerJob) Open(w World) bool {
	c := &triggerClient{World: w, triggerJob: j}
	for _, t := range triggers {
		if !insist(w, func() error { return c.create(t.name, t.flows, t.streams) }) {
			return false
		}
	}
	for _, ns := range []string{Plain, Spread} {
		if !insist(w, func() error {
			err := c.streams(ns).Create(context.Background(), signals, stream.Partitions(3))
			if errors.Is(err, engine.ErrExists) {
				err = nil
			}
			return err
		}) {
			return false
		}
	}
	return true
}

// create creates a version of a workflow, whose number may exist already.
func (c *triggerClient) create(name, flows, streams string) error {
	_, err := c.flows(flows).Create(context.Background(), triggered(name, streams, c.version))
	if errors.Is(err, engine.ErrExists) {
		err = nil
	}
	return err
}

func (j *triggerJob) Do(w World) {
	c := &triggerClient{World: w, triggerJob: j}
	for w.Working() {
		w.Note(c.act())
	}
}

func (c *triggerClient) act() error {
	ctx, rng := context.Background(), c.Rand()
	t := triggers[rng.IntN(len(triggers))]
	switch n := rng.IntN(40); {
	case n < 1:
		c.version = 1 + rng.IntN(20)
		return c.create(t.name, t.flows, t.streams)
	case n < 2:
		if err := c.flows(t.flows).Disable(ctx, t.name); err != nil {
			return err
		}
		c.Sleep(30 * time.Millisecond)
		return c.flows(t.flows).Enable(ctx, t.name)
	case n < 4:
		_, err := c.flows(t.flows).Get(ctx, t.name)
		return err
	}
	return c.append([]string{Plain, Spread}[rng.IntN(2)])
}

// append appends a record, repeating the call until the outcome is known.
func (c *triggerClient) append(namespace string) error {
	c.made++
	tag := fmt.Sprintf("%s-%d-%d", namespace, c.Client(), c.made)
	msg := stream.Message{Key: tag, Payload: []byte(`"` + tag + `"`)}
	for {
		_, err := c.streams(namespace).Append(context.Background(), signals, msg, stream.Dedup(fmt.Sprintf("%d", c.Client()), c.made))
		switch {
		case err == nil:
			c.mu.Lock()
			c.acked[namespace] = append(c.acked[namespace], tag)
			c.mu.Unlock()
			return nil
		case errors.Is(err, engine.ErrUnknownOutcome) && !c.Async() && c.Sleep(10*time.Millisecond):
			continue
		}
		return err
	}
}

// Audit waits until all records have started runs and these have ended. Each record must be in the
// input of exactly one run.
func (j *triggerJob) Audit(w World) {
	c := &triggerClient{World: w, triggerJob: j}
	for _, t := range triggers {
		if !insist(w, func() error { return c.flows(t.flows).Enable(context.Background(), t.name) }) {
			return
		}
		for !c.idle(t.name, t.flows) {
			if !w.Sleep(20 * time.Millisecond) {
				return
			}
		}
		if !insist(w, func() error { return c.compare(t.name, t.flows, t.streams) }) {
			return
		}
	}
}

// idle reports whether a trigger has nothing to start and no active runs.
func (c *triggerClient) idle(name, namespace string) bool {
	info, err := c.flows(namespace).Get(context.Background(), name)
	if err != nil || info.Trigger == nil {
		c.Note(err)
		return false
	}
	if info.Trigger.Active > mostTriggered {
		c.Failf("triggers: %s: %d runs are active", name, info.Trigger.Active)
	}
	// A batch on its way to the shard of its run counts as active, and neither as lag nor as
	// started.
	return info.Trigger.State == workflow.TriggerActive && info.Trigger.Lag == 0 && info.Trigger.Active == 0 && info.Runs.Active == 0 &&
		info.Trigger.Started == info.Runs.Total
}

// compare compares the inputs of all runs of a workflow with the records of its stream.
func (c *triggerClient) compare(name, flows, streams string) error {
	ctx := context.Background()
	started := make(map[string]string) // runs by records
	for r, err := range c.flows(flows).Runs().All(ctx, workflow.Of(name), workflow.Limit(workflow.MaxPageItems)) {
		if err != nil {
			return err
		}
		run, err := c.flows(flows).Runs().Get(ctx, r.ID)
		if err != nil {
			return err
		}
		var records []struct {
			Partition   int
			ID, Payload string
		}
		if err := json.Unmarshal(run.Input, &records); err != nil || len(records) == 0 || len(records) > 3 {
			c.Failf("triggers: %s: run %s has the input %s: %v", name, r.ID, run.Input, err)
		}
		for _, rec := range records {
			at := fmt.Sprintf("%d/%s %s", rec.Partition, rec.ID, rec.Payload)
			if started[at] != "" {
				c.Failf("triggers: %s: record %s has started %s and %s", name, at, started[at], r.ID)
			}
			started[at] = string(r.ID)
		}
	}
	found := make(map[string]bool)
	var after []stream.ReadOption
	for {
		recs, err := c.streams(streams).Read(ctx, signals, append(after, stream.Limit(stream.MaxReadLimit))...)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			tag := strings.Trim(string(rec.Payload), `"`)
			found[tag] = true
			if at := fmt.Sprintf("%d/%s %s", rec.Partition, rec.ID, tag); started[at] == "" && !c.Lossy() {
				c.Failf("triggers: %s: record %s has started nothing", name, at)
			}
		}
		if len(recs) == 0 {
			break
		}
		after = []stream.ReadOption{stream.After(recs[len(recs)-1].ID)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost := slices.DeleteFunc(slices.Clone(c.acked[streams]), func(tag string) bool { return found[tag] }); len(lost) > 0 && !c.Lossy() {
		c.Failf("triggers: %s: records %v are lost", name, lost)
	}
	if len(started) != len(found) && !c.Lossy() {
		c.Failf("triggers: %s: %d records, and %d of them have started runs", name, len(found), len(started))
	}
	return nil
}
