package stream

import (
	"github.com/floedb/floe/internal/engine"
)

// session is the stream and the group of the command being applied.
type session struct {
	m    *machine
	tx   *engine.Tx
	kind uint8
	name string
	st   *stream // nil if it does not exist
	g    *group  // nil if it does not exist
}

// open opens the stream. If the command carries a spec, open first updates this shard's copy of the
// stream to it. At the stream's home the spec only identifies the stream.
func (s *session) open(t *target) error {
	m, tx, sp := s.m, s.tx, t.spec
	st, home := m.load(tx, s.name), here(tx, s.name, 0)
	switch {
	case home && sp != nil && (st == nil || st.id != sp.id):
		return notFound(s.name)
	case home:
	case sp == nil:
		return engine.Errorf(ErrInvalid, "stream %q: command sent to the wrong shard", s.name)
	case st != nil && st.id > sp.id:
		return notFound(s.name) // it was deleted or recreated after the sender read the spec
	case st != nil && st.id == sp.id && st.deleted():
		return notFound(s.name)
	case st != nil && st.id == sp.id && st.version < sp.version:
		m.touch(tx, st)
		st.version, st.policy = sp.version, sp.policy
		m.enforce(tx, st)
		m.save(tx, st)
	case st == nil || st.id < sp.id:
		switch {
		case st == nil:
		case st.deleted():
			m.setTimer(tx, st, 0)
		default:
			m.drop(tx, st, false)
		}
		st = m.make(tx, s.name, *sp)
	}
	s.st = st
	return nil
}

// find is open for a stream that must exist.
func (s *session) find(t *target) error {
	if err := s.open(t); err != nil {
		return err
	}
	if s.st == nil {
		return notFound(s.name)
	}
	return nil
}

func (s *session) create(b *createBody) error {
	if err := s.open(&b.target); err != nil {
		return err
	}
	if s.st != nil {
		return engine.Errorf(ErrExists, "stream %q already exists", s.name)
	}
	s.m.found(s.tx, s.name, b.partitions, b.retention)
	return nil
}

func (s *session) setRetention(b *retentionBody) error {
	if err := s.find(&b.target); err != nil {
		return err
	}
	m, tx, st := s.m, s.tx, s.st
	m.touch(tx, st)
	st.policy = b.retention
	st.version++
	m.enforce(tx, st)
	m.save(tx, st)
	m.tell(tx, st, kindAdopt)
	return nil
}

func (s *session) delete(b *deleteBody) error {
	if err := s.find(&b.target); err != nil {
		return err
	}
	records := uint64(0)
	for p := range s.st.parts {
		records += s.st.parts[p].records()
	}
	if records > 0 && !b.force {
		return notEmpty(s.name, int64(records))
	}
	s.m.tell(s.tx, s.st, kindDrop)
	s.m.drop(s.tx, s.st, false)
	s.tx.Count(countStreams, -1)
	return nil
}

// adopt updates the shard's copy of the stream, which open does, unless it is newer.
func (s *session) adopt(t *target) error {
	_ = s.open(t)
	return nil
}

// drop removes the shard's part of a deleted stream.
func (s *session) drop(t *target) error {
	if s.open(t) == nil && !here(s.tx, s.name, 0) {
		s.m.drop(s.tx, s.st, true)
	}
	return nil
}

// open opens the group. Its stream must exist. If the command carries a spec, open creates,
// replaces or configures the group to match it, except at the stream's home.
func (t *groupTarget) open(s *session) error {
	if err := s.find(&t.target); err != nil {
		return err
	}
	return t.openGroup(s)
}

// openGroup is open for a stream that is open.
func (t *groupTarget) openGroup(s *session) error {
	m, tx, st, sp := s.m, s.tx, s.st, t.groupSpec
	g, home := m.loadGroup(tx, st, t.group), here(tx, st.name, 0)
	switch {
	case sp == nil:
	case g != nil && g.home == sp.id:
		if !home && g.version < sp.version {
			m.touchGroup(tx, g)
			m.configureGroup(tx, g, sp.config, sp.version)
			m.flush(tx, g)
		}
	case home || g != nil && g.home > sp.id || sp.id <= st.dropped:
		return groupNotFound(st.name, t.group) // it was deleted or recreated after the sender read the spec
	default:
		if g != nil {
			m.dropGroup(tx, st, g)
		}
		g = m.makeGroup(tx, st, t.group, sp)
		m.refreshPushesOf(tx, st, t.group)
	}
	s.g = g
	return st.refuseSubscribed(s.kind, t.group)
}

// find is open for a group that must exist.
func (t *groupTarget) find(s *session) error {
	if err := t.open(s); err != nil {
		return err
	}
	if s.g == nil {
		return groupNotFound(s.name, t.group)
	}
	return nil
}

// find opens the group, and creates it if b.create is set and it does not exist.
func (b *readGroupBody) find(s *session) (err error) {
	if err := b.open(s); err != nil {
		return err
	}
	switch {
	case s.g != nil:
	case b.create:
		s.g, err = s.m.foundGroup(s.tx, s.st, b.group, b.config)
	default:
		err = groupNotFound(s.name, b.group)
	}
	return err
}

// find opens the group without a spec, because the leader finds missing consumers in the rows of
// its own shard.
func (b *missBody) find(s *session) error {
	if s.st = s.m.present(s.tx, s.name); s.st == nil {
		return notFound(s.name)
	}
	if err := b.openGroup(s); err != nil {
		return err
	}
	if s.g == nil {
		return groupNotFound(s.name, b.group)
	}
	return nil
}

// inGroup returns the Apply of a group command. It expires due deliveries before apply, and saves
// the group after it even if apply fails. An apply that fails must not change anything.
func inGroup[B, R any, P interface {
	*B
	find(s *session) error
}](apply func(*session, *B) (R, error)) func(*session, *B) (R, error) {
	return func(s *session, b *B) (result R, err error) {
		if err := P(b).find(s); err != nil {
			return result, err
		}
		m, tx, st, g := s.m, s.tx, s.st, s.g
		m.touchGroup(tx, g)
		m.expire(tx, st, g)
		m.recall(tx, st, g)
		result, err = apply(s, b)
		m.expire(tx, st, g) // records returned without a delay are ready
		m.flush(tx, g)
		m.refreshPushesOf(tx, st, g.group)
		return result, err
	}
}

func (s *session) createGroup(b *createGroupBody) error {
	if err := b.open(s); err != nil {
		return err
	}
	if s.g != nil {
		return engine.Errorf(ErrExists, "stream %q: consumer group %q already exists", s.name, b.group)
	}
	if _, err := s.m.foundGroup(s.tx, s.st, b.group, b.config); err != nil {
		return err
	}
	s.m.refreshPushesOf(s.tx, s.st, b.group)
	return nil
}

// deleteGroup removes a group at its stream's home, which notifies the other shards.
func (s *session) deleteGroup(t *groupTarget) error {
	if err := t.find(s); err != nil {
		return err
	}
	s.m.deleteGroup(s.tx, s.st, s.g)
	return nil
}

// adoptGroup updates the shard's copy of the group, which open does.
func (s *session) adoptGroup(t *groupTarget) error {
	if err := s.open(&t.target); err != nil || s.st == nil {
		return err
	}
	return t.openGroup(s)
}

// dropGroup removes a group that was deleted at its stream's home. It notes the deletion, so that
// late commands do not recreate the group.
func (s *session) dropGroup(b *dropGroupBody) error {
	if err := s.open(&b.target); err != nil || s.st == nil || here(s.tx, s.name, 0) {
		return err
	}
	m, tx, st := s.m, s.tx, s.st
	m.touch(tx, st)
	st.dropped = max(st.dropped, b.dropped)
	m.save(tx, st)
	if g := m.loadGroup(tx, st, b.group); g != nil && g.home <= b.groupSpec.id {
		m.touchGroup(tx, g)
		m.dropGroup(tx, st, g)
	}
	return nil
}

func (s *session) leave(b *consumerBody) (engine.Nothing, error) {
	s.m.leave(s.tx, s.st, s.g, b.consumer)
	return engine.Nothing{}, nil
}

func (s *session) seek(b *seekBody) (none engine.Nothing, err error) {
	if b.partition > s.st.partitions {
		return none, noSuchPartition(s.name, s.st.partitions, b.partition-1)
	}
	s.m.seek(s.tx, s.st, s.g, b.to, b.partition-1)
	return none, nil
}

func (s *session) configureGroup(b *configureBody) (engine.Nothing, error) {
	s.m.configureGroup(s.tx, s.g, b.set.in(s.g.groupConfig, b.config), s.g.version+1)
	s.m.tellGroup(s.tx, s.st, s.g)
	return engine.Nothing{}, nil
}

func (s *session) hold(b *consumerBody) (claims, error) {
	out, err := s.claim(b.consumer, 0)
	if err == nil && !out.more {
		s.m.asked(s.tx, s.g, b.consumer, false) // this shard does not see deliveries of other shards
	}
	return out, err
}

func (s *session) follow(b *followBody) (engine.Nothing, error) {
	s.m.follow(s.tx, s.g, b.consumer, b.epoch)
	s.m.recall(s.tx, s.st, s.g)
	return engine.Nothing{}, nil
}
