package points

import (
	"iter"
	"math"
	"sort"
)

// Chunk is an encoded part of an Encoder's points, with all fields.
type Chunk struct {
	Series   uint32 // of its first point
	Time     int64  // of that point; if the series spans several chunks, an earlier chunk has its earlier points
	Last     uint32 // series of its last point
	From, To int64  // minimum and maximum time
	Points   int
	Data     []byte // the encoding, valid until the next chunk
}

// maxChunkPoints bounds the work between two checks for cancellation, and the points that a query
// of a single series skips.
const maxChunkPoints = 1 << 18

// Chunks returns all points, by series and time, as encodings of up to about size bytes each. If a
// series begins in the last quarter of a chunk, the next chunk begins with it. A chunk exceeds size
// only if size has no room for a point of each field.
func (e *Encoder) Chunks(size int) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		e.sort()
		var data []byte
		perPoint := 2.0 // bytes, estimated from the previous chunk
		for from := front; from != behind; {
			var to mark
			want := float64(size) * 0.95 / perPoint
			for {
				to = e.cut(from, int(min(want, maxChunkPoints)))
				data = e.encode(data[:0], from, to)
				if len(data) <= size || want < 1 {
					break
				}
				want = min(want/2, want*0.95*float64(size)/float64(len(data)))
			}
			p := e.chunk(from, to)
			if p.Points == 0 {
				return
			}
			p.Data = data
			perPoint = float64(len(data)) / float64(p.Points)
			if !yield(p) {
				return
			}
			from = to
		}
	}
}

// mark is a position in the order of series and time, which all fields share.
type mark struct {
	series uint32
	time   int64
}

func (m mark) before(o mark) bool {
	return m.series < o.series || m.series == o.series && m.time < o.time
}

var (
	front  = mark{0, math.MinInt64}
	behind = mark{math.MaxUint32, math.MaxInt64}
)

// find returns the index of the first point at or after m.
func (b *bucket) find(m mark) int {
	return sort.Search(len(b.points), func(i int) bool {
		p := &b.points[i]
		return p.series > m.series || p.series == m.series && p.time >= m.time
	})
}

func (b *bucket) within(from, to mark) []point {
	first, last := 0, len(b.points)
	if from != front {
		first = b.find(from)
	}
	if to != behind {
		last = b.find(to)
	}
	return b.points[first:last]
}

// cut returns the end of a chunk that begins at a mark and has about n points, of all fields.
func (e *Encoder) cut(from mark, n int) mark {
	var most []point
	total := 0
	for i := range e.used {
		points := e.buckets[i].within(from, behind)
		total += len(points)
		if len(points) > len(most) {
			most = points
		}
	}
	if n >= total {
		return behind
	}
	// The field with the most points must have one in the chunk.
	share := max(1, int(float64(n)*float64(len(most))/float64(total)))
	if share >= len(most) {
		return behind
	}
	p := &most[share]
	start := share
	for start > 0 && start > share-share/4 && most[start-1].series == p.series {
		start--
	}
	if start > 0 && most[start-1].series != p.series {
		return mark{p.series, math.MinInt64}
	}
	return mark{p.series, p.time}
}

// chunk describes the points between two marks.
func (e *Encoder) chunk(from, to mark) Chunk {
	p := Chunk{Series: math.MaxUint32, Time: math.MaxInt64, From: math.MaxInt64, To: math.MinInt64}
	for i := range e.used {
		points := e.buckets[i].within(from, to)
		if len(points) == 0 {
			continue
		}
		first := &points[0]
		if first.series < p.Series || first.series == p.Series && first.time < p.Time {
			p.Series, p.Time = first.series, first.time
		}
		p.Last = max(p.Last, points[len(points)-1].series)
		p.Points += len(points)
		for i := range points {
			p.From, p.To = min(p.From, points[i].time), max(p.To, points[i].time)
		}
	}
	return p
}
