package stream

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// ID names a record of a stream and says when it was appended. Within a partition IDs only
// increase, also when the clock of the node goes back; records of one millisecond are told apart by
// Seq. In a stream of n partitions Seq modulo n is the partition, so no two records of a stream
// share an ID.
type ID struct {
	Millis int64  // since the epoch
	Seq    uint64 // order within the millisecond
}

// ParseID reads what ID.String writes: milliseconds and sequence number with a dash between;
// without the latter it is 0. Errors: ErrInvalid.
func ParseID(s string) (ID, error) {
	millis, seq, dashed := strings.Cut(s, "-")
	ms, err := strconv.ParseUint(millis, 10, 63)
	id := ID{Millis: int64(ms)}
	if err == nil && dashed {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return ID{}, engine.Errorf(ErrInvalid, "stream: id %q is not of the form <milliseconds>-<sequence>", s)
	}
	return id, nil
}

// String returns the form of ParseID, such as "1763740800000-0".
func (id ID) String() string {
	return strconv.FormatInt(id.Millis, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Compare returns a negative number if id is before other, 0 if they are equal, a positive one if
// it is after.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Millis, other.Millis), cmp.Compare(id.Seq, other.Seq))
}

// IsZero reports whether the ID is that of no record.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns when the record was appended.
func (id ID) Time() time.Time { return time.UnixMilli(id.Millis) }

// next returns the smallest ID after id, or id if there is none: no record has it.
func (id ID) next() ID {
	switch {
	case id.Seq < math.MaxUint64:
		return ID{id.Millis, id.Seq + 1}
	case id.Millis < math.MaxInt64:
		return ID{id.Millis + 1, 0}
	}
	return id
}
