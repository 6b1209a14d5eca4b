package ts

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Kinds of queries; the numbers are part of the protocol between processes.
const (
	queryResolve uint8 = iota + 1
	queryMeasurement
	queryMeasurements
	querySeries
	queryRead
	queryAggregate
	queryTags
	queryLast
)

// answerer is a query of this package that can answer itself.
type answerer interface {
	engine.Query
	answer(v *engine.View) error
}

// queryRow declares a kind of query.
func queryRow[Q any, P interface {
	*Q
	answerer
}](kind uint8, name string) engine.QueryType {
	return engine.QueryRow[*machine, Q, P](kind, name, func(_ *machine, v *engine.View, q P) error { return q.answer(v) })
}

// maxResolve is the maximum number of series per query.
const maxResolve = 4096

// resolveQuery queries the numbers of series of measurements, by the hashes of their tags.
type resolveQuery struct {
	namespace string
	wanted    []wanted

	found  []resolved // result, parallel to wanted
	room   int64      // result: for new series in the shard
	limit  int64      // result
	spread bool       // result
}

type wanted struct {
	measurement string
	hashes      [][hashLen]byte
}

type resolved struct {
	inc   incarnation // 0: the measurement does not exist
	ids   []uint64    // for each hash, the number of the series plus one, 0 if it does not exist
	worst LimitError  // tag and number of values, if there is no room
}

// Machine returns engine.MachineTS.
func (*resolveQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*resolveQuery) Kind() uint8 { return queryResolve }

// Arguments codes the arguments of the query.
func (q *resolveQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	total := 0
	codec.ListOf(f, "wanted", &q.wanted, func(w *wanted, f *codec.Fields) {
		f.Text("measurement", &w.measurement)
		codec.ListOf(f, "hashes", &w.hashes, codeHash)
		if total += len(w.hashes); f.Checking() && total > maxResolve {
			f.Refuse(engine.Errorf(ErrInvalid, "ts: lookup of more than %d series", maxResolve))
		}
	})
}

func codeHash(h *[hashLen]byte, f *codec.Fields) { f.Hex("", h[:]) }

// Results codes the results.
func (q *resolveQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "found", &q.found, func(r *resolved, f *codec.Fields) {
		f.Uvarint("incarnation", (*uint64)(&r.inc))
		codec.ListOf(f, "ids", &r.ids, func(id *uint64, f *codec.Fields) { f.Uvarint("", id) })
		if c := f.Binary(); c != nil {
			codeLimit(c, &r.worst)
			return
		}
		f.Text("worst_tag", &r.worst.Tag)
		f.Varint("worst_values", &r.worst.Values)
	})
	f.Varint("room", &q.room)
	f.Varint("limit", &q.limit)
	f.Bool("spread", &q.spread)
}

func (q *resolveQuery) answer(v *engine.View) error {
	v.Freeze()
	q.found = make([]resolved, len(q.wanted))
	q.limit = DefaultSeriesLimit
	if q.spread = v.Spread(q.namespace); q.spread {
		q.limit /= int64(v.Shards())
	}
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		q.room = q.limit
		return nil
	}
	if err := q.findRoom(v, ns); err != nil {
		return err
	}
	for i := range q.wanted {
		if err := q.resolve(v, ns, &q.wanted[i], &q.found[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *resolveQuery) findRoom(v *engine.View, ns uint32) error {
	l := limitRow{limit: DefaultSeriesLimit}
	b, ok, err := v.Get(limitKey(nil, ns))
	if err != nil {
		return err
	}
	if ok {
		if l, err = decodeLimit(b); err != nil {
			return err
		}
	}
	q.limit = l.share(v.Spread(q.namespace), v.Shards())
	n, err := v.Counted(q.namespace, countSeries)
	q.room = max(q.limit-n, 0)
	return err
}

func (q *resolveQuery) resolve(v *engine.View, ns uint32, w *wanted, r *resolved) error {
	r.ids = make([]uint64, len(w.hashes))
	inc, ok, err := incarnationNow(v, ns, w.measurement)
	if err != nil || !ok {
		return err
	}
	r.inc = inc
	missing := false
	for i, hash := range w.hashes {
		b, ok, err := v.Get(hashKey(nil, inc, hash))
		if err != nil {
			return err
		}
		if missing = missing || !ok; !ok {
			continue
		}
		id, err := decodeCount(b)
		if err != nil {
			return err
		}
		// A series being retired must be defined again.
		if _, retiring, err := v.Get(seriesKey(nil, rowRetiring, inc, seriesID(id))); err != nil {
			return err
		} else if !retiring {
			r.ids[i] = id + 1
		}
	}
	if !missing || q.room >= maxResolve {
		return nil
	}
	prefix := incKey(nil, rowTag, inc)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	r.worst.Tag, r.worst.Values = worstTag(it)
	return it.Close()
}

// incarnationNow returns the current incarnation of a measurement, or false if it does not exist.
func incarnationNow(v *engine.View, ns uint32, name string) (incarnation, bool, error) {
	b, ok, err := v.Get(nameKey(nil, rowName, ns, name))
	if err != nil || !ok {
		return 0, false, err
	}
	n, err := decodeCount(b)
	return incarnation(n), err == nil, err
}
