package engine

// freshRows records which rows may have been written since an earlier state of the tables. Any
// other row is in those tables or does not exist, and their bloom filters quickly exclude a missing
// row. Searching a memtable takes several times as long, and the tables of each flush add more
// filters to check. Most written rows are new.
//
// It is a list of bloom filters, each for the writes of a range of entries. A filter is dropped
// when all its rows are in the tables.
type freshRows struct {
	floor   uint64 // index up to which nothing is known: rows written up to now may be anywhere
	filters []*freshFilter
}

// freshFilter is a blocked bloom filter: all bits of a row are in one block of the size of a cache
// line.
type freshFilter struct {
	last   uint64 // index of the latest entry in it
	rows   int
	room   int
	blocks []freshBlock
}

type freshBlock [8]uint64

// Sizes of filters. With 14 bits per row, the false-positive rate is one in a hundred lookups.
const (
	minFreshRows    = 1 << 10
	maxFreshRows    = 1 << 18
	maxFreshFilters = 16 // if there are more, flushing is stuck
	manyFreshRows   = 4 * maxFreshRows
	freshRowBits    = 14
)

// reset forgets everything. The state then holds the entries up to index.
func (f *freshRows) reset(index uint64) { *f = freshRows{floor: index} }

// add records that the entries up to index have written the row with a hash.
func (f *freshRows) add(hash, index uint64) {
	filter := f.open()
	filter.rows++
	filter.last = index
	block, bits := filter.place(hash)
	for range 6 {
		block[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
}

// open returns the filter that has room, or a new one of twice the size if the last one is full.
func (f *freshRows) open() *freshFilter {
	room := minFreshRows
	if n := len(f.filters); n > 0 {
		last := f.filters[n-1]
		if last.rows < last.room {
			return last
		}
		room = min(2*last.room, maxFreshRows)
		if n == maxFreshFilters {
			f.reset(last.last)
		}
	}
	filter := &freshFilter{room: room, blocks: make([]freshBlock, room*freshRowBits/512)}
	f.filters = append(f.filters, filter)
	return filter
}

// place returns the block of a row and six numbers of nine bits.
func (f *freshFilter) place(hash uint64) (block *freshBlock, bits uint64) {
	return &f.blocks[(hash>>32*uint64(len(f.blocks)))>>32], hash * 0x9e3779b97f4a7c15 >> 10
}

// rows returns the number of writes in the filters.
func (f *freshRows) rows() (n int) {
	for _, filter := range f.filters {
		n += filter.rows
	}
	return n
}

// flushed drops the entries up to index, which are in the tables.
func (f *freshRows) flushed(index uint64) {
	keep := f.filters[:0]
	for _, filter := range f.filters {
		if filter.last > index {
			keep = append(keep, filter)
		}
	}
	clear(f.filters[len(keep):])
	f.filters = keep
}

// may reports whether the row may have been written by an entry after durable, the last that is in
// the tables.
func (f *freshRows) may(hash, durable uint64) bool {
	if durable < f.floor {
		return true
	}
	for _, filter := range f.filters {
		if filter.has(hash) {
			return true
		}
	}
	return false
}

func (f *freshFilter) has(hash uint64) bool {
	block, bits := f.place(hash)
	for range 6 {
		if block[bits>>6&7]&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}
