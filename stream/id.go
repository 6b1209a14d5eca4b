package stream

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// ID identifies a record of a stream and gives the time of its append. Within a partition IDs
// increase, even if the node's clock goes back. Seq distinguishes records of the same millisecond.
// In a stream of n partitions Seq modulo n is the partition, so IDs are unique within a stream.
type ID struct {
	Millis int64  // since the epoch
	Seq    uint64 // order within the millisecond
}

// ParseID parses the form that ID.String returns: milliseconds and sequence number, separated by a
// dash. The sequence number may be missing and is then 0. Errors: ErrInvalid.
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

// String returns the ID in the form of ParseID, such as "1763740800000-0".
func (id ID) String() string {
	return strconv.FormatInt(id.Millis, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Compare returns a negative number if id is before other, 0 if they are equal, and a positive
// number if id is after other.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Millis, other.Millis), cmp.Compare(id.Seq, other.Seq))
}

// IsZero reports whether id is the zero ID, which no record has.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns when the record was appended.
func (id ID) Time() time.Time { return time.UnixMilli(id.Millis) }

// next returns the smallest ID after id, or id if it is the greatest: no record has that one.
func (id ID) next() ID {
	switch {
	case id.Seq < math.MaxUint64:
		return ID{id.Millis, id.Seq + 1}
	case id.Millis < math.MaxInt64:
		return ID{id.Millis + 1, 0}
	}
	return id
}
