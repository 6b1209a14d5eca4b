package stream

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// GroupStats are a consumer group's settings, members and cursors.
type GroupStats struct {
	Name        string
	Mode        Mode
	AckTimeout  time.Duration
	MaxAttempts int // 0: no limit
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	CreatedAt   time.Time
	Holder      string // active consumer of an exclusive group
	Members     []Member
	Cursors     []GroupCursor // by partition
}

// Member is a consumer of a group.
type Member struct {
	Consumer string
	Pending  int // pending records of the consumer
	JoinedAt time.Time
	LastSeen time.Time // behind by up to an eighth of the ack timeout
}

// GroupCursor is a group's position in a partition.
type GroupCursor struct {
	Partition     int
	LastDelivered ID            // of the last record examined; zero if none
	Acked         ID            // all records up to this one are done; zero if none
	Pending       int           // delivered and unacknowledged records, and those waiting for redelivery
	Lag           int64         // records not delivered yet
	LagTime       time.Duration // age of the oldest record not delivered yet
}

// Pending returns the number of pending records: delivered and unacknowledged ones, and those
// waiting for redelivery.
func (g *GroupStats) Pending() (n int) {
	for _, c := range g.Cursors {
		n += c.Pending
	}
	return n
}

// Lag returns the number of records not delivered yet.
func (g *GroupStats) Lag() (n int64) {
	for _, c := range g.Cursors {
		n += c.Lag
	}
	return n
}

// Get returns a consumer group's offsets, lag and members. Errors: ErrNotFound.
func (l Groups) Get(ctx context.Context, group string) (GroupStats, error) {
	s, stream := l.store, l.stream
	shards, err := s.shards(ctx, stream, group)
	if err != nil {
		return GroupStats{}, err
	}
	var info GroupStats
	for i, p := range shards {
		q := groupsQuery{namespace: s.scope.Namespace(), stream: stream, name: group, limit: 1}
		if i > 0 {
			q.id, q.spec = p.spec.id, p.groupSpec
		}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return GroupStats{}, err
		}
		if i == 0 && !q.found {
			return GroupStats{}, notFound(stream)
		}
		if i == 0 && len(q.infos) == 0 {
			return GroupStats{}, groupNotFound(stream, group)
		}
		if len(q.infos) == 0 {
			continue
		}
		if i == 0 {
			info = q.infos[0]
		} else {
			info.add(q.infos[0])
		}
	}
	if len(shards) > 1 {
		info.complete(shards[1].spec.partitions)
	}
	info.sort()
	return info, nil
}

// complete adds empty cursors for the partitions in shards that do not have the stream yet.
func (g *GroupStats) complete(partitions int) {
	known := make(map[int]bool, len(g.Cursors))
	for _, c := range g.Cursors {
		known[c.Partition] = true
	}
	for p := range partitions {
		if !known[p] {
			g.Cursors = append(g.Cursors, GroupCursor{Partition: p})
		}
	}
}

// add adds the stats of another shard.
func (g *GroupStats) add(other GroupStats) {
	g.Cursors = append(g.Cursors, other.Cursors...)
	for _, m := range other.Members {
		i := slices.IndexFunc(g.Members, func(have Member) bool { return have.Consumer == m.Consumer })
		if i < 0 {
			g.Members = append(g.Members, m)
			continue
		}
		have := &g.Members[i]
		have.Pending += m.Pending
		if m.LastSeen.After(have.LastSeen) {
			have.LastSeen = m.LastSeen
		}
		if m.JoinedAt.Before(have.JoinedAt) {
			have.JoinedAt = m.JoinedAt
		}
	}
}

func (g *GroupStats) sort() {
	slices.SortFunc(g.Cursors, func(a, b GroupCursor) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(g.Members, func(a, b Member) int { return cmp.Compare(a.Consumer, b.Consumer) })
}
