package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// The rows of state:
//
//	number of the operator (2, big endian) | what the row is (1) | the rest
//
// Times are 8 bytes, big endian, that sort like the times. A record's key is preceded by its length
// in 2 bytes if other parts follow it.
const (
	rowRunning = 'a' // key: accumulator
	rowBlock   = 'b' // end, key: accumulator of some panes
	rowCount   = 'c' // key: accumulator of the current window
	rowDirty   = 'd' // end, key: a fired window that has changed since
	rowExpiry  = 'e' // time, key: of dedup
	rowSeen    = 'k' // key: of dedup
	rowLeft    = 'l' // key, time, sequence: of a join
	rowMark    = 'm' // latest fired window, and where blocks begin
	rowNumber  = 'n' // a sequence, or a time
	rowRight   = 'r'
	rowSession = 's' // key, end: session
	rowTimer   = 't' // time, ...
	rowPane    = 'w' // end, key: accumulator
)

const (
	// maxKey is the maximum length of a record's key within the key of a row.
	maxKey = 3 << 10
	// perScan is the number of rows read at a time.
	perScan = 64
)

var errKey = fmt.Errorf("the key is longer than %d bytes", maxKey)

// row returns the beginning of a row's key.
func (s *instance) row(what byte) []byte {
	return append(make([]byte, 0, 64), byte(s.number>>8), byte(s.number), what)
}

func appendTime(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^1<<63)
}

func timeIn(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// appendKey appends a record's key that other parts follow.
func appendKey(dst, key []byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(key))), key...)
}

// above returns the least key greater than all keys with the prefix.
func above(prefix []byte) []byte {
	b := append([]byte{}, prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// timeOfRow splits a row that begins with a time.
func timeOfRow(k []byte) (int64, []byte, error) {
	if len(k) < 11 {
		return 0, nil, corrupt(k)
	}
	return timeIn(k[3:]), k[11:], nil
}

func corrupt(k []byte) error { return fmt.Errorf("pipeline: row %x: %w", k, codec.ErrCorrupt) }

// pair is a row.
type pair struct{ k, v []byte }

// scan returns up to most rows with lower <= key < upper.
func scan(state State, lower, upper []byte, most int) (rows []pair, err error) {
	err = state.Scan(lower, upper, func(k, v []byte) bool {
		rows = append(rows, pair{append([]byte{}, k...), append([]byte{}, v...)})
		return len(rows) < most
	})
	return rows, err
}

// first returns the first row.
func first(state State, lower, upper []byte) (row pair, there bool, err error) {
	rows, err := scan(state, lower, upper, 1)
	if err != nil || len(rows) == 0 {
		return pair{}, false, err
	}
	return rows[0], true, nil
}

// put and remove change the state and count the change.
func (t *Tick) put(k, v []byte) {
	t.state.Put(k, v)
	t.bytes += len(k) + len(v)
	t.rows++
}

func (t *Tick) remove(k []byte) {
	t.state.Delete(k)
	t.bytes += len(k)
	t.rows++
}

// decode decodes a row with its code function.
func decode(k, v []byte, code func(c *codec.Coder)) error {
	c := codec.NewDecoder(v)
	code(&c)
	if err := c.Done(); err != nil {
		return fmt.Errorf("pipeline: row %x: %w", k, err)
	}
	return nil
}

func encode(code func(c *codec.Coder)) []byte {
	c := codec.NewEncoder(nil)
	code(&c)
	return c.Encoded()
}

// fail records a failure of a stateful operator.
func (t *Tick) fail(s *instance, err error, it *item) {
	t.counts[s.index].Errors++
	t.fails(fail(s.name, err, it, t.batch))
}

// emit passes an operator's output to the next operators.
func (t *Tick) emit(s *instance, made []item) error {
	t.counts[s.index].Out += int64(len(made))
	return t.run(s.index+1, made, nil)
}

var errPosition = errors.New("pipeline: the position is not one of this operator")
