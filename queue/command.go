package queue

import (
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

// Flags of a nack.
const (
	nackDelayed = 1 << iota
	nackBury
)

// Command bodies all begin with the name of the queue (uvarint length, bytes). Then follows:
//
//	enqueue:             for each message: priority u8 | delay ms uvarint | max attempts uvarint (0: the queue's) |
//	                     dedup key, headers (see engine.AppendHeaders), payload (each uvarint length, bytes)
//	dequeue:             max uvarint | lease ms uvarint
//	ack:                 for each receipt: seq | LSN (uvarints)
//	nack:                seq | LSN | flags u8 | delay ms uvarint | reason
//	extend:              seq | LSN | lease ms uvarint
//	check:               seq | LSN
//	configure:           the settings, as in the row of a queue
//	pause:               u8, 0 resumes
//	renew:               lease ms uvarint | for each receipt: seq | LSN
//	release:             for each receipt: seq | LSN
//	requeue, discard, remove: seq uvarint
//	redrive:             behind seq, up to seq (uvarints) | text
//	purge, delete:       nothing
//
// Results:
//
//	enqueue:  LSN uvarint | for each message: duplicate u8 | seq uvarint
//	dequeue:  LSN uvarint | leased until varint (ms) | for each message: see delivery
//	extend:   leased until varint (ms)
//	renew:    leased until varint (ms) | for each receipt, whether it is: u8
//	release:  messages released, uvarint
//	purge:    messages removed, uvarint
//	redrive:  messages requeued | last seq looked at | last seq of all (uvarints) | more u8
//	others:   nothing
func op(kind uint8, name string, err error, body []byte) engine.Op {
	if nameErr := checkName(name); nameErr != nil {
		err = nameErr
	}
	return engine.Op{Command: engine.Command{Machine: engine.MachineQueue, Kind: kind, Body: body}, Route: name, Err: err, Decode: anyNothing}
}

// bodyOf starts a body, with room for n bytes behind the name.
func bodyOf(name string, n int) []byte {
	return codec.AppendString(make([]byte, 0, len(name)+n+4), name)
}

func enqueueCommand(name string, payload []byte, opts []EnqueueOption) engine.Op {
	m := newMessageOf(payload, opts)
	o := op(kindEnqueue, name, m.err, m.append(bodyOf(name, m.size())))
	o.Payload = len(payload)
	o.Decode = anyOf(decodeEnqueued)
	return o
}

func enqueueManyCommand(name string, messages []NewMessage) engine.Op {
	if n := len(messages); n < 1 || n > MaxBatch {
		return op(kindEnqueue, name, engine.Errorf(ErrInvalid, "queue: %d messages are not 1-%d", n, MaxBatch), nil)
	}
	size, largest := 0, 0
	all := make([]newMessage, len(messages))
	for i := range messages {
		m := newMessageOf(messages[i].Payload, messages[i].Options)
		if m.err != nil {
			return op(kindEnqueue, name, m.err, nil)
		}
		all[i] = m
		size += int(m.bytes()) + messageOverhead
		largest = max(largest, len(m.payload))
	}
	if size > MaxBatchBytes && len(messages) > 1 {
		return op(kindEnqueue, name, tooLong(), nil)
	}
	body := bodyOf(name, size)
	for i := range all {
		body = all[i].append(body)
	}
	o := op(kindEnqueue, name, nil, body)
	o.Payload = largest
	o.Decode = anyOf(decodeEnqueuedMany)
	return o
}

func tooLong() error {
	return engine.Errorf(ErrInvalid, "queue: messages exceed %d bytes together, counting %d for each beside payload and headers", MaxBatchBytes, messageOverhead)
}

func newMessageOf(payload []byte, opts []EnqueueOption) newMessage {
	m := newMessage{priority: DefaultPriority, payload: payload}
	opts, m.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyEnqueue(&m)
	}
	return m
}

// messageOverhead is about what a message takes beside its payload and headers.
const messageOverhead = 16

func (m *newMessage) size() int { return len(m.payload) + len(m.headers) + len(m.dedup) + 28 }

// bytes returns what counts of the message: its payload and its headers.
func (m *newMessage) bytes() int64 { return int64(len(m.headers) + len(m.payload)) }

func (m *newMessage) append(dst []byte) []byte {
	dst = codec.AppendUvarint(append(dst, m.priority), uint64(m.delay))
	dst = codec.AppendUvarint(dst, uint64(m.maxAttempts))
	dst = codec.AppendBytes(dst, m.dedup)
	dst = codec.AppendBytes(dst, m.headers)
	return codec.AppendBytes(dst, m.payload)
}

func dequeueCommand(name string, o dequeueOptions) engine.Op {
	body := codec.AppendUvarint(bodyOf(name, 12), uint64(o.max))
	dequeue := op(kindDequeue, name, o.err, codec.AppendUvarint(body, uint64(o.lease)))
	dequeue.Decode = func(result []byte) (any, error) { return decodeDeliveries(name, result) }
	return dequeue
}

func ackCommand(name string, receipts []Receipt) engine.Op {
	return receiptsCommand(kindAck, name, bodyOf(name, 16*len(receipts)), receipts)
}

// receiptsCommand is a command about several receipts, which the body ends with.
func receiptsCommand(kind uint8, name string, body []byte, receipts []Receipt) engine.Op {
	var err error
	if n := len(receipts); n < 1 || n > MaxBatch {
		return op(kind, name, engine.Errorf(ErrInvalid, "queue: %d receipts are not 1-%d", n, MaxBatch), nil)
	}
	all := make([]receipt, len(receipts))
	for i, r := range receipts {
		parsed, parseErr := r.parse()
		if parseErr != nil {
			err = parseErr
		}
		body = parsed.append(body)
		all[i] = parsed
	}
	if err == nil && kind == kindAck {
		err = checkDistinct(all)
	}
	return op(kind, name, err, body)
}

// checkDistinct reports a receipt that is there twice.
func checkDistinct(receipts []receipt) error {
	if len(receipts) < 2 {
		return nil
	}
	seen := make(map[receipt]bool, len(receipts))
	for _, r := range receipts {
		if seen[r] {
			return engine.Errorf(ErrInvalid, "queue: receipt %s is given twice", r.public())
		}
		seen[r] = true
	}
	return nil
}

func renewCommand(name string, lease time.Duration, receipts []Receipt) engine.Op {
	ms, err := leaseMillis(lease)
	renew := receiptsCommand(kindRenew, name, codec.AppendUvarint(bodyOf(name, 10+16*len(receipts)), uint64(ms)), receipts)
	if err != nil {
		renew.Err = err
	}
	renew.Decode = anyOf(decodeRenewed)
	return renew
}

func releaseCommand(name string, receipts []Receipt) engine.Op {
	release := receiptsCommand(kindRelease, name, bodyOf(name, 16*len(receipts)), receipts)
	release.Decode = anyOf(decodeCount)
	return release
}

func (r receipt) append(dst []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(dst, r.seq), r.lsn)
}

// receiptCommand starts a command about one receipt.
func receiptCommand(kind uint8, name string, r Receipt, err error) engine.Op {
	parsed, parseErr := r.parse()
	if parseErr != nil {
		err = parseErr
	}
	return op(kind, name, err, parsed.append(bodyOf(name, 32)))
}

func nackCommand(name string, r Receipt, opts []NackOption) engine.Op {
	o := newNackOptions(opts)
	nack := receiptCommand(kindNack, name, r, o.err)
	var flags byte
	if o.delayed {
		flags |= nackDelayed
	}
	if o.bury {
		flags |= nackBury
	}
	body := codec.AppendUvarint(append(nack.Command.Body, flags), uint64(o.delay))
	nack.Command.Body = append(body, o.reason...)
	return nack
}

func extendCommand(name string, r Receipt, lease time.Duration) engine.Op {
	ms, err := leaseMillis(lease)
	extend := receiptCommand(kindExtend, name, r, err)
	extend.Command.Body = codec.AppendUvarint(extend.Command.Body, uint64(ms))
	extend.Decode = anyOf(decodeTime)
	return extend
}

func configureCommand(name string, s Settings) engine.Op {
	kept, err := s.millis()
	c := codec.NewEncoder(bodyOf(name, 32))
	kept.code(&c)
	return op(kindConfigure, name, err, c.Encoded())
}

func pauseCommand(name string, paused bool) engine.Op {
	return op(kindPause, name, nil, codec.AppendBool(bodyOf(name, 1), paused))
}

func purgeCommand(name string) engine.Op {
	purge := op(kindPurge, name, nil, bodyOf(name, 0))
	purge.Decode = anyOf(decodeCount)
	return purge
}

func deleteCommand(name string) engine.Op { return op(kindDelete, name, nil, bodyOf(name, 0)) }

// seqCommand is a command about one dead letter.
func seqCommand(kind uint8, name string, seq uint64) engine.Op {
	return op(kind, name, nil, codec.AppendUvarint(bodyOf(name, 10), seq))
}

func redriveCommand(name string, after, until uint64, text string) engine.Op {
	body := codec.AppendUvarint(bodyOf(name, 20+len(text)), after)
	return op(kindRedrive, name, checkFilter(text), append(codec.AppendUvarint(body, until), text...))
}

// command is a decoded body. Its slices alias the log entry; its own memory is used again.
type command struct {
	name     []byte
	messages []newMessage
	receipts []receipt
	max      int
	lease    int64 // ms
	nack     nackOptions
	settings settings
	pause    bool
	seq      uint64
	until    uint64
	text     []byte
}

// decode reads a body. It checks what the functions that make commands check.
func (c *command) decode(kind uint8, b []byte) error {
	clear(c.messages) // or they would keep the entry that they were in
	*c = command{messages: c.messages[:0], receipts: c.receipts[:0]}
	r := codec.NewReader(b)
	c.name = r.Bytes()
	switch kind {
	case kindEnqueue:
		c.decodeMessages(&r)
	case kindDequeue:
		c.max, c.lease = int(min(r.Uvarint(), MaxBatch+1)), int64(r.Uvarint())
	case kindAck, kindRelease:
		c.decodeReceipts(&r)
	case kindRenew:
		c.lease = int64(r.Uvarint())
		c.decodeReceipts(&r)
	case kindNack:
		c.decodeReceipt(&r)
		c.decodeNack(&r)
	case kindExtend:
		c.decodeReceipt(&r)
		c.lease = int64(r.Uvarint())
	case kindCheck:
		c.decodeReceipt(&r)
	case kindConfigure:
		return c.decodeSettings(r.Rest(), r.Err())
	case kindPause:
		c.pause = r.Bool()
	case kindRequeue, kindDiscard, kindRemove:
		c.seq = r.Uvarint()
	case kindRedrive:
		c.seq, c.until, c.text = r.Uvarint(), r.Uvarint(), r.Rest()
	}
	if err := r.Done(); err != nil {
		return malformed(err)
	}
	return c.check(kind)
}

func malformed(err error) error { return engine.Errorf(engine.ErrMalformed, "queue: command: %v", err) }

func (c *command) decodeMessages(r *codec.Reader) {
	for r.Len() > 0 && len(c.messages) <= MaxBatch {
		c.messages = append(c.messages, newMessage{
			priority: r.Byte(), delay: int64(r.Uvarint()), maxAttempts: int64(r.Uvarint()), dedup: r.Bytes(), headers: r.Bytes(), payload: r.Bytes(),
		})
	}
}

func (c *command) decodeReceipts(r *codec.Reader) {
	for r.Len() > 0 && len(c.receipts) <= MaxBatch {
		c.decodeReceipt(r)
	}
}

func (c *command) decodeReceipt(r *codec.Reader) {
	c.receipts = append(c.receipts, receipt{r.Uvarint(), r.Uvarint()})
}

func (c *command) decodeNack(r *codec.Reader) {
	flags := r.Byte()
	c.nack = nackOptions{delayed: flags&nackDelayed != 0, bury: flags&nackBury != 0, delay: int64(r.Uvarint())}
	c.text = r.Rest()
	if flags >= nackBury<<1 || c.nack.bury && c.nack.delayed || !c.nack.delayed && c.nack.delay != 0 {
		c.nack.err = engine.Errorf(ErrInvalid, "queue: nack with flags %#x", flags)
	}
}

func (c *command) decodeSettings(b []byte, err error) error {
	coder := codec.NewDecoder(b)
	c.settings.code(&coder)
	if err == nil {
		err = coder.Done()
	}
	if err != nil {
		return malformed(err)
	}
	return c.settings.check()
}

func (c *command) check(kind uint8) error {
	switch {
	case kind == kindEnqueue:
		return c.checkMessages()
	case kind == kindDequeue && (c.max < 1 || c.max > MaxBatch):
		return engine.Errorf(ErrInvalid, "queue: max %d is not in 1-%d", c.max, MaxBatch)
	case (kind == kindDequeue || kind == kindExtend || kind == kindRenew) && (c.lease < 1 || c.lease > maxDurationMillis):
		return engine.Errorf(ErrInvalid, "queue: lease of %d ms is not in 1-%d", c.lease, maxDurationMillis)
	case (kind == kindAck || kind == kindRenew || kind == kindRelease) && (len(c.receipts) < 1 || len(c.receipts) > MaxBatch):
		return engine.Errorf(ErrInvalid, "queue: %d receipts are not 1-%d", len(c.receipts), MaxBatch)
	case kind == kindAck:
		return checkDistinct(c.receipts)
	case kind == kindNack && (c.nack.delay < 0 || c.nack.delay > maxDurationMillis):
		return engine.Errorf(ErrInvalid, "queue: delay of %d ms is not in 0-%d", c.nack.delay, maxDurationMillis)
	case kind == kindNack && len(c.text) > MaxReasonBytes:
		return engine.Errorf(ErrInvalid, "queue: reason of %d bytes exceeds %d", len(c.text), MaxReasonBytes)
	case kind == kindNack:
		return c.nack.err
	case kind == kindRedrive:
		return checkFilter(string(c.text))
	}
	return nil
}

func (c *command) checkMessages() error {
	if n := len(c.messages); n < 1 || n > MaxBatch {
		return engine.Errorf(ErrInvalid, "queue: %d messages are not 1-%d", n, MaxBatch)
	}
	for i := range c.messages {
		switch m := &c.messages[i]; {
		case m.delay < 0 || m.delay > maxDurationMillis:
			return engine.Errorf(ErrInvalid, "queue: delay of %d ms is not in 0-%d", m.delay, maxDurationMillis)
		case m.maxAttempts < 0 || m.maxAttempts > MaxAttemptsLimit:
			return engine.Errorf(ErrInvalid, "queue: max attempts %d is not in 1-%d", m.maxAttempts, MaxAttemptsLimit)
		case len(m.dedup) > MaxDedupKeyBytes:
			return engine.Errorf(ErrInvalid, "queue: dedup key of %d bytes is not in 1-%d", len(m.dedup), MaxDedupKeyBytes)
		}
		if _, err := engine.DecodeHeaders(c.messages[i].headers); err != nil {
			return err
		}
	}
	return nil
}
