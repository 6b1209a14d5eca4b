package queue

import (
	"cmp"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands; the numbers are part of the log's format.
const (
	kindEnqueue uint8 = iota + 1
	kindDequeue
	kindAck
	kindNack
	kindExtend
	kindCheck
	kindConfigure
	kindPause
	kindPurge
	kindDelete
	kindRequeue
	kindRedrive
	kindDiscard
	kindRenew
	kindRelease
	kindRemove
)

// The commands of a queue. A full disk refuses deliveries, extensions, releases and nacks, because
// they rewrite rows, even if that takes little space.
var (
	enqueue = &engine.CommandRow[*session, enqueueBody, enqueued]{
		Kind: kindEnqueue, Name: "enqueue", From: engine.FromUsers | engine.FromShards | engine.FromMachines,
		Body: (*enqueueBody).code, Reset: (*enqueueBody).reset, Limit: (*enqueueBody).limit, Payload: (*enqueueBody).payload,
		Size: (*enqueueBody).size, Makes: (*enqueueBody).makes,
		Encoded: (*session).enqueue, Result: (*enqueued).code,
	}
	dequeue = &engine.CommandRow[*session, dequeueBody, deliveries]{
		Kind: kindDequeue, Name: "dequeue", From: engine.FromUsers,
		Body: (*dequeueBody).code, Encoded: (*session).dequeue, Result: (*deliveries).code,
	}
	ack = &engine.CommandRow[*session, receiptsBody, engine.Nothing]{
		Kind: kindAck, Name: "ack", From: engine.FromUsers, Shrinks: true,
		Body: (*receiptsBody).code, Check: (*receiptsBody).checkDistinct, Reset: (*receiptsBody).reset, Size: (*receiptsBody).size,
		Run: func(s *session, b *receiptsBody) error { return s.ack(b.receipts) },
	}
	nack = &engine.CommandRow[*session, nackBody, engine.Nothing]{
		Kind: kindNack, Name: "nack", From: engine.FromUsers,
		Body: (*nackBody).code, Check: (*nackBody).check, Makes: (*nackBody).makes, Run: (*session).nack,
	}
	extend = &engine.CommandRow[*session, extendBody, time.Time]{
		Kind: kindExtend, Name: "extend", From: engine.FromUsers,
		Body: (*extendBody).code, Apply: (*session).extend, Result: codeUntil,
	}
	check = &engine.CommandRow[*session, receipt, engine.Nothing]{
		Kind: kindCheck, Name: "check", From: engine.FromUsers, Shrinks: true,
		Body: (*receipt).code,
		Run: func(s *session, r *receipt) error {
			_, err := s.leaseOf(*r)
			return err
		},
	}
	configure = &engine.CommandRow[*session, settings, engine.Nothing]{
		Kind: kindConfigure, Name: "configure", From: engine.FromUsers,
		Body: (*settings).fields, Check: (*settings).check, Run: (*session).configure,
	}
	pause = &engine.CommandRow[*session, pauseBody, engine.Nothing]{
		Kind: kindPause, Name: "pause", From: engine.FromUsers,
		Body: (*pauseBody).code, Makes: (*pauseBody).makes, Run: (*session).pause,
	}
	purge = &engine.CommandRow[*session, engine.Nothing, int64]{
		Kind: kindPurge, Name: "purge", From: engine.FromUsers, Shrinks: true,
		Apply: func(s *session, _ *engine.Nothing) (int64, error) { return s.purge(), nil }, Result: codeCount("purged"),
	}
	remove = &engine.CommandRow[*session, engine.Nothing, engine.Nothing]{
		Kind: kindDelete, Name: "delete", From: engine.FromUsers, Shrinks: true, Run: (*session).delete,
	}
	requeue = &engine.CommandRow[*session, seqBody, engine.Nothing]{
		Kind: kindRequeue, Name: "requeue", From: engine.FromUsers,
		Body: (*seqBody).code, Makes: func(*seqBody) int { return 1 },
		Run: func(s *session, b *seqBody) error { return s.requeue(b.seq) },
	}
	redrive = &engine.CommandRow[*session, redriveBody, redriven]{
		Kind: kindRedrive, Name: "redrive", From: engine.FromUsers,
		Body: (*redriveBody).code, Makes: func(*redriveBody) int { return MaxBatch }, Apply: (*session).redrive, Result: (*redriven).code,
	}
	discard = &engine.CommandRow[*session, seqBody, engine.Nothing]{
		Kind: kindDiscard, Name: "discard", From: engine.FromUsers, Shrinks: true,
		Body: (*seqBody).code, Run: func(s *session, b *seqBody) error { return s.discard(b.seq) },
	}
	renew = &engine.CommandRow[*session, renewBody, renewed]{
		Kind: kindRenew, Name: "renew", From: engine.FromUsers,
		Body: (*renewBody).code, Size: (*renewBody).size, Apply: (*session).renewAll, Result: (*renewed).code,
	}
	release = &engine.CommandRow[*session, receiptsBody, int64]{
		Kind: kindRelease, Name: "release", From: engine.FromUsers,
		Body: (*receiptsBody).code, Reset: (*receiptsBody).reset, Size: (*receiptsBody).size, Makes: (*receiptsBody).makes,
		Apply: func(s *session, b *receiptsBody) (int64, error) { return s.releaseAll(b.receipts), nil }, Result: codeCount("released"),
	}
	removeMessage = &engine.CommandRow[*session, seqBody, engine.Nothing]{
		Kind: kindRemove, Name: "remove", From: engine.FromUsers, Shrinks: true,
		Body: (*seqBody).code, Run: func(s *session, b *seqBody) error { return s.remove(b.seq) },
	}
)

var commands = engine.Declare(engine.MachineQueue, "queue", checkName,
	enqueue, dequeue, ack, nack, extend, check, configure, pause, purge, remove, requeue, redrive, discard, renew, release, removeMessage)

// enqueueBody is a batch of messages.
type enqueueBody struct{ messages []newMessage }

func (b *enqueueBody) code(f *codec.Fields) {
	codec.RestOf(f, "messages", &b.messages, (*newMessage).code, codec.Range{Min: 1, Max: MaxBatch})
}

func (b *enqueueBody) reset() {
	clear(b.messages) // so that the pool does not retain payloads
	b.messages = b.messages[:0]
}

// messageOverhead is the approximate size of a message without its payload and headers.
const messageOverhead = 16

func (b *enqueueBody) limit() error {
	size := 0
	for i := range b.messages {
		size += int(b.messages[i].bytes()) + messageOverhead
	}
	if size > MaxBatchBytes && len(b.messages) > 1 {
		return engine.Errorf(ErrInvalid, "queue: batch exceeds %d bytes, including %d bytes of overhead per message", MaxBatchBytes,
			messageOverhead)
	}
	return nil
}

func (b *enqueueBody) payload() (largest int) {
	for i := range b.messages {
		largest = max(largest, len(b.messages[i].payload))
	}
	return largest
}

func (b *enqueueBody) size() (n int) {
	for i := range b.messages {
		m := &b.messages[i]
		n += len(m.payload) + len(m.headers) + len(m.dedup) + 28
	}
	return n
}

func (b *enqueueBody) makes() (n int) {
	for i := range b.messages {
		if b.messages[i].delay == 0 {
			n++
		}
	}
	return n
}

func (m *newMessage) code(f *codec.Fields) {
	if f.Parsing() {
		m.priority = DefaultPriority
	}
	f.Byte("priority", &m.priority)
	f.Millis("delay_ms", &m.delay, codec.Range{Max: maxDurationMillis})
	f.Count("max_attempts", &m.maxAttempts, codec.Range{Min: 1, Max: MaxAttemptsLimit, Optional: true})
	f.Bytes("dedup_key", &m.dedup, codec.Range{Min: 1, Max: MaxDedupKeyBytes, Optional: true})
	engine.CodeHeaders(f, &m.headers)
	f.Bytes("payload", &m.payload)
}

// bytes returns the size of payload and headers, as limits count it.
func (m *newMessage) bytes() int64 { return int64(len(m.headers) + len(m.payload)) }

// add adds a message with its options.
func (b *enqueueBody) add(payload []byte, opts []EnqueueOption) error {
	b.messages = append(b.messages, newMessage{priority: DefaultPriority, payload: payload})
	m := &b.messages[len(b.messages)-1]
	opts, m.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyEnqueue(m)
	}
	return m.err
}

// enqueueOne returns an enqueue whose result is a single Enqueued.
func enqueueOne(name string, payload []byte, opts []EnqueueOption) engine.Op {
	op := enqueue.Make(name, func(b *enqueueBody) error { return b.add(payload, opts) })
	op.Decode = func(result []byte) (any, error) { return decodeEnqueued(result) }
	return op
}

func enqueueMany(name string, messages []NewMessage) engine.Op {
	op := enqueue.Make(name, func(b *enqueueBody) error {
		if len(messages) > MaxBatch { // the check reports it
			b.messages = make([]newMessage, len(messages))
			return nil
		}
		for _, m := range messages {
			if err := b.add(m.Payload, m.Options); err != nil {
				return err
			}
		}
		return nil
	})
	op.Decode = func(result []byte) (any, error) { return decodeEnqueuedMany(result) }
	return op
}

// dequeueBody requests messages.
type dequeueBody struct {
	max   int64
	lease int64 // ms
}

func (b *dequeueBody) code(f *codec.Fields) {
	if f.Parsing() {
		*b = dequeueBody{max: 1, lease: DefaultLease.Milliseconds()}
	}
	f.Count("max", &b.max, codec.Range{Min: 1, Max: MaxBatch})
	codeLease(f, &b.lease)
}

func codeLease(f *codec.Fields, ms *int64) {
	f.Millis("lease_ms", ms, codec.Range{Min: 1, Max: maxDurationMillis})
}

func (r *receipt) code(f *codec.Fields) { r.codeAs(f, "receipt") }

// codeAs codes a receipt under the given name. In JSON it is a string.
func (r *receipt) codeAs(f *codec.Fields, name string) {
	if c := f.Binary(); c != nil {
		c.Uvarint(&r.seq)
		c.Uvarint(&r.lsn)
		return
	}
	if !f.Checking() {
		codec.OnCopy(f, r, func(r *receipt) {
			f.Token(name, func() string { return string(r.public()) }, func(text string) (err error) {
				*r, err = Receipt(text).parse()
				return err
			})
		})
	}
}

// codeUnnamed codes a receipt of a list.
func (r *receipt) codeUnnamed(f *codec.Fields) { r.codeAs(f, "") }

// receiptsBody lists deliveries.
type receiptsBody struct{ receipts []receipt }

func (b *receiptsBody) code(f *codec.Fields) {
	codec.RestOf(f, "receipts", &b.receipts, (*receipt).codeUnnamed, codec.Range{Min: 1, Max: MaxBatch})
}

func (b *receiptsBody) reset() { b.receipts = b.receipts[:0] }

func (b *receiptsBody) size() int  { return 16 * len(b.receipts) }
func (b *receiptsBody) makes() int { return len(b.receipts) }

// checkDistinct returns an error for a duplicate receipt.
func (b *receiptsBody) checkDistinct() error { return checkDistinct(b.receipts) }

func checkDistinct(receipts []receipt) error {
	if len(receipts) < 2 {
		return nil
	}
	seen := make(map[receipt]bool, len(receipts))
	for _, r := range receipts {
		if seen[r] {
			return engine.Errorf(ErrInvalid, "queue: duplicate receipt %s", r.public())
		}
		seen[r] = true
	}
	return nil
}

// parse parses receipts. The check reports a list that is too long.
func (b *receiptsBody) parse(receipts []Receipt) (err error) {
	for _, r := range receipts {
		parsed, parseErr := r.parse()
		if b.receipts = append(b.receipts, parsed); parseErr != nil && len(receipts) <= MaxBatch {
			err = parseErr
		}
	}
	return err
}

// renewBody extends several leases.
type renewBody struct {
	lease int64 // ms
	receiptsBody
}

func (b *renewBody) code(f *codec.Fields) {
	codeLease(f, &b.lease)
	b.receiptsBody.code(f)
}

func renewOp(name string, lease time.Duration, receipts []Receipt) engine.Op {
	return renew.Make(name, func(b *renewBody) (err error) {
		if b.lease, err = leaseMillis(lease); err != nil {
			return err
		}
		return b.parse(receipts)
	})
}

// renewed is the result of a renewal: the leases still held, and their new end.
type renewed struct {
	until time.Time
	held  []bool
}

func (r *renewed) code(f *codec.Fields) {
	codeUntil(&r.until, f)
	codec.RestOf(f, "held", &r.held, codec.Flag(""))
}

func codeUntil(t *time.Time, f *codec.Fields) { f.Moment("leased_until_ms", t) }

// Flags of a nack.
const (
	nackDelayed = 1 << iota // delay is given
	nackBury
	nackFurther // further receipts follow
)

// nackBody reports failed deliveries.
type nackBody struct {
	receipt receipt // the first one
	further []receipt
	flags   byte
	delay   int64 // ms
	reason  []byte
}

func (b *nackBody) code(f *codec.Fields) {
	b.receipt.code(f)
	within := codec.Range{Max: maxDurationMillis}
	if c := f.Binary(); c != nil {
		c.Byte(&b.flags)
		f.Millis("delay_ms", &b.delay, within)
		if b.has(nackFurther) {
			codec.ListOf(f, "further", &b.further, (*receipt).codeUnnamed, codec.Range{Min: 1, Max: MaxBatch - 1})
		}
	} else {
		if f.Given("further", b.has(nackFurther)) {
			b.flags |= nackFurther
			codec.ListOf(f, "further", &b.further, (*receipt).codeUnnamed, codec.Range{Min: 1, Max: MaxBatch - 1})
		}
		if f.Given("delay_ms", b.has(nackDelayed)) {
			b.flags |= nackDelayed
			f.Millis("delay_ms", &b.delay, within)
		}
		bury := b.has(nackBury)
		if f.Bool("to_dlq", &bury); bury {
			b.flags |= nackBury
		}
	}
	f.Rest("reason", &b.reason, codec.Range{Max: MaxReasonBytes})
}

func (b *nackBody) has(flag byte) bool { return b.flags&flag != 0 }

func (b *nackBody) check() error {
	switch {
	case b.has(nackBury) && b.has(nackDelayed):
		return engine.Errorf(ErrInvalid, "queue: delay and dead letter are mutually exclusive")
	case b.flags >= nackFurther<<1 || !b.has(nackDelayed) && b.delay != 0:
		return engine.Errorf(ErrInvalid, "queue: invalid nack: flags %#x, delay %d ms", b.flags, b.delay)
	case b.has(nackFurther):
		return checkDistinct(b.receipts())
	}
	return nil
}

// receipts returns all receipts of the body.
func (b *nackBody) receipts() []receipt { return append([]receipt{b.receipt}, b.further...) }

// makes returns the maximum number of messages that the nack makes ready at once. It ignores the
// queue's back-off, which it cannot see.
func (b *nackBody) makes() int {
	if b.has(nackBury) || b.delay != 0 {
		return 0
	}
	return 1 + len(b.further)
}

func nackOp(name string, receipts []Receipt, opts []NackOption) engine.Op {
	o := newNackOptions(opts)
	var list receiptsBody
	err := list.parse(receipts)
	switch n := len(receipts); {
	case n == 0 || n > MaxBatch:
		err = engine.Errorf(ErrInvalid, "queue: %d receipts are not in 1-%d", n, MaxBatch)
	default:
		if o.body.receipt = list.receipts[0]; n > 1 {
			o.body.further, o.body.flags = list.receipts[1:], o.body.flags|nackFurther
		}
		err = cmp.Or(err, o.err)
	}
	return nack.Op(name, o.body, err)
}

// extendBody extends a lease.
type extendBody struct {
	receipt receipt
	lease   int64 // ms
}

func (b *extendBody) code(f *codec.Fields) {
	b.receipt.code(f)
	codeLease(f, &b.lease)
}

func extendOp(name string, r Receipt, lease time.Duration) engine.Op {
	parsed, err := r.parse()
	ms, leaseErr := leaseMillis(lease)
	if err == nil {
		err = leaseErr
	}
	return extend.Op(name, extendBody{parsed, ms}, err)
}

func configureOp(name string, s Settings) engine.Op {
	kept, err := s.millis()
	return configure.Op(name, kept, err)
}

// fields codes settings: in binary as in a queue's row, in JSON as in Settings.
func (s *settings) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		s.code(c)
		return
	}
	if f.Checking() {
		return // see check
	}
	var public Settings
	if !f.Parsing() {
		public = s.public()
	}
	public.code(f)
	if f.Parsing() {
		kept, err := public.millis()
		*s = kept
		f.Refuse(err)
	}
}

func (s *Settings) code(f *codec.Fields) {
	f.Varint("max_len", &s.MaxLen)
	f.Varint("max_bytes", &s.MaxBytes)
	f.Int("max_attempts", &s.MaxAttempts)
	f.Duration("backoff_min_ms", &s.BackoffMin)
	f.Duration("backoff_max_ms", &s.BackoffMax)
	f.Duration("dead_retention_ms", &s.DeadRetention)
	f.Duration("dedup_window_ms", &s.DedupWindow)
}

// pauseBody pauses or resumes deliveries.
type pauseBody struct{ paused bool }

func (b *pauseBody) code(f *codec.Fields) { f.Bool("paused", &b.paused) }

func (b *pauseBody) makes() int {
	if b.paused {
		return 0
	}
	return MaxBatch
}

// seqBody identifies a message.
type seqBody struct{ seq uint64 }

func (b *seqBody) code(f *codec.Fields) { f.Uvarint("seq", &b.seq) }

// redriveBody requeues the dead letters that contain filter, after one seq and up to another (0:
// the last).
type redriveBody struct {
	after, until uint64
	filter       []byte
}

func (b *redriveBody) code(f *codec.Fields) {
	f.Uvarint("after", &b.after)
	f.Uvarint("until", &b.until)
	f.Rest("filter", &b.filter, codec.Range{Max: MaxFilterBytes})
}

// redriven is the result of a redrive.
type redriven struct {
	requeued    int64
	seen, until uint64 // the last seq examined, and the last one to examine
	more        bool
}

func (r *redriven) code(f *codec.Fields) {
	f.Count("requeued", &r.requeued)
	f.Uvarint("seen", &r.seen)
	f.Uvarint("until", &r.until)
	f.Bool("more", &r.more)
}

func codeCount(name string) func(*int64, *codec.Fields) {
	return func(n *int64, f *codec.Fields) { f.Count(name, n) }
}
