package stream

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// refsBody lists deliveries.
type refsBody struct {
	groupTarget
	runs []refRun
}

// refRun is a run of n consecutive records.
type refRun struct {
	Ref
	n uint64
}

// maxRefs is the maximum number of records in a command.
const maxRefs = 10_000

func (b *refsBody) codeRefs(f *codec.Fields) {
	codec.ListInto(f, "refs", &b.runs, (*refRun).code, codec.Range{Min: 1, Max: maxRefs})
	given := slices.ContainsFunc(b.runs, func(r refRun) bool { return r.Generation != 0 })
	if c := f.Binary(); c != nil && c.More(given) { // commands of older logs have no generations
		for i := range b.runs {
			c.Uvarint(&b.runs[i].Generation)
		}
	}
}

func (b *refsBody) check() error {
	total := uint64(0)
	for i := 0; i < len(b.runs) && total <= maxRefs; i++ {
		total = max(total+b.runs[i].n, b.runs[i].n)
	}
	if total > maxRefs {
		return engine.Errorf(ErrInvalid, "stream: %d records are not in 1-%d", total, maxRefs)
	}
	return nil
}

func (b *refsBody) size() int { return len(b.group) + 24*len(b.runs) + 128 }

// code codes a run: partition, first offset, number of records, attempt (uvarints; attempt 0
// matches any).
func (r *refRun) code(f *codec.Fields) {
	if f.Binary() == nil && !f.Checking() {
		f.Token("", r.token, func(text string) (err error) {
			*r, err = parseRun(text)
			return err
		})
		return
	}
	codeCount(f, "partition", &r.Partition, codec.Range{Max: MaxPartitions - 1})
	f.Uvarint("offset", &r.Offset)
	f.Uvarint("records", &r.n)
	codeCount(f, "attempt", &r.Attempt, codec.Range{Max: 1 << 40})
	if f.Checking() && (r.n == 0 || r.Offset == 0 || r.Offset > math.MaxUint64-r.n) {
		f.Refuse(engine.Errorf(ErrInvalid, "stream: invalid run of %d records at offset %d", r.n, r.Offset))
	}
}

// token returns the JSON form of a run: partition-offset-attempt, then the number of records unless
// it is 1, and @ and the generation if it is given.
func (r *refRun) token() string {
	text := strconv.Itoa(r.Partition) + "-" + strconv.FormatUint(r.Offset, 10) + "-" + strconv.Itoa(r.Attempt)
	if r.n != 1 {
		text += "-" + strconv.FormatUint(r.n, 10)
	}
	if r.Generation != 0 {
		text += "@" + strconv.FormatUint(r.Generation, 10)
	}
	return text
}

func parseRun(text string) (refRun, error) {
	numbers := [...]uint64{0, 0, 0, 1}
	run, generation, given := strings.Cut(text, "@")
	parts := strings.Split(run, "-")
	ok := len(parts) == 3 || len(parts) == 4
	for i := 0; ok && i < len(parts); i++ {
		var err error
		numbers[i], err = strconv.ParseUint(parts[i], 10, 64)
		ok = err == nil
	}
	r := refRun{Ref{Partition: int(numbers[0]), Offset: numbers[1], Attempt: int(numbers[2])}, numbers[3]}
	if given {
		var err error
		r.Generation, err = strconv.ParseUint(generation, 10, 64)
		ok = ok && err == nil
	}
	if !ok {
		return refRun{}, engine.Errorf(ErrInvalid, "stream: ref %q is not of the form <partition>-<offset>-<attempt>", text)
	}
	return r, nil
}

// name adds deliveries.
func (b *refsBody) name(refs []Ref) error {
	if err := checkOnce(refs); err != nil {
		return err
	}
	for _, r := range refs {
		if n := len(b.runs); n > 0 {
			last := &b.runs[n-1]
			next := last.Ref
			if next.Offset += last.n; next == r {
				last.n++
				continue
			}
		}
		b.runs = append(b.runs, refRun{r, 1})
	}
	return nil
}

// checkOnce returns an error for a duplicate delivery. Two deliveries of one record are allowed,
// because one of them may be late. Refs are usually sorted, so that case is checked first.
func checkOnce(refs []Ref) error {
	order := func(a, b Ref) int {
		return cmp.Or(a.compare(b), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Generation, b.Generation))
	}
	if slices.IsSortedFunc(refs, func(a, b Ref) int { return cmp.Or(order(a, b), -1) }) {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(refs), order)
	for i := 1; i < len(sorted); i++ {
		if r := sorted[i]; r == sorted[i-1] {
			return engine.Errorf(ErrInvalid, "stream: duplicate ref: record %d of partition %d, attempt %d", r.Offset, r.Partition,
				r.Attempt)
		}
	}
	return nil
}

// ackBody acknowledges records.
type ackBody struct {
	refsBody
	strict bool
}

func (b *ackBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	f.Bool("strict", &b.strict)
	b.codeRefs(f)
}

func (b *ackBody) reset() { *b = ackBody{refsBody: refsBody{runs: b.runs[:0]}} }

func ackOp(at groupAddress, refs []Ref, strict bool) engine.Op {
	return ack.Make(at.stream, func(b *ackBody) error {
		b.groupTarget, b.strict = at.groupTarget, strict
		return b.name(refs)
	})
}

// AckOp is Ack as an operation of a transaction. Unlike Ack it fails with a *ConflictError, and
// aborts the transaction, if a Ref is not the current delivery of a pending record. So the
// transaction takes effect once for each record.
func AckOp(stream, group string, refs ...Ref) OpOf[int] {
	return opOf[int](ackOp(groupAddressOf(stream, group), refs, true))
}

// nackBody returns records to the group.
type nackBody struct {
	refsBody
	delay  int64 // ms, byBackoff or toDLQ
	reason []byte
}

func (b *nackBody) code(f *codec.Fields) {
	if f.Parsing() {
		b.delay = byBackoff
	}
	b.groupTarget.code(f)
	b.codeDelay(f)
	f.Bytes("reason", &b.reason, codec.Range{Max: maxReasonBytes})
	b.codeRefs(f)
}

// codeDelay codes the delay. A command has its difference from toDLQ, which is not negative.
func (b *nackBody) codeDelay(f *codec.Fields) {
	wrong := func() {
		f.Refuse(engine.Errorf(ErrInvalid, "stream: delay of %d ms is not in 0-%d", b.delay, maxGroupMillis))
	}
	switch bury := b.delay == toDLQ; {
	case f.Binary() != nil:
		n := b.delay - toDLQ
		f.Count("delay_ms", &n)
		b.delay = n + toDLQ
	case f.Checking():
		if b.delay < toDLQ || b.delay > maxGroupMillis {
			wrong()
		}
	default:
		if f.Given("delay_ms", b.delay >= 0) {
			if f.Millis("delay_ms", &b.delay, codec.Range{Max: maxGroupMillis}); b.delay < 0 {
				wrong()
			}
		}
		if f.Bool("to_dlq", &bury); bury && b.delay >= 0 {
			f.Refuse(errDelayAndDLQ)
		} else if bury {
			b.delay = toDLQ
		}
	}
}

func nackOp(at groupAddress, refs []Ref, o nackOptions) engine.Op {
	return nack.Make(at.stream, func(b *nackBody) error {
		b.groupTarget, b.delay, b.reason = at.groupTarget, o.delay, []byte(o.reason)
		return firstError(o.err, b.name(refs))
	})
}

// NackOp is Nack as an operation of a transaction. It returns the number of records.
func NackOp(stream, group string, refs []Ref, opts ...NackOption) OpOf[int] {
	return opOf[int](nackOp(groupAddressOf(stream, group), refs, nackOptionsOf(opts)))
}

// Extended is the result of ExtendMany.
type Extended struct {
	Records int       // number of records that were pending at a consumer
	Until   time.Time // their new deadline; in a spread namespace the earliest of all shards
}

func (e *Extended) code(f *codec.Fields) {
	codeRecords(&e.Records, f)
	if f.More(!e.Until.IsZero()) {
		f.Moment("until_ms", &e.Until)
	}
}

// add returns the sum of the results of two shards.
func (e Extended) add(o Extended) Extended {
	e.Records += o.Records
	if e.Until.IsZero() || !o.Until.IsZero() && o.Until.Before(e.Until) {
		e.Until = o.Until
	}
	return e
}

// extendBody extends leases.
type extendBody struct {
	refsBody
	lease int64 // ms
}

func (b *extendBody) code(f *codec.Fields) {
	b.groupTarget.code(f)
	f.Millis("lease_ms", &b.lease, codec.Range{Min: 1, Max: maxGroupMillis})
	b.codeRefs(f)
}

func extendOp(at groupAddress, d time.Duration, refs []Ref) engine.Op {
	return extend.Make(at.stream, func(b *extendBody) error {
		b.groupTarget, b.lease = at.groupTarget, millis(d)
		if d < time.Millisecond || d > maxGroupTime {
			return engine.Errorf(ErrInvalid, "stream: extension of %v is not in 1ms-%v", d, maxGroupTime)
		}
		return b.name(refs)
	})
}

// ExtendOp is ExtendMany as an operation of a transaction.
func ExtendOp(stream, group string, refs []Ref, d time.Duration) OpOf[Extended] {
	return opOf[Extended](extendOp(groupAddressOf(stream, group), d, refs))
}

// codeRecords codes the number of records that a command affected.
func codeRecords(n *int, f *codec.Fields) { f.Int("records", n) }
