package stream

import (
	"cmp"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// The commands of consumer groups.
var (
	createGroup = &engine.CommandRow[*session, createGroupBody, engine.Nothing]{
		Kind: kindCreateGroup, Name: "create group", From: engine.FromUsers,
		Body: (*createGroupBody).code, Run: (*session).createGroup,
	}
	deleteGroup = &engine.CommandRow[*session, groupTarget, engine.Nothing]{
		Kind: kindDeleteGroup, Name: "delete group", From: engine.FromUsers, Shrinks: true,
		Body: (*groupTarget).code, Run: (*session).deleteGroup,
	}
	readGroup = &engine.CommandRow[*session, readGroupBody, claims]{
		Kind: kindReadGroup, Name: "read group", From: engine.FromUsers,
		Body: (*readGroupBody).code, Size: (*readGroupBody).size, Apply: inGroup((*session).readGroup), Result: (*claims).code,
	}
	ack = &engine.CommandRow[*session, ackBody, int]{
		Kind: kindAck, Name: "ack", From: engine.FromUsers, Shrinks: true,
		Body: (*ackBody).code, Check: (*ackBody).check, Reset: (*ackBody).reset, Size: (*ackBody).size, Apply: inGroup((*session).ack),
		Result: codeRecords,
	}
	nack = &engine.CommandRow[*session, nackBody, int]{
		Kind: kindNack, Name: "nack", From: engine.FromUsers,
		Body: (*nackBody).code, Check: (*nackBody).check, Size: (*nackBody).size, Apply: inGroup((*session).nack), Result: codeRecords,
	}
	extend = &engine.CommandRow[*session, extendBody, Extended]{
		Kind: kindExtend, Name: "extend", From: engine.FromUsers, Shrinks: true,
		Body: (*extendBody).code, Check: (*extendBody).check, Size: (*extendBody).size, Apply: inGroup((*session).extend),
		Result: (*Extended).code,
	}
	leave = &engine.CommandRow[*session, consumerBody, engine.Nothing]{
		Kind: kindLeave, Name: "leave", From: engine.FromUsers, Shrinks: true,
		Body: (*consumerBody).code, Apply: inGroup((*session).leave),
	}
	seek = &engine.CommandRow[*session, seekBody, engine.Nothing]{
		Kind: kindSeek, Name: "seek", From: engine.FromUsers,
		Body: (*seekBody).code, Apply: inGroup((*session).seek),
	}
	hold = &engine.CommandRow[*session, consumerBody, claims]{
		Kind: kindHold, Name: "hold", From: engine.FromUsers,
		Body: (*consumerBody).code, Apply: inGroup((*session).hold), Result: (*claims).code,
	}
	adoptGroup = &engine.CommandRow[*session, groupTarget, engine.Nothing]{
		Kind: kindAdoptGroup, Name: "adopt group", From: engine.FromUsers | engine.FromShards,
		Body: (*groupTarget).code, Run: (*session).adoptGroup,
	}
	dropGroup = &engine.CommandRow[*session, dropGroupBody, engine.Nothing]{
		Kind: kindDropGroup, Name: "drop group", From: engine.FromShards, Shrinks: true,
		Body: (*dropGroupBody).code, Run: (*session).dropGroup,
	}
	follow = &engine.CommandRow[*session, followBody, engine.Nothing]{
		Kind: kindFollow, Name: "follow", From: engine.FromShards,
		Body: (*followBody).code, Apply: inGroup((*session).follow),
	}
	miss = &engine.CommandRow[*session, missBody, engine.Nothing]{
		Kind: kindMiss, Name: "miss", From: engine.FromLeaders,
		Body: (*missBody).code, Apply: inGroup((*session).miss),
	}
	configureGroup = &engine.CommandRow[*session, configureBody, engine.Nothing]{
		Kind: kindConfigureGroup, Name: "configure group", From: engine.FromUsers,
		Body: (*configureBody).code, Check: (*configureBody).check, Apply: inGroup((*session).configureGroup),
	}
)

// groupTarget starts the body of every group command: the stream's target, the name of the group
// (uvarint length, bytes), and a byte that is 0 in the stream's home, otherwise 1 and the group's
// spec.
type groupTarget struct {
	target
	group     string
	groupSpec *groupSpec
}

func (t *groupTarget) code(f *codec.Fields) {
	t.target.code(f)
	codeName(f, "group", "consumer group", &t.group)
	codeOptional(f, "group_spec", &t.groupSpec, (*groupSpec).fields)
}

// codeName codes a name. Errors call it what.
func codeName(f *codec.Fields, field, what string, name *string) {
	if f.Checking() {
		f.Refuse(engine.CheckName(what, *name))
		return
	}
	f.Text(field, name)
}

// groupSpec is the record of a group, for shards other than the stream's home.
type groupSpec struct {
	id      uint64 // LSN of its creation at home
	version uint64 // of the config
	config  groupConfig
}

func (g *groupHeader) toSpec() *groupSpec { return &groupSpec{g.home, g.version, g.groupConfig} }

func (s *groupSpec) fields(f *codec.Fields) {
	f.Uvarint("id", &s.id)
	f.Uvarint("version", &s.version)
	s.config.code(f)
}

func (c *groupConfig) code(f *codec.Fields) {
	c.mode.code(f)
	c.start.code(f, "start")
	for i := range settingTypes {
		settingTypes[i].code(c, f)
	}
	if f.Checking() && c.backoffMin > c.backoffMax {
		f.Refuse(engine.Errorf(ErrInvalid, "stream: min back-off of %d ms exceeds max back-off of %d ms", c.backoffMin, c.backoffMax))
	}
}

// settings is a set of the settings of a group.
type settings uint8

const (
	setAckTimeout settings = 1 << iota
	setMaxAttempts
	setBackoff
	allSettings = 1<<iota - 1
)

// settingTypes are the settings in the order of their bits, with the names of their fields.
var settingTypes = [...]struct {
	names []string
	code  func(*groupConfig, *codec.Fields)
}{
	{[]string{"ack_timeout_ms"}, func(c *groupConfig, f *codec.Fields) {
		f.Millis("ack_timeout_ms", &c.ackTimeout, codec.Range{Min: 1, Max: maxGroupMillis})
	}},
	{[]string{"max_attempts"}, func(c *groupConfig, f *codec.Fields) {
		codeCount(f, "max_attempts", &c.maxAttempts, codec.Range{Max: MaxAttemptsLimit})
	}},
	{[]string{"backoff_min_ms", "backoff_max_ms"}, func(c *groupConfig, f *codec.Fields) {
		f.Millis("backoff_min_ms", &c.backoffMin, codec.Range{Max: maxGroupMillis})
		f.Millis("backoff_max_ms", &c.backoffMax, codec.Range{Max: maxGroupMillis})
	}},
}

// in returns c with the settings of the set taken from other.
func (s settings) in(c, other groupConfig) groupConfig {
	if s&setAckTimeout != 0 {
		c.ackTimeout = other.ackTimeout
	}
	if s&setMaxAttempts != 0 {
		c.maxAttempts = other.maxAttempts
	}
	if s&setBackoff != 0 {
		c.backoffMin, c.backoffMax = other.backoffMin, other.backoffMax
	}
	return c
}

// code codes a mode, which is a name in JSON.
func (m *Mode) code(f *codec.Fields) { codec.Enum(f, "mode", m, modeNames[:]) }

// code codes a group's start position: in JSON "beginning", "end" or an ID.
func (s *start) code(f *codec.Fields, name string) {
	switch c := f.Binary(); {
	case c != nil:
		c.Embed(s.append, func(r *codec.Reader) { *s = readStart(r) })
	case f.Checking():
		if s.kind >= numStarts || s.kind == startTail {
			f.Refuse(engine.Errorf(ErrInvalid, "stream: unknown start %d of a consumer group", s.kind))
		}
	default:
		f.Token(name, s.token, func(text string) (err error) {
			*s, err = parseStart(text)
			return err
		})
	}
}

var startNames = [...]string{startFirst: "beginning", startEnd: "end"}

// token returns the JSON form of a start. An ID that the kind does not use follows it.
func (s start) token() string {
	switch {
	case s.kind == startAt:
		return s.id.token()
	case s.id.IsZero():
		return startNames[s.kind]
	}
	return startNames[s.kind] + " " + s.id.token()
}

func parseStart(text string) (s start, err error) {
	s.kind = startAt
	word, id, more := strings.Cut(text, " ")
	if kind := slices.Index(startNames[:], word); kind >= 0 && word != "" {
		if s.kind = startKind(kind); !more {
			return s, nil
		}
		text = id
	}
	s.id, err = parseToken(text)
	return s, err
}

func (c *groupConfig) append(b []byte) []byte {
	b = c.start.append(append(b, byte(c.mode)))
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(c.ackTimeout)), c.maxAttempts)
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(c.backoffMin)), uint64(c.backoffMax))
}

func (s start) append(b []byte) []byte { return s.id.append(append(b, byte(s.kind))) }

func readStart(r *codec.Reader) start { return start{startKind(r.Byte()), readID(r)} }

func readGroupConfig(r *codec.Reader) groupConfig {
	c := groupConfig{mode: Mode(r.Byte()), start: readStart(r)}
	c.ackTimeout, c.maxAttempts = int64(r.Uvarint()), r.Uvarint()
	c.backoffMin, c.backoffMax = int64(r.Uvarint()), int64(r.Uvarint())
	return c
}

func (c *groupConfig) check() error { return codec.CheckFields(c, true, (*groupConfig).code) }

// groupAddress identifies a group. It has the specs that shards other than the stream's home need.
type groupAddress struct {
	stream string
	groupTarget
}

func groupAddressOf(stream, group string) groupAddress {
	return groupAddress{stream, groupTarget{group: group}}
}

// createGroupBody creates a group.
type createGroupBody struct {
	groupTarget
	config groupConfig
}

func (b *createGroupBody) code(f *codec.Fields) {
	if f.Parsing() {
		b.config = defaultGroup().groupConfig
	}
	b.groupTarget.code(f)
	b.config.code(f)
}

// CreateGroupOp is Groups.Create as an operation of a transaction. In a spread namespace, a group
// that starts at the end of a stream without a {tag} skips records in other shards until those
// receive the group.
func CreateGroupOp(stream, group string, opts ...GroupOption) Op {
	return Op{engine.Hide(createGroupOp(stream, group, groupOptionsOf(opts)))}
}

func createGroupOp(stream, group string, o groupOptions) engine.Op {
	return createGroup.Op(stream, createGroupBody{groupTarget{group: group}, o.groupConfig}, o.err)
}

// configureBody changes the settings in set. The other settings of config are ignored.
type configureBody struct {
	groupTarget
	set    settings
	config groupConfig
}

func (b *configureBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	if f.Binary() != nil || f.Checking() {
		f.Byte("set", (*byte)(&b.set), codec.Range{Max: allSettings})
		b.config.code(f)
		return
	}
	b.codeJSON(f)
}

// codeJSON codes the settings that change. Others appear as "unused" unless they have their
// defaults; this package sends none.
func (b *configureBody) codeJSON(f *codec.Fields) {
	usual := defaultGroup().groupConfig
	if f.Parsing() {
		b.config = usual
	}
	for i, setting := range settingTypes {
		bit := settings(1) << i
		for _, name := range setting.names {
			if f.Given(name, b.set&bit != 0) {
				b.set |= bit
			}
		}
		if b.set&bit != 0 {
			setting.code(&b.config, f)
		}
	}
	unused := b.set.in(b.config, usual)
	if f.Given("unused", unused != usual) {
		codec.Object(f, "unused", &unused, (*groupConfig).code)
		b.config = b.set.in(unused, b.config)
	}
}

func (b *configureBody) check() error {
	if b.set == 0 {
		return engine.Errorf(ErrInvalid, "stream: consumer group %q: no settings to change", b.group)
	}
	return nil
}

// ConfigureGroupOp is Groups.Configure as an operation of a transaction.
func ConfigureGroupOp(stream, group string, opts ...SettingOption) Op {
	o := defaultGroup()
	given, err := engine.Given(opts)
	for _, opt := range given {
		opt.applySetting(&o)
	}
	return Op{engine.Hide(configureGroup.Op(stream, configureBody{groupTarget{group: group}, o.set, o.groupConfig},
		firstError(o.err, err)))}
}

// DeleteGroupOp is Groups.Delete as an operation of a transaction.
func DeleteGroupOp(stream, group string) Op {
	return Op{engine.Hide(deleteGroup.Op(stream, groupTarget{group: group}, nil))}
}

// readGroupBody delivers records to a consumer.
type readGroupBody struct {
	groupTarget
	consumer string
	limit    int
	noAck    bool
	create   bool        // create the group if it does not exist
	config   groupConfig // for create
	epoch    uint64
}

func (b *readGroupBody) code(f *codec.Fields) {
	if f.Parsing() {
		b.limit, b.create, b.config = defaultReadLimit, true, defaultGroup().groupConfig
	}
	b.groupTarget.code(f)
	codeName(f, "consumer", "consumer", &b.consumer)
	codeCount(f, "limit", &b.limit, codec.Range{Min: 1, Max: MaxReadLimit})
	f.Bool("no_ack", &b.noAck)
	f.Bool("create", &b.create)
	codec.Object(f, "settings", &b.config, (*groupConfig).code)
	f.Uvarint("epoch", &b.epoch)
}

func (b *readGroupBody) size() int { return len(b.group) + len(b.consumer) + 96 }

func readGroupOp(at groupAddress, consumer string, o *groupReadOptions, epoch uint64) engine.Op {
	return readGroup.Make(at.stream, func(b *readGroupBody) error {
		*b = readGroupBody{at.groupTarget, consumer, o.limit, o.noAck, !o.existing, o.group.groupConfig, epoch}
		return o.err
	})
}

// ReadGroupOp is ReadGroup as an operation of a transaction, without Wait. It returns the Refs of
// the records delivered; Store.Records reads them.
func ReadGroupOp(stream, group, consumer string, opts ...GroupReadOption) OpOf[[]Ref] {
	o := groupReadOptionsOf(opts)
	if o.wait > 0 {
		o.err = firstError(o.err, engine.Errorf(ErrInvalid, "stream: a transaction cannot wait for records"))
	}
	op := readGroupOp(groupAddressOf(stream, group), consumer, &o, 0)
	op.Decode = func(b []byte) (any, error) {
		c, err := readGroup.Decode(b)
		if err != nil {
			return nil, err
		}
		var refs []Ref
		for _, c := range c.claims {
			for _, o := range c.offsets {
				refs = append(refs, Ref{c.partition, o, int(c.attempt), c.generation})
			}
		}
		return refs, nil
	}
	return opOf[[]Ref](op)
}

// consumerBody names a consumer.
type consumerBody struct {
	groupTarget
	consumer string
}

func (b *consumerBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	codeName(f, "consumer", "consumer", &b.consumer)
}

// LeaveOp is Leave as an operation of a transaction.
func LeaveOp(stream, group, consumer string) Op {
	return Op{engine.Hide(leaveOp(groupAddressOf(stream, group), consumer))}
}

func leaveOp(at groupAddress, consumer string) engine.Op {
	return leave.Op(at.stream, consumerBody{at.groupTarget, consumer}, nil)
}

// seekBody moves a group's cursors.
type seekBody struct {
	groupTarget
	to        start
	partition int // counted from 1; 0: all
}

func (b *seekBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	b.to.code(f, "to")
	codePartition(f, &b.partition)
}

// SeekOp is Seek as an operation of a transaction. In a spread namespace it affects only the
// partitions in the stream's home shard, so use a stream with a {tag}.
func SeekOp(stream, group string, to SeekOption, opts ...SeekPartOption) Op {
	return Op{engine.Hide(seekOp(groupAddressOf(stream, group), to, seekOptionsOf(opts)))}
}

func seekOp(at groupAddress, to SeekOption, part seekOptions) engine.Op {
	var o groupOptions
	given, err := engine.Given([]SeekOption{to})
	for _, to := range given {
		to.applyGroup(&o)
	}
	return seek.Op(at.stream, seekBody{at.groupTarget, o.start, part.partition}, cmp.Or(err, part.err))
}

// dropGroupBody removes a deleted group from another shard.
type dropGroupBody struct {
	groupTarget
	dropped uint64 // LSN of the deletion at the stream's home
}

func (b *dropGroupBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	if f.Uvarint("dropped", &b.dropped); f.Checking() && b.groupSpec == nil {
		f.Refuse(engine.Errorf(ErrInvalid, "stream: drop group without a group spec"))
	}
}

// followBody is the active consumer of an exclusive group, and its epoch.
type followBody struct {
	groupTarget
	consumer string
	epoch    uint64
}

func (b *followBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	f.Text("consumer", &b.consumer)
	f.Uvarint("epoch", &b.epoch)
}

// missBody lists consumers that stopped sending heartbeats.
type missBody struct {
	groupTarget
	missed []missed
}

// missed is a consumer that stopped sending heartbeats.
type missed struct {
	consumer string
	since    int64 // ms
}

func (b *missBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	codec.ListInto(f, "consumers", &b.missed, func(m *missed, f *codec.Fields) {
		f.Text("consumer", &m.consumer)
		f.Varint("since_ms", &m.since)
	}, codec.Range{Min: 1, Max: MaxMembers})
}

// claims are records delivered to a consumer.
//
//	active u8 | epoch uvarint | more u8 | mode u8 | ack timeout ms uvarint | number uvarint | claim ... | generation of each claim uvarint ...
//	claim: partition | attempt | deadline ms | offsets
//	offsets: number of runs uvarint | distance from the end of the one before, length (uvarints) ...
type claims struct {
	active bool // the consumer may receive records; in an exclusive group only one may
	epoch  uint64
	more   bool // more records may be available
	claims []claim

	mode       Mode  // of the group
	ackTimeout int64 // of the group, ms
}

type claim struct {
	partition  int
	attempt    uint64
	deadline   int64
	offsets    []uint64
	generation uint64
}

// code codes claims. An empty result means that a take found no records.
func (c *claims) code(f *codec.Fields) {
	if b := f.Binary(); b != nil && b.Reading() && b.Left() == 0 {
		return
	}
	f.Bool("active", &c.active)
	f.Uvarint("epoch", &c.epoch)
	f.Bool("more", &c.more)
	c.mode.code(f)
	f.Millis("ack_timeout_ms", &c.ackTimeout)
	codec.ListInto(f, "claims", &c.claims, (*claim).code)
	if b := f.Binary(); b != nil && b.More(len(c.claims) > 0) {
		for i := range c.claims {
			b.Uvarint(&c.claims[i].generation)
		}
	}
}

func (c *claim) code(f *codec.Fields) {
	codeCount(f, "partition", &c.partition)
	f.Uvarint("attempt", &c.attempt)
	f.Varint("deadline_ms", &c.deadline)
	if b := f.Binary(); b != nil {
		b.Embed(func(b []byte) []byte { return appendOffsets(b, c.offsets) }, func(r *codec.Reader) { c.offsets = readOffsets(r) })
		return
	}
	codec.ListInto(f, "offsets", &c.offsets, func(o *uint64, f *codec.Fields) { f.Uvarint("", o) })
	f.Uvarint("generation", &c.generation)
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

// readOffsets reads at most MaxReadLimit offsets.
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
