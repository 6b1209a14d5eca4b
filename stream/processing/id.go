package processing

import (
	"cmp"
	"encoding/base32"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// JobID identifies a job: "job-" and a ULID with the time of the submission. It contains the job's
// shard and is otherwise opaque.
type JobID string

// SavepointID identifies a savepoint: "sp-" and a ULID.
type SavepointID string

const (
	jobPrefix       = "job-"
	savepointPrefix = "sp-"
)

// ref identifies a job within a node: the shard in which it was submitted, and the LSN of the
// submission.
type ref struct {
	shard  uint16
	number uint64
}

func (r ref) append(dst []byte) []byte {
	return key.AppendUint64(binary.BigEndian.AppendUint16(dst, r.shard), r.number)
}

const refLen = 10

func refOf(b []byte) ref {
	return ref{binary.BigEndian.Uint16(b), binary.BigEndian.Uint64(b[2:])}
}

// ulidEncoding is Crockford's base 32. Its 26 digits have two more bits than the 16 bytes of an id.
// They come first and are 0.
var ulidEncoding = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// ulid formats 16 bytes as 26 digits: 48 bits of a time, the shard and a number.
func ulid(millis int64, r ref) string {
	var b [20]byte // 2 bits of zeros, 128 of the id, and 30 of zeros
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(millis)<<16|uint64(r.shard))
	binary.BigEndian.PutUint64(id[8:], r.number)
	for i, v := range id {
		b[i] |= v >> 2
		b[i+1] |= v << 6
	}
	return ulidEncoding.EncodeToString(b[:])[:26]
}

// parseULID is the inverse of ulid.
func parseULID(text string) (millis int64, r ref, ok bool) {
	if len(text) != 26 {
		return 0, r, false
	}
	b, err := ulidEncoding.DecodeString(text + "000000")
	if err != nil || len(b) != 20 { // the decoder skips line feeds
		return 0, r, false
	}
	var id [16]byte
	for i := range id {
		id[i] = b[i]<<2 | b[i+1]>>6
	}
	first := binary.BigEndian.Uint64(id[:])
	millis, r = int64(first>>16), ref{uint16(first), binary.BigEndian.Uint64(id[8:])}
	return millis, r, ulid(millis, r) == text
}

func jobID(created int64, r ref) JobID { return JobID(jobPrefix + ulid(created, r)) }

// parse parses an id. Errors: ErrInvalid.
func (id JobID) parse() (created int64, r ref, err error) {
	if text, ok := strings.CutPrefix(string(id), jobPrefix); ok {
		if created, r, ok = parseULID(text); ok {
			return created, r, nil
		}
	}
	return 0, ref{}, engine.Errorf(ErrInvalid, "processing: %.64q is not a job id", string(id))
}

func savepointID(created int64, r ref) SavepointID {
	return SavepointID(savepointPrefix + ulid(created, r))
}

func (id SavepointID) parse() (created int64, r ref, err error) {
	if text, ok := strings.CutPrefix(string(id), savepointPrefix); ok {
		if created, r, ok = parseULID(text); ok {
			return created, r, nil
		}
	}
	return 0, ref{}, engine.Errorf(ErrInvalid, "processing: %.64q is not a savepoint id", string(id))
}

// before reports whether r comes before other in the order of rows.
func (r ref) before(other ref) bool {
	return r.shard < other.shard || r.shard == other.shard && r.number < other.number
}

func sortRefs(all []ref) {
	slices.SortFunc(all, func(a, b ref) int { return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.number, b.number)) })
}
