package processing

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/pipeline"
)

// In a spread namespace an operator with state by key begins a stage (see pipeline.Stage), and each
// shard has the keys that hash to it. The operators before it pass each record to the shard of its
// key, as a part of the tick that produced it. The record goes into the stage's exchange there, in
// a message if that is another shard.
//
//	shard 0   sources -> filter, keyby --+--> exchange -> aggregate --+--> exchange -> dedup -> sinks
//	                                      \ /                         \ /
//	                                      / \                         / \
//	shard 1   sources -> filter, keyby --+--> exchange -> aggregate --+--> exchange -> dedup -> sinks
//
// A subtask of a job is still a single task: its stages take turns, and each tick belongs to one
// stage. A stage's position in its exchange is in the row of the task, so the number of the tick
// fences that position too. Messages between two shards stay in order, so passed records take
// effect once.
//
// After its records, a message carries the progress of its sender: its watermark, or that it is
// idle. The watermark of a stage is the minimum of its upstreams, as pipeline.Watermark computes it
// for the partitions of a source. The upstreams are the stages before it in all shards. The
// progress of an idle stage has the time from which event time may advance with the clock, and its
// limit: the next window that the stage may still fire. A progress may be older than records that
// its sender has not read yet. So an idle upstream is ignored only after a grace of one idle
// timeout. The grace starts when the first upstream has records again, and when this replica
// becomes leader. If there are no records to pass, the progress is sent alone, but only if it has
// changed. That happens at most ten times a second, or less often with more than four shards.
//
// A full exchange refuses messages temporarily. They wait at the sender, whose stage stops when
// more than maxOutBytes are waiting. A stage before a full exchange in its own shard stops too.
// Messages of each stage have their own lane and count. So a stage waits only for later stages, and
// there is no cycle.

const (
	// maxExchangeBytes is the size at which an exchange refuses more messages.
	maxExchangeBytes = 8 << 20
	// maxMessages is the maximum number of messages that a tick takes from an exchange.
	maxMessages = 1000
	// minGraceMillis is the minimum grace of idle upstreams. By its end, messages sent before it
	// have arrived.
	minGraceMillis = 1000
	// minTellMillis is the minimum interval at which a stage sends its progress without records.
	minTellMillis = 100
	// tellMillisPerShard makes that interval longer with many shards. Every shard sends to every
	// other, so the total would grow with the square of their number.
	tellMillisPerShard = 25
)

// stageProgress is the progress of a stage in a shard, as sent to others.
type stageProgress struct {
	seen, idle, bounded    bool
	newest, arrived, bound int64 // as in pipeline.Part; if not idle, arrived is when it was first heard not to be
	done                   bool  // it has read all its input
}

func (s *stageProgress) code(c *codec.Coder) {
	for _, b := range [...]*bool{&s.seen, &s.idle, &s.bounded, &s.done} {
		c.Bool(b)
	}
	for _, n := range [...]*int64{&s.newest, &s.arrived, &s.bound} {
		c.Varint(n)
	}
}

func toStageProgress(p pipeline.Progress) stageProgress {
	return stageProgress{seen: p.Seen, idle: p.Idle, bounded: p.Bounded, newest: p.Newest, arrived: p.Arrived, bound: p.Bound}
}

// heardAt converts a progress to the clock of the receiving shard. The clocks of shards may differ,
// so it converts durations: an upstream that has been idle for a second has been idle since a
// second ago.
func (s stageProgress) heardAt(now, told int64) stageProgress {
	if s.seen && s.idle {
		s.arrived += now - told
	}
	return s
}

// upstream is a stage of a shard.
type upstream struct{ stage, shard uint16 }

func (u *upstream) code(c *codec.Coder) {
	c.Uint16(&u.stage)
	c.Uint16(&u.shard)
}

// passCommand is a command, and the value of a row 'i': records for a stage, and the progress of
// their sender.
type passCommand struct {
	job      ref
	epoch    uint64
	to       uint16 // stage
	from     upstream
	says     bool  // the message has the sender's progress: the last of several messages does
	told     int64 // time of the progress, by the sender's clock
	progress stageProgress
	records  []byte // see passed
}

func (p *passCommand) code(c *codec.Coder) {
	codeRef(c, &p.job)
	c.Uvarint(&p.epoch)
	c.Uint16(&p.to)
	p.from.code(c)
	if c.Bool(&p.says); p.says {
		c.Varint(&p.told)
		p.progress.code(c)
	}
	c.View(&p.records)
}

// exchangeRow is the value of a row 'h'.
type exchangeRow struct {
	first, next uint64 // number of the first message in the exchange, and of the next one to arrive
	bytes       int64
	last        []arrival
}

// arrival is the last message of an upstream.
type arrival struct {
	from   upstream
	number uint64
}

func (i *exchangeRow) code(c *codec.Coder) {
	version(c, "exchange")
	c.Uvarint(&i.first)
	c.Uvarint(&i.next)
	c.Varint(&i.bytes)
	codec.List(c, &i.last, func(c *codec.Coder, a *arrival) {
		a.from.code(c)
		c.Uvarint(&a.number)
	})
}

// arrived notes the arrival of a message.
func (i *exchangeRow) arrived(from upstream) {
	at := slices.IndexFunc(i.last, func(a arrival) bool { return a.from == from })
	if at < 0 {
		at = len(i.last)
		i.last = append(i.last, arrival{from: from})
	}
	i.last[at].number = i.next
	i.next++
}

// waits reports whether a message of an upstream has not been read, given the number of the next
// message to read.
func (i *exchangeRow) waits(from upstream, next uint64) bool {
	return slices.ContainsFunc(i.last, func(a arrival) bool { return a.from == from && a.number >= next })
}

// Lengths of the keys after the job.
const (
	exchangeKeyLen = 2
	messageKeyLen  = 2 + 8
)

func exchangeKey(r ref, stage uint16) []byte {
	return binary.BigEndian.AppendUint16(jobKey(rowExchange, r), stage)
}

func messagePrefix(r ref, stage uint16) []byte {
	return binary.BigEndian.AppendUint16(jobKey(rowMessage, r), stage)
}

func messageKey(r ref, stage uint16, number uint64) []byte {
	return key.AppendUint64(messagePrefix(r, stage), number)
}

// exchangeTopic is notified when a message has arrived for a job.
func exchangeTopic(r ref) engine.Topic {
	return engine.TopicOf(engine.MachineProcessing, "", r.append([]byte("i")))
}

func (w *work) exchange(r ref, stage uint16) exchangeRow {
	b, ok := w.tx.Get(exchangeKey(r, stage))
	if !ok {
		return exchangeRow{}
	}
	return must(decode(b, (*exchangeRow).code))
}

func readExchange(v *engine.View, r ref, stage uint16) (in exchangeRow, err error) {
	b, ok, err := v.Get(exchangeKey(r, stage))
	if err == nil && ok {
		in, err = decode(b, (*exchangeRow).code)
	}
	return in, err
}

func (w *work) setExchange(r ref, stage uint16, in *exchangeRow) {
	w.tx.Set(exchangeKey(r, stage), encode(nil, in, (*exchangeRow).code))
}

// pass receives records from another shard for a stage. If the shard has not yet learned of the
// job's run, or has no room, the message waits at the sender. (A forgotten job is treated the same
// way. By then, all reachable shards have dropped their messages for it days ago.)
func (w *work) pass(p *passCommand) ([]byte, error) {
	j := w.load(p.job)
	switch {
	case j == nil || p.epoch > j.subtask.epoch:
		return nil, engine.Errorf(engine.ErrUnavailable, "the shard has not heard yet that the job runs")
	case j.status == Cancelled || p.epoch < j.subtask.reset || p.epoch < j.subtask.epoch && !w.has(j, p.to):
		return nil, nil // the records are no longer needed
	case j.restore != 0:
		return nil, engine.Errorf(engine.ErrUnavailable, "the job is being restored")
	}
	in := w.exchange(j.ref, p.to)
	if in.bytes >= maxExchangeBytes && j.subtask.phase == phaseRunning {
		return nil, engine.Errorf(engine.ErrBusy, "%d bytes wait in the exchange", in.bytes)
	}
	w.receive(j, &in, p)
	return nil, nil
}

// has reports whether the definition has a stage.
func (w *work) has(j *job, stage uint16) bool {
	b, _ := w.tx.Get(jobKey(rowDefinition, j.ref))
	d := must(decode(b, (*definitionRow).code))
	return slices.ContainsFunc(d.numbers, func(n numbered) bool { return !n.source && n.number == stage })
}

// receive puts a message into an exchange.
func (w *work) receive(j *job, in *exchangeRow, p *passCommand) {
	p.progress, p.told = p.progress.heardAt(w.tx.Now(), p.told), w.tx.Now()
	value := encode(nil, p, (*passCommand).code)
	w.tx.Insert(messageKey(j.ref, p.to, in.next), value)
	in.bytes += int64(len(value))
	in.arrived(p.from)
	w.setExchange(j.ref, p.to, in)
	w.tx.Notify(exchangeTopic(j.ref), -1)
}

// takenOut is the part of an exchange that a tick has read: the messages up to a number.
type takenOut struct {
	stage uint16
	upTo  uint64
	bytes int64
}

func (t *takenOut) code(c *codec.Coder) {
	c.Uint16(&t.stage)
	c.Uvarint(&t.upTo)
	c.Varint(&t.bytes)
}

// mayTake rejects taking messages that do not exist.
func (w *work) mayTake(j *job, t *takenOut) error {
	if t.upTo == 0 {
		return nil
	}
	in := w.exchange(j.ref, t.stage)
	if t.upTo < in.first || t.upTo > in.next || t.upTo-in.first > maxMessages || t.bytes < 0 || t.bytes > in.bytes {
		return engine.Errorf(ErrInvalid, "processing: messages up to %d of %d to %d are taken out", t.upTo, in.first, in.next)
	}
	return nil
}

// take removes messages that have been read.
func (w *work) take(j *job, t *takenOut) {
	if t.upTo == 0 {
		return
	}
	in := w.exchange(j.ref, t.stage)
	for ; in.first < t.upTo; in.first++ {
		w.tx.Delete(messageKey(j.ref, t.stage, in.first))
	}
	in.bytes -= t.bytes
	w.setExchange(j.ref, t.stage, &in)
}

// dropExchanges removes all exchanges of a job.
func (w *work) dropExchanges(j *job) {
	for n := range j.numbers {
		w.dropExchange(j, n+1)
	}
}

// dropExchange removes the exchange of a stage that no longer exists.
func (w *work) dropExchange(j *job, stage uint16) {
	prefix := messagePrefix(j.ref, stage)
	w.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	w.tx.Delete(exchangeKey(j.ref, stage))
}

// passed codes the records of a message. sources are the numbers of the job's sources, and tags the
// names of its tags. A record of a removed source becomes a record made by an operator, and removed
// tags are dropped. The message begins with the names of all its tags.
type passed struct {
	records []pipeline.Record
	sources []uint16
	tags    []string // taken from the message if asIs
	asIs    bool
}

func (p *passed) code(c *codec.Coder) {
	tags := p.tags
	codec.List(c, &tags, func(c *codec.Coder, name *string) { c.String(name) })
	if p.asIs {
		p.tags = tags
	}
	same := slices.Equal(tags, p.tags)
	codec.List(c, &p.records, func(c *codec.Coder, r *pipeline.Record) {
		c.View(&r.Key)
		c.View(&r.Value)
		c.Varint(&r.EventTime)
		codec.List(c, &r.Headers, func(c *codec.Coder, t *pipeline.Tag) {
			c.String(&t.Name)
			c.String(&t.Value)
		})
		set := uint64(r.Tags)
		c.Uvarint(&set)
		if r.Tags = pipeline.TagSet(set); c.Reading() && !same {
			r.Tags = pipeline.TagsOf(r.Tags.In(tags), p.tags)
		}
		c.Bool(&r.Right)
		p.codeOrigin(c, &r.Origin)
	})
}

func (p *passed) codeOrigin(c *codec.Coder, o *pipeline.Origin) {
	var source uint16
	if o.Source >= 0 && o.Source < len(p.sources) {
		source = p.sources[o.Source]
	}
	c.Uint16(&source)
	c.Int(&o.Partition)
	c.Uvarint(&o.Offset)
	c.Varint(&o.ID.Millis)
	c.Uvarint(&o.ID.Seq)
	if c.Reading() {
		o.Source = slices.Index(p.sources, source)
	}
}

// mail is the exchange of a task's stage, and the position of the stage in it.
type mail struct {
	task      *task
	view      *engine.View
	stage     uint16
	head      exchangeRow
	next      uint64 // next message to read
	skip      int    // records of it already read
	open      []pipeline.Record
	upstreams []heard // all upstreams of the stage
	taken     int     // messages
	bytes     int64   // of those
	now, mono int64   // ms, of the view: wall clock and monotonic clock
}

// woken is an upstream of a stage that stopped being idle, and when.
type woken struct {
	stage uint16
	from  upstream
	at    int64 // ms
}

// heard is the last progress that a stage received from an upstream.
type heard struct {
	from     upstream
	progress stageProgress
	epoch    uint64 // in which it was received
}

func (h *heard) code(c *codec.Coder) {
	h.from.code(c)
	h.progress.code(c)
	c.Uvarint(&h.epoch)
}

// lookInto opens the exchange of a stage.
func (t *task) lookInto(v *engine.View, stg *stage) (*input, error) {
	if err := v.WaitOn(exchangeTopic(t.ref)); err != nil {
		return nil, err
	}
	head, err := readExchange(v, t.ref, stg.number)
	if err != nil {
		return nil, err
	}
	row := t.row.stage(stg.number)
	m := &mail{task: t, view: v, stage: stg.number, head: head, next: row.next, skip: row.skip, now: v.Now(), mono: v.Mono()}
	for _, from := range stg.upstreams {
		for shard := range t.shards {
			h := heard{from: upstream{from, uint16(shard)}}
			if i := slices.IndexFunc(row.upstreams, func(known heard) bool { return known.from == h.from }); i >= 0 {
				h = row.upstreams[i]
			}
			m.upstreams = append(m.upstreams, h)
		}
	}
	in := &input{mail: m, done: !m.more()}
	for i := range m.upstreams {
		in.done = in.done && m.upstreams[i].progress.done && m.upstreams[i].epoch == t.epoch
	}
	return in, nil
}

// more reports whether there are messages to read.
func (m *mail) more() bool { return m.next < m.head.next }

// marks returns the upstreams as partitions at a time. An upstream with unread messages is not
// idle, and holds the watermark at its last progress. The same applies to an upstream without a
// progress in this run of the job, and to every upstream until the grace is over, because it may
// have records that it has not read yet.
func (m *mail) marks(now int64) []pipeline.Progress {
	all := make([]pipeline.Progress, len(m.upstreams))
	stale := now < m.trustAt()
	for i := range m.upstreams {
		s := m.upstreams[i].progress
		if s.done && !m.heardNow(i) {
			s = stageProgress{} // it had read all its input, and may have more to read in this run
		}
		idle := s.idle && !m.head.waits(m.upstreams[i].from, m.next) && m.heardNow(i) && !stale
		all[i] = pipeline.Progress{Seen: s.seen, Newest: s.newest, Arrived: s.arrived, IdleAfter: -1, Idle: idle, Bounded: s.bounded,
			Bound: s.bound}
	}
	return all
}

// heardNow reports whether an upstream has sent a progress in this run of the job.
func (m *mail) heardNow(i int) bool { return m.upstreams[i].epoch == m.task.epoch }

// trustAt returns when the grace of idle upstreams is over. It is measured by the monotonic clock,
// because the latency of messages does not depend on the wall clock.
func (m *mail) trustAt() int64 {
	woke := int64(math.MaxInt64)
	for i := range m.upstreams {
		if s := &m.upstreams[i].progress; m.heardNow(i) && !s.idle && !s.done {
			woke = min(woke, m.task.wokenAt(woken{m.stage, m.upstreams[i].from, s.arrived}, m.now, m.mono))
		}
	}
	at := m.task.began
	if woke != math.MaxInt64 {
		at = max(at, woke)
	}
	return m.now + at + m.task.grace() - m.mono
}

// wokenAt returns when an upstream stopped being idle, by the monotonic clock. The wall clock time
// is converted once, when the message is read, and does not change if that clock is set later.
func (t *task) wokenAt(w woken, now, mono int64) int64 {
	at, known := t.woken[w]
	if !known {
		for old := range t.woken {
			if old.stage == w.stage && old.from == w.from {
				delete(t.woken, old)
			}
		}
		at = mono - max(now-w.at, 0)
		t.woken = with(t.woken, w, at)
	}
	return at
}

// grace returns how long idle upstreams still hold the watermark.
func (t *task) grace() int64 {
	longest := int64(minGraceMillis)
	for i := range t.def.Sources {
		longest = max(longest, t.def.Sources[i].IdleAfter)
	}
	return longest
}

// read adds up to limit records to a batch, until they exceed most bytes. It reads the progress of
// a message once all of its records have been read.
func (m *mail) read(limit, most int, batch *[]pipeline.Record) (bytes int, err error) {
	if !m.more() {
		return 0, nil
	}
	prefix := messagePrefix(m.task.ref, m.stage)
	it, err := m.view.Iter(messageKey(m.task.ref, m.stage, m.next), key.PrefixEnd(prefix))
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && limit > 0 && m.taken < maxMessages && bytes < most; ok = it.Next() {
		msg, err := decode(it.Value(), (*passCommand).code)
		if err == nil && m.open == nil {
			m.open, err = m.records(&msg)
		}
		if err == nil && uint64At(it.Key(), len(prefix)) != m.next {
			err = fmt.Errorf("processing: job %v: message %d is not there", m.task.ref, m.next)
		}
		if err != nil {
			it.Close()
			return bytes, err
		}
		n := 0
		for ; n < min(limit, len(m.open)) && bytes < most; n++ {
			bytes += len(m.open[n].Key) + len(m.open[n].Value)
		}
		*batch = append(*batch, m.open[:n]...)
		m.open, m.skip, limit = m.open[n:], m.skip+n, limit-n
		if len(m.open) > 0 {
			break
		}
		m.hear(&msg)
		m.open, m.skip, m.next = nil, 0, m.next+1
		m.taken, m.bytes = m.taken+1, m.bytes+int64(len(it.Value()))
	}
	return bytes, it.Close()
}

// records returns the unread records of a message. They do not alias the message.
func (m *mail) records(msg *passCommand) ([]pipeline.Record, error) {
	p := passed{sources: m.task.sources, tags: m.task.prog.Tags()}
	c := codec.NewDecoder(slices.Clone(msg.records))
	p.code(&c)
	if err := c.Done(); err != nil || m.skip > len(p.records) {
		return nil, fmt.Errorf("processing: job %v: message %d of %d records: %w", m.task.ref, m.next, len(p.records), codec.ErrCorrupt)
	}
	return p.records[m.skip:], nil
}

// hear stores the progress of an upstream. A progress of an earlier run is ignored, because the
// upstream sends it again in this run.
func (m *mail) hear(msg *passCommand) {
	i := slices.IndexFunc(m.upstreams, func(h heard) bool { return h.from == msg.from })
	if i < 0 || !msg.says || msg.epoch != m.task.epoch {
		return
	}
	progress := msg.progress
	if was := &m.upstreams[i]; !progress.idle {
		if progress.arrived = msg.told; was.epoch == msg.epoch && !was.progress.idle {
			progress.arrived = was.progress.arrived
		}
	}
	m.upstreams[i].progress, m.upstreams[i].epoch = progress, msg.epoch
}

// keep writes the new position in the exchange to a tick.
func (m *mail) keep(tick *tickCommand) {
	row := tick.task.stage(m.stage)
	row.next, row.skip, row.upstreams = m.next, m.skip, slices.DeleteFunc(slices.Clone(m.upstreams),
		func(h heard) bool { return h.epoch == 0 })
	if m.taken > 0 {
		tick.taken = takenOut{m.stage, m.next, m.bytes}
	}
}
