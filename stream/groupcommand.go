package stream

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// groupCommand is what a command for a group has behind the name of the stream and its spec: the name of the group (uvarint length, bytes) and a group spec: u8, 0 in the
// shard that has the stream's record, else 1 and the spec's fields. Then follows:
//
//	create group: config
//	read group:   consumer (length, bytes) | limit uvarint | no ack u8 | create u8 | config of the group to create | epoch uvarint
//	ack:          strict u8 | refs
//	nack:         delay + 2 ms uvarint (1: the group's back-off, 0: to the dead letters) | reason (length, bytes) | refs
//	extend:       ms uvarint | refs
//	leave, hold:  consumer (length, bytes)
//	seek:         start | partition + 1 uvarint (0: all)
//	configure:    settings that change u8 | config, of which the others count for nothing
//	follow:       consumer | epoch uvarint
//	miss:         number uvarint | consumer, when it was heard of ms (varint) ...
//	drop group:   LSN of the deletion in the stream's home uvarint
//	delete group, adopt group: nothing
//
//	config: mode u8 | start | ack timeout ms | max deliver | back-off min, max ms (uvarints)
//	start:  kind u8 | id
//	refs:   runs uvarint | partition, first offset, number, attempt (uvarints; attempt 0: any) ...
type groupCommand struct {
	group     string
	spec      *groupSpec
	config    groupConfig
	consumer  string
	limit     int
	noAck     bool
	create    bool // the group, if there is none
	epoch     uint64
	dropped   uint64 // LSN of a deletion at home
	changes   groupChanges
	partition int // of a seek, counted from 1; 0: all
	strict    bool
	delay     int64
	reason    string
	runs      []refRun
	missed    []missed
}

// missed is a consumer that has not been heard of since a time, ms.
type missed struct {
	consumer string
	since    int64
}

// groupSpec is what the record of a group says, for shards that do not have the stream's.
type groupSpec struct {
	id      uint64 // LSN of its creation at home
	version uint64 // of the config
	config  groupConfig
}

func (g *groupHeader) toSpec() *groupSpec { return &groupSpec{g.home, g.version, g.groupConfig} }

// groupChanges are the settings that a command changes, the others of config being of no meaning.
type groupChanges struct {
	set    settings
	config groupConfig
}

// settings is a set of the settings of a group.
type settings uint8

const (
	setAckTimeout settings = 1 << iota
	setMaxDeliver
	setBackoff
	allSettings = 1<<iota - 1
)

// of returns a config as the changes leave it.
func (c *groupChanges) of(config groupConfig) groupConfig {
	if c.set&setAckTimeout != 0 {
		config.ackTimeout = c.config.ackTimeout
	}
	if c.set&setMaxDeliver != 0 {
		config.maxDeliver = c.config.maxDeliver
	}
	if c.set&setBackoff != 0 {
		config.backoffMin, config.backoffMax = c.config.backoffMin, c.config.backoffMax
	}
	return config
}

// refRun is a number of records one behind the other.
type refRun struct {
	Ref
	n uint64
}

func (c *groupConfig) append(b []byte) []byte {
	b = c.start.append(append(b, byte(c.mode)))
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(c.ackTimeout)), c.maxDeliver)
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(c.backoffMin)), uint64(c.backoffMax))
}

func (s start) append(b []byte) []byte { return s.id.append(append(b, byte(s.kind))) }

func readStart(r *codec.Reader) start { return start{startKind(r.Byte()), readID(r)} }

func readGroupConfig(r *codec.Reader) groupConfig {
	c := groupConfig{mode: Mode(r.Byte()), start: readStart(r)}
	c.ackTimeout, c.maxDeliver = int64(r.Uvarint()), r.Uvarint()
	c.backoffMin, c.backoffMax = int64(r.Uvarint()), int64(r.Uvarint())
	return c
}

func (c *groupConfig) check() error {
	return cmp.Or(within("mode", uint64(c.mode), 0, uint64(numModes-1)), c.start.check(), within("ack timeout in ms", uint64(c.ackTimeout), 1, uint64(maxGroupMillis)),
		within("max deliver", c.maxDeliver, 0, maxDeliverLimit), within("longest back-off in ms", uint64(c.backoffMax), 0, uint64(maxGroupMillis)),
		within("shortest back-off in ms", uint64(c.backoffMin), 0, uint64(c.backoffMax)))
}

func (s start) check() error {
	if s.kind == startTail {
		return engine.Errorf(ErrInvalid, "stream: a group can not begin with the last records")
	}
	return within("kind of start", uint64(s.kind), 0, uint64(numStarts-1))
}

func (s *groupSpec) append(b []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	b = codec.AppendUvarint(codec.AppendUvarint(append(b, 1), s.id), s.version)
	return s.config.append(b)
}

func readGroupSpec(r *codec.Reader) *groupSpec {
	if !r.Bool() {
		return nil
	}
	return &groupSpec{r.Uvarint(), r.Uvarint(), readGroupConfig(r)}
}

// place is where a group is: for shards without the stream's record with what they need to know.
type place struct {
	stream, group string
	spec          *spec
	groupSpec     *groupSpec
}

func groupOp(kind uint8, at place, err error, body []byte) engine.Op {
	if err == nil {
		err = engine.CheckName("consumer group", at.group)
	}
	b := at.groupSpec.append(codec.AppendString(nil, at.group))
	return op(kind, at.stream, at.spec, err, append(b, body...))
}

func consumerOp(kind uint8, at place, consumer string) engine.Op {
	return groupOp(kind, at, engine.CheckName("consumer", consumer), codec.AppendString(nil, consumer))
}

// CreateGroupOp is CreateGroup as an operation of a transaction. In a spread namespace a group that begins at the end of a stream without a {tag} does so, in the
// partitions of other shards, only when these learn of it.
func CreateGroupOp(stream, group string, opts ...GroupOption) Op {
	return Op{engine.Hide(createGroupOp(stream, group, groupOptionsOf(opts)))}
}

func createGroupOp(stream, group string, o groupOptions) engine.Op {
	return groupOp(kindCreateGroup, place{stream: stream, group: group}, o.err, o.append(nil))
}

// ConfigureGroupOp is ConfigureGroup as an operation of a transaction.
func ConfigureGroupOp(stream, group string, opts ...SettingOption) Op {
	o := defaultGroup()
	given, err := engine.Given(opts)
	for _, opt := range given {
		opt.applySetting(&o)
	}
	if o.err = firstError(o.err, err); o.set == 0 {
		o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream %q: consumer group %q: no setting to change", stream, group))
	}
	return Op{engine.Hide(groupOp(kindConfigureGroup, place{stream: stream, group: group}, o.err, o.append([]byte{byte(o.set)})))}
}

// DeleteGroupOp is DeleteGroup as an operation of a transaction.
func DeleteGroupOp(stream, group string) Op {
	return Op{engine.Hide(groupOp(kindDeleteGroup, place{stream: stream, group: group}, nil, nil))}
}

func readGroupOp(at place, consumer string, o *groupReadOptions, epoch uint64) engine.Op {
	b := codec.AppendUvarint(codec.AppendString(nil, consumer), uint64(max(o.limit, 0)))
	b = o.group.append(codec.AppendBool(codec.AppendBool(b, o.noAck), !o.existing))
	op := groupOp(kindReadGroup, at, firstError(o.err, engine.CheckName("consumer", consumer)), codec.AppendUvarint(b, epoch))
	op.Decode = func(b []byte) (any, error) { return decodeClaims(b) }
	return op
}

// ReadGroupOp is ReadGroup as an operation of a transaction, without Wait; its value in the result is the []Ref of the records that the consumer has been
// given, which Store.Records reads.
func ReadGroupOp(stream, group, consumer string, opts ...GroupReadOption) Op {
	o := groupReadOptionsOf(opts)
	if o.wait > 0 {
		o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: a transaction does not wait for records"))
	}
	op := readGroupOp(place{stream: stream, group: group}, consumer, &o, 0)
	op.Decode = func(b []byte) (any, error) {
		c, err := decodeClaims(b)
		if err != nil {
			return nil, err
		}
		var refs []Ref
		for i := range c.claims {
			for _, o := range c.claims[i].offsets {
				refs = append(refs, Ref{c.claims[i].partition, o, int(c.claims[i].attempt)})
			}
		}
		return refs, nil
	}
	return Op{engine.Hide(op)}
}

func ackOp(at place, refs []Ref, strict bool) engine.Op {
	b, err := appendRefs(codec.AppendBool(nil, strict), refs)
	return counting(groupOp(kindAck, at, err, b))
}

func nackOp(at place, refs []Ref, o nackOptions) engine.Op {
	b := codec.AppendString(codec.AppendUvarint(nil, uint64(o.delay-toDLQ)), o.reason)
	b, err := appendRefs(b, refs)
	return counting(groupOp(kindNack, at, firstError(o.err, err), b))
}

func extendOp(at place, d time.Duration, refs []Ref) engine.Op {
	var bad error
	if d < time.Millisecond || d > maxGroupTime {
		bad = engine.Errorf(ErrInvalid, "stream: extension of %v is not in 1ms-%v", d, maxGroupTime)
	}
	b, err := appendRefs(codec.AppendUvarint(nil, uint64(max(millis(d), 0))), refs)
	return counting(groupOp(kindExtend, at, firstError(bad, err), b))
}

func counting(op engine.Op) engine.Op {
	op.Decode = func(b []byte) (any, error) {
		n, err := decodeCount(b)
		return int(n), err
	}
	return op
}

// AckOp acknowledges records as an operation of a transaction. Unlike Ack it is refused, and the transaction with it, with a *ConflictError if one of
// them is not pending as the delivery that its Ref is of: so what else the transaction does is done once for each record.
func AckOp(stream, group string, refs ...Ref) Op {
	return Op{engine.Hide(ackOp(place{stream: stream, group: group}, refs, true))}
}

// NackOp is Nack as an operation of a transaction; its value in the result is the int number of records.
func NackOp(stream, group string, refs []Ref, opts ...NackOption) Op {
	return Op{engine.Hide(nackOp(place{stream: stream, group: group}, refs, nackOptionsOf(opts)))}
}

// ExtendOp is Extend as an operation of a transaction; its value in the result is the int number of records.
func ExtendOp(stream, group string, d time.Duration, refs ...Ref) Op {
	return Op{engine.Hide(extendOp(place{stream: stream, group: group}, d, refs))}
}

// LeaveOp is Leave as an operation of a transaction.
func LeaveOp(stream, group, consumer string) Op {
	return Op{engine.Hide(consumerOp(kindLeave, place{stream: stream, group: group}, consumer))}
}

// SeekOp is Seek as an operation of a transaction. In a spread namespace it moves the group in the partitions of the stream's own shard alone, so give the
// name of the stream a {tag}.
func SeekOp(stream, group string, to SeekOption, opts ...SeekPartOption) Op {
	return Op{engine.Hide(seekOp(place{stream: stream, group: group}, to, seekOptionsOf(opts)))}
}

func seekOp(at place, to SeekOption, part seekOptions) engine.Op {
	var o groupOptions
	given, err := engine.Given([]SeekOption{to})
	for _, to := range given {
		to.applyGroup(&o)
	}
	return groupOp(kindSeek, at, cmp.Or(err, part.err), codec.AppendUvarint(o.start.append(nil), uint64(part.partition)))
}

// maxRefs is how many records an acknowledgement can name.
const maxRefs = 10_000

func appendRefs(b []byte, refs []Ref) ([]byte, error) {
	if n := len(refs); n < 1 || n > maxRefs {
		return nil, engine.Errorf(ErrInvalid, "stream: %d records are not in 1-%d", n, maxRefs)
	}
	var runs []refRun
	if err := checkOnce(refs); err != nil {
		return nil, err
	}
	for _, r := range refs {
		if r.Partition < 0 || r.Partition >= MaxPartitions || r.Offset == 0 || r.Attempt < 0 {
			return nil, engine.Errorf(ErrInvalid, "stream: no record can be at %+v", r)
		}
		if n := len(runs); n > 0 {
			if last := &runs[n-1]; last.Partition == r.Partition && last.Attempt == r.Attempt && last.Offset+last.n == r.Offset {
				last.n++
				continue
			}
		}
		runs = append(runs, refRun{r, 1})
	}
	b = codec.AppendUvarint(b, uint64(len(runs)))
	for _, r := range runs {
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(r.Partition)), r.Offset)
		b = codec.AppendUvarint(codec.AppendUvarint(b, r.n), uint64(r.Attempt))
	}
	return b, nil
}

// checkOnce checks that no delivery is named twice. Two of one record may be: one of them came too late. Most refs are in order, which shows it.
func checkOnce(refs []Ref) error {
	order := func(a, b Ref) int { return cmp.Or(a.compare(b), cmp.Compare(a.Attempt, b.Attempt)) }
	if slices.IsSortedFunc(refs, func(a, b Ref) int { return cmp.Or(order(a, b), -1) }) {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(refs), order)
	for i := 1; i < len(sorted); i++ {
		if r := sorted[i]; r == sorted[i-1] {
			return engine.Errorf(ErrInvalid, "stream: record %d of partition %d is named twice, as attempt %d", r.Offset, r.Partition, r.Attempt)
		}
	}
	return nil
}

func readRefs(r *codec.Reader, in *bounds) (runs []refRun) {
	left := uint64(maxRefs)
	for range min(in.count(r, "number of references", 1, maxRefs), r.Len()+1) { // one more than there can be is an error of the reader
		run := refRun{Ref: Ref{Partition: in.count(r, "partition", 0, MaxPartitions-1), Offset: r.Uvarint()}}
		run.n, run.Attempt = r.Uvarint(), in.count(r, "attempt", 0, 1<<40)
		in.check(cmp.Or(within("number of records", run.n, 1, left), within("offset", run.Offset, 1, math.MaxUint64-run.n)))
		if in.err != nil || r.Err() != nil {
			return nil
		}
		left -= run.n
		runs = append(runs, run)
	}
	return runs
}

// isGroupKind reports whether the command is for a group.
func isGroupKind(kind uint8) bool {
	return kind >= kindCreateGroup && kind <= kindMiss || kind == kindConfigureGroup
}

// read reports whether what was read is in its limits.
func (c *groupCommand) read(kind uint8, r *codec.Reader, in *bounds) {
	c.group, c.spec = r.String(), readGroupSpec(r)
	if c.spec != nil {
		in.check(c.spec.config.check())
	}
	switch kind {
	case kindCreateGroup:
		c.config = readGroupConfig(r)
		in.check(c.config.check())
	case kindReadGroup:
		c.consumer, c.limit, c.noAck, c.create = r.String(), in.count(r, "limit", 1, MaxReadLimit), r.Bool(), r.Bool()
		c.config, c.epoch = readGroupConfig(r), r.Uvarint()
		in.check(c.config.check())
	case kindAck:
		c.strict = r.Bool()
		c.runs = readRefs(r, in)
	case kindNack:
		delay := r.Uvarint()
		in.check(within("delay in ms", delay, 0, uint64(maxGroupMillis-toDLQ)))
		c.delay, c.reason = int64(delay)+toDLQ, r.String()
		in.check(within("bytes of the reason", uint64(len(c.reason)), 0, maxReasonBytes))
		c.runs = readRefs(r, in)
	case kindExtend:
		c.delay = int64(r.Uvarint())
		in.check(within("extension in ms", uint64(c.delay), 1, uint64(maxGroupMillis)))
		c.runs = readRefs(r, in)
	case kindLeave, kindHold:
		c.consumer = r.String()
	case kindFollow:
		c.consumer, c.epoch = r.String(), r.Uvarint()
	case kindDropGroup:
		if c.dropped = r.Uvarint(); c.spec == nil {
			in.check(engine.Errorf(ErrInvalid, "stream: the group to drop has no settings"))
		}
	case kindMiss:
		for range in.count(r, "number of members", 1, MaxMembers) {
			c.missed = append(c.missed, missed{r.String(), r.Varint()})
			if r.Err() != nil {
				break
			}
		}
	case kindSeek:
		c.config.start, c.partition = readStart(r), in.count(r, "partition", 0, MaxPartitions)
		in.check(c.config.start.check())
	case kindConfigureGroup:
		c.changes = groupChanges{settings(r.Byte()), readGroupConfig(r)}
		in.check(cmp.Or(within("set of settings", uint64(c.changes.set), 1, uint64(allSettings)), c.changes.config.check()))
	}
}

// claims is what a consumer has been given.
//
//	active u8 | epoch uvarint | more u8 | mode u8 | ack timeout ms uvarint | number uvarint | claim ...
//	claim: partition | attempt | deadline ms | offsets
//	offsets: number of runs uvarint | distance from the end of the one before, length (uvarints) ...
type claims struct {
	active bool // the consumer may get records: always, but in an exclusive group, where it is one of them
	epoch  uint64
	more   bool // there are more records to look at
	claims []claim

	mode       Mode  // of the group
	ackTimeout int64 // likewise, ms
}

type claim struct {
	partition int
	attempt   uint64
	deadline  int64
	offsets   []uint64
}

func (c *claims) encode() []byte {
	b := codec.AppendUvarint(codec.AppendBool(nil, c.active), c.epoch)
	b = append(codec.AppendBool(b, c.more), byte(c.mode))
	b = codec.AppendUvarint(b, uint64(c.ackTimeout))
	b = codec.AppendUvarint(b, uint64(len(c.claims)))
	for i := range c.claims {
		cl := &c.claims[i]
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(cl.partition)), cl.attempt)
		b = appendOffsets(codec.AppendVarint(b, cl.deadline), cl.offsets)
	}
	return b
}

// decodeClaims reads what encode wrote; nothing means that a take has found nothing.
func decodeClaims(b []byte) (*claims, error) {
	if len(b) == 0 {
		return new(claims), nil
	}
	r := codec.NewReader(b)
	c := &claims{active: r.Bool(), epoch: r.Uvarint(), more: r.Bool(), mode: Mode(r.Byte()), ackTimeout: int64(r.Uvarint())}
	for range readCount(&r, MaxReadLimit) {
		cl := claim{partition: int(r.Uvarint()), attempt: r.Uvarint(), deadline: r.Varint()}
		cl.offsets = readOffsets(&r)
		c.claims = append(c.claims, cl)
	}
	return c, r.Done()
}

// appendOffsets appends increasing offsets.
func appendOffsets(b []byte, offsets []uint64) []byte {
	runs := 0
	for i, o := range offsets {
		if i == 0 || o != offsets[i-1]+1 {
			runs++
		}
	}
	b = codec.AppendUvarint(b, uint64(runs))
	end := uint64(0)
	for i := 0; i < len(offsets); {
		n := 1
		for i+n < len(offsets) && offsets[i+n] == offsets[i]+uint64(n) {
			n++
		}
		b = codec.AppendUvarint(codec.AppendUvarint(b, offsets[i]-end), uint64(n))
		end = offsets[i] + uint64(n)
		i += n
	}
	return b
}

// readOffsets reads at most MaxReadLimit of them.
func readOffsets(r *codec.Reader) (offsets []uint64) {
	end := uint64(0)
	for range readCount(r, MaxReadLimit) {
		first, n := end+r.Uvarint(), readCount(r, MaxReadLimit)
		if r.Err() != nil || n < 1 || len(offsets)+n > MaxReadLimit {
			return offsets
		}
		for i := range n {
			offsets = append(offsets, first+uint64(i))
		}
		end = first + uint64(n)
	}
	return offsets
}
