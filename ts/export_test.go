package ts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
	"github.com/floedb/floe/internal/test/machinetest"
)

// Internals for the tests, which otherwise are users of the package.

// LastPage is the number of series in a page of Last.
const LastPage = lastPage

// NumKinds is the highest command kind.
var NumKinds = uint8(len(table().Commands))

// NewCramped returns a machine whose shard accepts the given number of unsealed bytes.
func NewCramped(bytes int64) engine.Machine {
	m := newMachine().(*machine)
	m.unsealedBound = bytes
	return m
}

// DecodeBody decodes a command's body and returns the error, if any.
func DecodeBody(kind uint8, b []byte) error {
	_, err := commands.NewCalls().Read(engine.Command{Kind: kind, Body: b})
	return err
}

// Recode decodes a row and encodes it again; ok is false if it does not decode.
func Recode(kind byte, b []byte) (again []byte, ok bool) {
	switch kind {
	case rowMeasurement:
		r, err := decodeMeasurement(b)
		return r.encode(nil), err == nil
	case rowContent:
		r, err := decodeContent(b)
		return r.encode(nil), err == nil
	case rowPolicy:
		r, err := decodePolicy(b)
		return r.encode(nil), err == nil
	case rowLimit:
		r, err := decodeLimit(b)
		return encode(nil, &r, (*limitRow).code), err == nil
	case rowSeries:
		r, err := decodeSeries(b)
		return r.encode(nil), err == nil
	case rowTag:
		r, err := decodeTag(b)
		return encode(nil, &r, (*tagRow).code), err == nil
	case rowBlock:
		r, err := decodeBlock(b)
		return r.encode(nil), err == nil
	case rowChunk:
		r, err := decodeChunk(b)
		return r.encode(nil), err == nil
	case rowPartition:
		r, err := decodePartition(b)
		return encode(nil, &r, (*partitionRow).code), err == nil
	case rowErased:
		r, err := decodeErasure(b)
		return encode(nil, &r, (*erasure).code), err == nil
	case rowDirty:
		r, err := decodeDirty(b)
		return r.encode(nil), err == nil
	case rowHash, rowValue, rowName, rowUnsealed, rowDeleted, rowRetiring:
		n, err := decodeCount(b)
		return encodeCount(nil, n), err == nil
	}
	return nil, false
}

// DamagedValues returns damaged values of a row: one that does not decode, and for points those
// whose directory or points do not decode.
func DamagedValues(row machinetest.Row) (all [][]byte) {
	value := row.Value
	if len(value) == 0 {
		return nil
	}
	all = append(all, value[:len(value)-1])
	start := 0 // of the points
	switch row.Key[0] {
	case rowChunk:
		start = len(value) - len(must(decodeChunk(value)).data)
	case rowBlock:
		start = len(value) - len(must(decodeBlock(value)).points)
	default:
		return all
	}
	for i := start; i < len(value); i++ {
		damaged := bytes.Clone(value)
		damaged[i] = 0xff
		var rd points.Reader
		var c points.Cursor
		err := rd.Open(damaged[start:])
		if i == start {
			all = append(all, damaged)
		} else if err == nil {
			if _, err := rd.Runs(rd.Fields(nil)[0], &c); err != nil {
				return append(all, damaged)
			}
		}
	}
	return all
}

// Unknown returns what hints of a query are made from.
func Unknown(ctx context.Context, s *Store, sel floql.Selection) (any, error) {
	return source{store: s}.Unknown(ctx, sel)
}

// Row kinds, for tests that count or damage rows.
const (
	RowBlock     = rowBlock
	RowHash      = rowHash
	RowLimit     = rowLimit
	RowChunk     = rowChunk
	RowSeries    = rowSeries
	RowPartition = rowPartition
)

// At is the position of a value.
type At struct {
	Measurement, Tags, Field string
	Time                     int64
}

// Contents reads all values from the rows of a shard, as the layout defines: blocks before pages,
// later generations before earlier ones. It is independent of the query code.
func Contents(r *machinetest.Rig, shard engine.ShardID, tier uint16, col uint8) map[At]float64 {
	type stored struct {
		inc        incarnation
		id         seriesID
		field      fieldID
		time       int64
		value      float64
		generation uint64
		order      int
	}
	var all []stored
	measurements := make(map[incarnation]measurement)
	series := make(map[incarnation]map[seriesID]tagList)
	decodeAll := func(data []byte, f func(s uint32, field uint16, at int64, v float64)) {
		var rd points.Reader
		var c points.Cursor
		must(0, rd.Open(data))
		for _, field := range rd.Fields(nil) {
			must(rd.Runs(field, &c))
			for c.Next() {
				times, values := c.Read()
				for i := range times {
					f(c.Series(), field, times[i], values[i])
				}
			}
		}
	}
	for n, row := range r.Rows(shard) {
		if row.Machine != engine.MachineTS {
			continue
		}
		k := row.Key
		switch k[0] {
		case rowMeasurement:
			measurements[incarnationOf(k)] = must(decodeMeasurement(row.Value))
		case rowSeries:
			if series[incarnationOf(k)] == nil {
				series[incarnationOf(k)] = make(map[seriesID]tagList)
			}
			series[incarnationOf(k)][seriesOf(k)] = must(decodeSeries(row.Value)).tags
		case rowBlock:
			if tier != 0 {
				continue
			}
			b := must(decodeBlock(row.Value))
			decodeAll(b.points, func(s uint32, field uint16, at int64, v float64) {
				all = append(all, stored{incarnationOf(k), b.ids[s], b.fields[field], at, v, 1<<63 + blockLSN(k), n})
			})
		case rowChunk:
			if uint16(tierOf(k)) != tier || uint8(chunkColumnOf(k)) != col {
				continue
			}
			p := must(decodeChunk(row.Value))
			decodeAll(p.data, func(s uint32, field uint16, at int64, v float64) {
				if fieldID(field) != chunkFieldOf(k) {
					panic(fmt.Sprintf("field %d in a chunk of field %d", field, chunkFieldOf(k)))
				}
				all = append(all, stored{incarnationOf(k), seriesID(s), fieldID(field), at, v, generationOf(k), n})
			})
		}
	}
	slices.SortStableFunc(all, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.order, b.order))
	})
	found := make(map[At]float64)
	for _, s := range all {
		tags, ok := series[s.inc][s.id]
		if !ok {
			continue
		}
		m := measurements[s.inc]
		var text bytes.Buffer
		for _, t := range tags {
			fmt.Fprintf(&text, "%s=%s;", t.name, t.value)
		}
		found[At{m.name, text.String(), m.fields[s.field].name, s.time}] = s.value
	}
	return found
}

// CountRows returns the number of a shard's rows of a kind, and their total bytes.
func CountRows(r *machinetest.Rig, shard engine.ShardID, kind byte) (rows, bytes int) {
	for _, row := range r.Rows(shard) {
		if row.Machine == engine.MachineTS && row.Key[0] == kind {
			rows, bytes = rows+1, bytes+len(row.Key)+len(row.Value)
		}
	}
	return rows, bytes
}

// CountErased returns the number of deletions of time ranges that a shard has not purged.
func CountErased(r *machinetest.Rig, shard int) int {
	n, _ := CountRows(r, engine.ShardID(shard), rowErased)
	return n
}
