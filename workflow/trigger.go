package workflow

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/rawjson"
)

// A workflow's trigger is that of its default version: a subscription of the workflow's home to a
// stream, see package push. In the shard of the records, one command takes a batch from the group
// and starts a run. If the workflow lives in another namespace, the command sends the start to it.
// If that namespace is spread, the start goes to the shard of the batch's key, like any start with
// an idempotency key.

// triggerRow is the value of a row 'e': the subscription of the workflow's home.
type triggerRow struct {
	namespace string
	stream    string
	revision  uint64
}

func (r *triggerRow) code(c *codec.Coder) {
	version(c, "trigger")
	c.String(&r.namespace)
	c.String(&r.stream)
	c.Uvarint(&r.revision)
}

// subscribed returns the subscription of the workflow.
func (k *openWorkflow) subscribed() (r triggerRow, ok bool) {
	b, ok := k.tx.Get(numberKey(nil, rowTrigger, k.id))
	if !ok {
		return r, false
	}
	return must(decode(b, (*triggerRow).code)), true
}

// retrigger sets the trigger of the default version, at the workflow's home. If the group does not
// change, it keeps its position.
func (k *openWorkflow) retrigger(t *flow.Trigger) {
	old, had := k.subscribed()
	now := triggerRow{revision: uint64(k.tx.LSN())}
	if t != nil {
		now.namespace, now.stream = t.Namespace, t.Stream
		if now.namespace == "" {
			now.namespace = k.tx.NamespaceName()
		}
	}
	if had && (old.namespace != now.namespace || old.stream != now.stream) {
		k.unsubscribe(&old)
	}
	if t == nil {
		return
	}
	k.tx.Set(numberKey(nil, rowTrigger, k.id), encode(nil, &now, (*triggerRow).code))
	k.subscribe(now.namespace, &protocol.Subscription{
		Revision: now.revision, Stream: t.Stream, Group: t.Group, Mode: groupModes[t.Mode], Latest: t.Start == "latest", Batch: t.Batch,
		Wait: t.Wait, Most: t.Most,
		Paused: !k.enabled,
	})
}

var groupModes = map[string]uint8{"shared": protocol.ModeShared, "exclusive": protocol.ModeExclusive, "key_shared": protocol.ModeKeyShared}

// untrigger ends the subscription of the workflow, if it has one.
func (k *openWorkflow) untrigger() {
	if old, had := k.subscribed(); had {
		k.unsubscribe(&old)
	}
}

func (k *openWorkflow) unsubscribe(from *triggerRow) {
	k.subscribe(from.namespace, &protocol.Subscription{Revision: uint64(k.tx.LSN()), Stream: from.stream, Gone: true})
	k.tx.Delete(numberKey(nil, rowTrigger, k.id))
}

// subscribe sends the subscription to the home of a stream.
func (k *openWorkflow) subscribe(namespace string, s *protocol.Subscription) {
	tx := k.tx
	s.Subscriber = k.subscriber()
	cmd := engine.Command{Machine: engine.MachineStream, Kind: protocol.KindSubscribe, Namespace: namespace, Spread: tx.Spread(),
		Body: encode(nil, s, (*protocol.Subscription).Code)}
	switch {
	case namespace != tx.NamespaceName():
		cmd.Kind, cmd.Spread = protocol.KindRelaySubscription, false
	case tx.Here(s.Stream):
		tx.Then(cmd)
		return
	}
	tx.Send(engine.Message{Command: cmd, Name: s.Stream, Lane: xxhash.Sum64String(k.name)})
}

func (k *openWorkflow) subscriber() protocol.Subscriber {
	return protocol.Subscriber{Machine: engine.MachineWorkflow, Command: kindTrigger, Namespace: k.tx.NamespaceName(),
		Spread: k.tx.Spread(), Name: k.name}
}

// trigger starts a run for a batch of records, even if the workflow has been disabled since they
// were taken. It returns an error if no run can be started, and the records then go to the
// dead-letter queue.
//
// The batch's key is the idempotency key of its run, so a repeated batch finds its run.
//
// When the group is moved back, new batches may end at different records. A batch that begins where
// an earlier one did omits the records of the earlier batch. A batch that begins in the middle of
// an earlier one starts another run for its records.
func (w *work) trigger(b *protocol.Batch) ([]byte, error) {
	left := *b
	for len(left.Records) > 0 {
		had := w.hadBefore(&left)
		if n := len(b.Records) - len(left.Records); had == 0 && n > 0 && w.routed(&left) {
			return encode(nil, &protocol.BatchResult{Had: n}, (*protocol.BatchResult).Code), nil
		}
		if had == 0 {
			return w.triggerRun(&left)
		}
		left.Records = left.Records[min(had, len(left.Records)):]
	}
	return encode(nil, &protocol.BatchResult{Repeated: true}, (*protocol.BatchResult).Code), nil
}

// routed reports whether another shard must decide if a batch already has a run. That is so if the
// namespace is spread and the records are in another namespace.
func (w *work) routed(b *protocol.Batch) bool {
	return w.tx.Spread() && b.Namespace != w.tx.NamespaceName() && !w.tx.Here(b.Route())
}

// hadBefore returns how many of a batch's first records were in the earlier run of its first
// record, 0 if there is no such run.
func (w *work) hadBefore(b *protocol.Batch) int {
	k := w.workflow(b.Name)
	if k == nil {
		return 0
	}
	row, ok := w.tx.Get(append(numberKey(nil, rowKey, k.id), b.Key()...))
	if !ok {
		return 0
	}
	input, _ := w.tx.Get(partKey(nil, must(decode(row, (*keyRow).code)).run, partInput))
	had := 0
	rawjson.Elements(input, func(e []byte) bool {
		id, _ := rawjson.Text(rawjson.Member(e, "id"))
		if had == len(b.Records) || id != b.Records[had].ID() {
			return false
		}
		had++
		return true
	})
	return max(had, 1)
}

// triggerRun starts a run for a batch.
func (w *work) triggerRun(b *protocol.Batch) ([]byte, error) {
	c := startBody{source: "trigger:" + b.Stream, key: []byte(b.Key()), taken: true}
	if k := w.workflow(b.Name); k != nil {
		c.input = batchInput(b, w.definition(k.id, k.current).Trigger)
	}
	if b.End != nil {
		c.notify = protocol.Notify{Machine: engine.MachineStream, Command: protocol.KindBatchEnd, Token: b.End}
	}
	res, err := w.startRun(b.Name, &c)
	if err != nil {
		return nil, err
	}
	return encode(nil, &protocol.BatchResult{Repeated: res.duplicate}, (*protocol.BatchResult).Code), nil
}

// batchInput returns the input of the run that a batch starts: an array of
//
//	{"stream": "orders", "partition": 0, "id": "1700000000000-0", "timestamp": 1700000000000, "key": "customer-7", "headers": {"h": "v"}, "payload": {...}}
//
// A JSON payload is included unchanged, text as a string, and any other payload as a base64 string,
// followed by "encoding": "base64". With a batch size of 1 the input is only the payload, in the
// same form.
func batchInput(b *protocol.Batch, t *flow.Trigger) []byte {
	if t != nil && t.Batch == 1 && len(b.Records) == 1 {
		in, _ := appendPayload(nil, b.Records[0].Payload)
		return in
	}
	in := []byte{'['}
	for i := range b.Records {
		r := &b.Records[i]
		if i > 0 {
			in = append(in, ',')
		}
		in = rawjson.AppendText(append(in, `{"stream":`...), b.Stream)
		in = strconv.AppendInt(append(in, `,"partition":`...), int64(b.Partition), 10)
		in = rawjson.AppendText(append(in, `,"id":`...), r.ID())
		in = strconv.AppendInt(append(in, `,"timestamp":`...), r.Millis, 10)
		in = rawjson.AppendText(append(in, `,"key":`...), r.Key)
		in = append(in, `,"headers":{`...)
		for j, h := range r.Headers {
			if j > 0 {
				in = append(in, ',')
			}
			in = rawjson.AppendText(append(rawjson.AppendText(in, h.Name), ':'), h.Value)
		}
		var encoded bool
		if in, encoded = appendPayload(append(in, `},"payload":`...), r.Payload); encoded {
			in = append(in, `,"encoding":"base64"`...)
		}
		in = append(in, '}')
	}
	return append(in, ']')
}

// appendPayload appends a payload as JSON, and reports whether it is in base64. Text that would be
// longer than its base64 form is encoded in base64.
func appendPayload(in, payload []byte) (out []byte, encoded bool) {
	if rawjson.Valid(payload) {
		return append(in, payload...), false
	}
	before := len(in)
	if utf8.Valid(payload) {
		in = rawjson.AppendText(in, string(payload))
		if len(in)-before <= 64+base64.StdEncoding.EncodedLen(len(payload)) {
			return in, false
		}
	}
	in = base64.StdEncoding.AppendEncode(append(in[:before], '"'), payload)
	return append(in, '"'), true
}
