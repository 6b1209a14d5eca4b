package processing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/protocol"
)

// input is the data that a task can read, as of a view.
type input struct {
	partitions []*sourcePartition
	mail       *mail  // instead of partitions, for a stage that reads an exchange
	fresh      bool   // a partition was seen for the first time: its start position has to be stored
	done       bool   // all input has been read
	reason     string // why a source cannot be read
	failure    string // why the job cannot continue
}

// sourcePartition is a partition of a source.
type sourcePartition struct {
	id       cursorID
	stream   *protocol.Stream
	cursor   cursor
	first    uint64
	end      uint64 // offset after the last record to read, or the time
	open     bool   // the end will move
	progress pipeline.Progress

	samples []protocol.Sample // of a measurement: those before upTo
	given   []pipeline.Record // by Test, instead of both
	upTo    uint64
	late    int64 // points written before the cursor since the last look
}

// more reports whether there is data to read now.
func (p *sourcePartition) more() bool {
	if p.stream == nil {
		return len(p.samples)+len(p.given) > 0
	}
	return p.cursor.next < p.end
}

// look opens the input of a stage.
func (t *task) look(v *engine.View, stg *stage) (*input, error) {
	if stg.index > 0 {
		return t.lookInto(v, stg)
	}
	in := &input{done: t.def.StopAtEnd}
	for i := range t.def.Sources {
		s := &t.def.Sources[i]
		look := t.lookAt
		if s.Stream == nil {
			look = t.lookAtSeries
		}
		if err := look(v, in, i, s); err != nil || in.failure != "" {
			return in, err
		}
	}
	for _, p := range in.partitions {
		p.measure(&t.def.Sources[p.id.source])
		in.done = in.done && p.cursor.next >= p.end && !p.open
	}
	return in, nil
}

// lookBehind updates the number of unread stream records while the task reads none, because more
// may be appended in the meantime.
func (t *task) lookBehind(v *engine.View) error {
	in := &input{}
	for i := range t.def.Sources {
		if s := &t.def.Sources[i]; s.Stream != nil {
			if err := t.lookAt(v, in, i, s); err != nil {
				return err
			}
		}
	}
	t.live.isBehind(in.behind())
	return nil
}

// lookAt adds the partitions of a stream.
func (t *task) lookAt(v *engine.View, in *input, i int, s *pipeline.Source) error {
	name := s.Stream.Stream
	if err := v.WaitOn(protocol.StreamTopic(t.namespace, name)); err != nil {
		return err
	}
	st, err := protocol.OpenStream(v, t.namespace, name)
	if err != nil {
		return err
	}
	if st == nil && t.shardOf(name) != t.shard {
		return nil // no partition in this shard has had a record
	}
	if st == nil {
		in.reason, in.done = fmt.Sprintf("source %q: there is no stream %q", s.Name, name), false
		return nil
	}
	partitions := s.Stream.Partitions
	if partitions == nil {
		for p := range st.Partitions {
			partitions = append(partitions, p)
		}
	}
	for _, p := range partitions {
		if p >= len(st.Partitions) {
			in.failure = fmt.Sprintf("source %q: stream %q has %d partitions, there is no partition %d", s.Name, name, len(st.Partitions),
				p)
			return nil
		}
		if !st.Partitions[p].Here {
			continue
		}
		c, known := t.cursors[cursorID{i, p}]
		if known && c.stream != st.ID {
			in.failure = fmt.Sprintf("source %q: stream %q was deleted and made again: restore the job with the source begun anew "+
				"(RestartSource, floe processing restore --restart-source)", s.Name, name)
			return nil
		}
		end, err := t.end(st, p)
		if err != nil {
			return err
		}
		if !known {
			in.fresh = true
			if c, err = t.begin(st, s, p); err != nil {
				return err
			}
		}
		in.partitions = append(in.partitions,
			&sourcePartition{id: cursorID{i, p}, stream: st, cursor: c, first: st.Partitions[p].First, end: end})
	}
	return nil
}

// end returns the offset after the last record to read.
func (t *task) end(st *protocol.Stream, p int) (uint64, error) {
	if !t.def.StopAtEnd {
		return st.Partitions[p].Last + 1, nil
	}
	return st.Find(p, func(rec *protocol.Record) bool { return rec.LSN > t.job.since })
}

// begin returns the start position in a partition.
func (t *task) begin(st *protocol.Stream, s *pipeline.Source, p int) (c cursor, err error) {
	c.stream = st.ID
	switch s.Stream.Start {
	case pipeline.StartLatest:
		c.next, err = st.Find(p, func(rec *protocol.Record) bool { return rec.LSN > t.job.since })
	case pipeline.StartAt:
		id := protocol.RecordID(s.Stream.StartID)
		c.next, err = st.Find(p, func(rec *protocol.Record) bool { return rec.ID.Compare(id) > 0 })
	default:
		c.next = st.Partitions[p].First
	}
	return c, err
}

func (p *sourcePartition) measure(s *pipeline.Source) {
	p.progress = pipeline.Progress{
		Seen: p.cursor.seen, Newest: p.cursor.newest, Arrived: p.cursor.arrived, CaughtUp: !p.more(), Disorder: s.Disorder,
		IdleAfter: s.IdleAfter,
	}
}

// records reports whether there are records to read.
func (in *input) records() bool {
	return in.mail != nil && in.mail.more() || slices.ContainsFunc(in.partitions, (*sourcePartition).more)
}

// behind returns the number of unread records of streams.
func (in *input) behind() (n int64) {
	for _, p := range in.partitions {
		if p.stream != nil && p.cursor.next < p.end {
			n += int64(p.end - max(p.cursor.next, p.first))
		}
	}
	return n
}

func (in *input) marks(now int64) []pipeline.Progress {
	if in.mail != nil {
		return in.mail.marks(now)
	}
	return marksOf(in.partitions)
}

func marksOf(partitions []*sourcePartition) []pipeline.Progress {
	all := make([]pipeline.Progress, len(partitions))
	for i, p := range partitions {
		all[i] = p.progress
	}
	return all
}

// reading is an input during a read.
type reading struct {
	partitions []*sourcePartition
	mail       *mail
	bytes      int // bytes read
	most       int // maximum bytes to read
	missed     int64
	gaps       []failure
}

// begin returns a reading of the input, which itself does not change.
func (in *input) begin() *reading {
	r := &reading{most: maxReadBytes}
	for _, p := range in.partitions {
		own := *p
		r.partitions = append(r.partitions, &own)
	}
	if in.mail != nil {
		own := *in.mail
		own.upstreams = slices.Clone(own.upstreams)
		r.mail = &own
	}
	return r
}

func (r *reading) marks(now int64) []pipeline.Progress {
	if r.mail != nil {
		return r.mail.marks(now)
	}
	return marksOf(r.partitions)
}

// trustAt returns the end of the grace during which idle upstreams hold the watermark, 0 if there
// is none.
func (in *input) trustAt(now int64) int64 {
	if in.mail == nil || !slices.ContainsFunc(in.mail.upstreams, func(h heard) bool { return h.progress.idle }) {
		return 0
	}
	at := in.mail.trustAt()
	if at <= now {
		return 0
	}
	return at
}

// batch reads records, beginning with the partition with the lowest watermark. A record without an
// event time is a failure.
func (r *reading) batch(t *task, limit int) (batch []pipeline.Record, failures []failure, err error) {
	if r.mail != nil {
		n, err := r.mail.read(limit, r.most-r.bytes, &batch)
		r.bytes += n
		return batch, nil, err
	}
	for len(batch)+len(failures) < limit && r.bytes < r.most {
		p, more := r.lowest()
		if p == nil {
			break
		}
		if batch == nil {
			if batch, t.spare = t.spare, nil; cap(batch) == 0 {
				batch = make([]pipeline.Record, 0, r.about(limit))
			}
		}
		n := limit - len(batch) - len(failures)
		if more > 1 {
			n = max(1, n/more)
		}
		if err = r.read(t, p, n, &batch, &failures); err != nil {
			break
		}
	}
	return batch, failures, err
}

// about returns the approximate maximum number of records of a batch.
func (r *reading) about(limit int) int {
	n := uint64(0)
	for _, p := range r.partitions {
		if p.stream != nil && p.cursor.next < p.end {
			n += p.end - p.cursor.next
		}
		n += uint64(len(p.samples) + len(p.given))
	}
	return int(min(n, uint64(limit)))
}

// lowest returns the partition to read next, nil if there is nothing to read, and the number of
// partitions with data.
func (r *reading) lowest() (lowest *sourcePartition, n int) {
	for _, p := range r.partitions {
		if !p.more() {
			continue
		}
		if n++; lowest == nil || p.mark() < lowest.mark() {
			lowest = p
		}
	}
	return lowest, n
}

func (p *sourcePartition) mark() int64 {
	if !p.progress.Seen {
		return noTime
	}
	return p.progress.Newest - p.progress.Disorder
}

// read reads up to n records of a partition.
func (r *reading) read(t *task, p *sourcePartition, n int, batch *[]pipeline.Record, failures *[]failure) error {
	switch {
	case p.given != nil:
		for i := range p.given {
			t.admit(p, &p.given[i], batch, failures)
		}
		p.given = nil
		p.measure(&t.def.Sources[p.id.source])
		return nil
	case p.stream == nil:
		return r.readSamples(t, p, batch, failures)
	}
	if p.cursor.next < p.first {
		gap := p.first - p.cursor.next
		r.missed += int64(gap)
		r.gaps = append(r.gaps, failure{
			operator: t.def.Sources[p.id.source].Name, source: t.def.Sources[p.id.source].Name,
			reason: fmt.Sprintf("%d records of partition %d were trimmed before they were read, from offset %d on", gap, p.id.partition,
				p.cursor.next),
			origin: pipeline.Origin{Source: p.id.source, Partition: p.id.partition, Offset: p.cursor.next},
		})
		p.cursor.next = p.first
	}
	err := p.stream.Read(p.id.partition, p.cursor.next, func(rec *protocol.Record) bool {
		if rec.Offset >= p.end {
			return false
		}
		got := t.record(p, rec)
		t.admit(p, &got, batch, failures)
		p.cursor.next = rec.Offset + 1
		r.bytes += len(rec.Payload) + len(rec.Key)
		n--
		return n > 0 && r.bytes < r.most
	})
	p.measure(&t.def.Sources[p.id.source])
	return err
}

// record converts a stream record to the form that operators use.
func (t *task) record(p *sourcePartition, rec *protocol.Record) pipeline.Record {
	got := pipeline.Record{
		Key: []byte(rec.Key), Value: rec.Payload,
		Origin: pipeline.Origin{Source: p.id.source, Partition: p.id.partition, Offset: rec.Offset, ID: pipeline.ID(rec.ID)},
	}
	for name, value := range rec.Headers {
		got.Headers = append(got.Headers, pipeline.Tag{Name: name, Value: value})
	}
	slices.SortFunc(got.Headers, func(a, b pipeline.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return got
}
