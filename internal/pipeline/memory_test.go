package pipeline

import (
	"slices"
	"strings"
)

// memory is a State in memory.
type memory struct {
	keys  []string // sorted
	rows  map[string][]byte
	read  int // rows that have been read
	scans int
}

func newMemory() *memory { return &memory{rows: make(map[string][]byte)} }

func (m *memory) Get(k []byte) ([]byte, error) {
	m.read++
	return m.rows[string(k)], nil
}

func (m *memory) Put(k, v []byte) {
	if _, there := m.rows[string(k)]; !there {
		i, _ := slices.BinarySearch(m.keys, string(k))
		m.keys = slices.Insert(m.keys, i, string(k))
	}
	m.rows[string(k)] = append([]byte{}, v...)
}

func (m *memory) Delete(k []byte) {
	if _, there := m.rows[string(k)]; there {
		i, _ := slices.BinarySearch(m.keys, string(k))
		m.keys = slices.Delete(m.keys, i, i+1)
		delete(m.rows, string(k))
	}
}

func (m *memory) between(lower, upper []byte) (i, j int) {
	i, _ = slices.BinarySearch(m.keys, string(lower))
	j, _ = slices.BinarySearch(m.keys, string(upper))
	return i, max(i, j)
}

func (m *memory) DeleteRange(lower, upper []byte) {
	i, j := m.between(lower, upper)
	for _, k := range m.keys[i:j] {
		delete(m.rows, k)
	}
	m.keys = slices.Delete(m.keys, i, j)
}

func (m *memory) Scan(lower, upper []byte, f func(k, v []byte) bool) error {
	i, j := m.between(lower, upper)
	m.scans++
	for _, k := range m.keys[i:j] {
		m.read++
		if !f([]byte(k), slices.Clone(m.rows[k])) {
			break
		}
	}
	return nil
}

// String shows all rows.
func (m *memory) String() string {
	var b strings.Builder
	for _, k := range m.keys {
		b.WriteString(k + "=" + string(m.rows[k]) + "\n")
	}
	return b.String()
}
