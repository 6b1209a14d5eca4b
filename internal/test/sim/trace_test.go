package sim

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// trace records every step: two runs are equal if and only if their hashes are.
type trace struct {
	digest xxhash.Digest
	last   [400]step // a ring
	steps  int
}

// step is one line of a trace: the action, and up to three numbers that describe its result.
type step struct {
	at      time.Duration
	what    string
	numbers [3]uint64
}

func newTrace() *trace {
	t := &trace{}
	t.digest.Reset()
	return t
}

func (t *trace) add(at time.Duration, what string, numbers ...uint64) {
	s := step{at: at, what: what}
	copy(s.numbers[:], numbers)
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	for i, n := range s.numbers {
		binary.LittleEndian.PutUint64(b[8*(i+1):], n)
	}
	t.digest.Write(b[:])
	t.digest.WriteString(what)
	t.last[t.steps%len(t.last)] = s
	t.steps++
}

func (t *trace) hash() uint64 { return t.digest.Sum64() }

// tail returns the last steps as text.
func (t *trace) tail() string {
	var b strings.Builder
	for i := max(0, t.steps-len(t.last)); i < t.steps; i++ {
		s := t.last[i%len(t.last)]
		fmt.Fprintf(&b, "%12v %s %v\n", s.at, s.what, s.numbers)
	}
	return b.String()
}
