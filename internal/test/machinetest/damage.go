package machinetest

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/datadriven"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// RowKind identifies the rows of a kind and defines how their values are damaged.
type RowKind struct {
	is     func(key []byte) bool
	fields func(value []byte) []damaged // nil: no fields
}

// damaged is a value with one change.
type damaged struct {
	change string
	value  []byte
}

// RowOf returns a kind of rows whose values are coded by a function.
func RowOf[T any](is func(key []byte) bool, code func(*T, *codec.Coder)) RowKind {
	return RowKind{is, fields(code)}
}

// BareRow returns a kind of rows whose values are empty, or have no fields.
func BareRow(is func(key []byte) bool) RowKind { return RowKind{is: is} }

// RunDamages runs a script. Each line is a kind of row, and its answer is the output of Verify for
// each way to damage a row of that kind: each field is changed, the row is removed, copied to the
// next key, and moved to others. Before, each read of Verify fails once. The argument "rows" limits
// the number of damaged rows (default 1). At most three reports per change are written, and of rows
// after the first only new ones.
func RunDamages(t *testing.T, path string, m engine.MachineID, kinds map[string]RowKind, open func(t *testing.T) *Rig) {
	t.Helper()
	r := open(t)
	if found := r.allProblems(); len(found) > 0 {
		t.Fatalf("nothing is damaged yet, and Verify reports %q", found)
	}
	r.EachReadOfVerify()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		kind, ok := kinds[d.Cmd]
		if !ok {
			return "no such kind of rows\n"
		}
		rows := 1
		d.MaybeScanArgs(t, "rows", &rows)
		var (
			b    strings.Builder
			said = make(map[string]bool)
		)
		for shard := range r.Shards() {
			for _, row := range r.Rows(engine.ShardID(shard)) {
				if row.Machine != m || len(row.Key) == 0 || !kind.is(row.Key) {
					continue
				}
				if rows--; rows >= 0 {
					r.damage(&b, said, engine.ShardID(shard), row, kind)
				}
			}
		}
		if b.Len() == 0 {
			return "no rows\n"
		}
		return b.String()
	})
}

// damage writes the reports for each way to damage a row, unless another row has given the same
// ones apart from numbers.
func (r *Rig) damage(b *strings.Builder, said map[string]bool, shard engine.ShardID, row Row, kind RowKind) {
	var silent []string
	before := r.Rows(shard)
	try := func(change string, rows ...Row) {
		for _, row := range rows {
			r.Tamper(shard, row)
		}
		found := r.allProblems()
		for _, row := range rows {
			at := slices.IndexFunc(before, func(o Row) bool { return o.Machine == row.Machine && bytes.Equal(o.Key, row.Key) })
			if row.Value = nil; at >= 0 {
				row.Value = before[at].Value
				if row.Value == nil {
					row.Value = []byte{}
				}
			}
			r.Tamper(shard, row)
		}
		if len(found) == 0 {
			silent = append(silent, change)
			return
		}
		if more := len(found) - maxReports; more > 0 {
			found = append(found[:maxReports], fmt.Sprintf("and %d more", more))
		}
		text := fmt.Sprintf("%s: %s\n", change, strings.Join(found, "\n\t"))
		if like := digits.ReplaceAllString(text, ""); !said[like] {
			said[like] = true
			b.WriteString(text)
		}
	}
	value := row.Value
	if value == nil {
		value = []byte{}
	}
	next := bytes.Clone(row.Key)
	next[len(next)-1]++
	if len(said) == 0 {
		try("removed", Row{row.Machine, row.Key, nil})
		try("copied", Row{row.Machine, next, value})
		try("moved", Row{row.Machine, row.Key, nil}, Row{row.Machine, append(bytes.Clone(row.Key), 0), value})
		try("cut short", Row{row.Machine, row.Key, nil}, Row{row.Machine, row.Key[:1], value})
		try("longer", Row{row.Machine, row.Key, append(bytes.Clone(value), 0)})
	}
	if kind.fields != nil {
		for _, d := range kind.fields(row.Value) {
			try(d.change, Row{row.Machine, row.Key, d.value})
		}
	}
	if text := strings.Join(silent, ", "); text != "" && !said[text] {
		said[text] = true
		fmt.Fprintf(b, "nothing is reported: %s\n", text)
	}
}

// Limits of the output for a change.
const (
	maxReports = 3
	maxReport  = 160 // bytes
)

var (
	address = regexp.MustCompile(`0x[0-9a-f]{8,}`)
	digits  = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)
)

// allProblems returns the reports of Verify for all shards, in order. A panic of Verify counts as a
// report.
func (r *Rig) allProblems() (found []string) {
	defer func() {
		if p := recover(); p != nil {
			found = append(found, fmt.Sprintf("panic: %v", p))
		}
	}()
	for shard := range r.Shards() {
		for _, p := range r.Problems(engine.ShardID(shard)) {
			if !strings.Contains(p, "since the last flush") { // reported by the executor for every row that it has not written
				found = append(found, engine.Cut(address.ReplaceAllString(strings.TrimPrefix(p, "shard 0: "), "0x"), maxReport))
			}
		}
	}
	slices.Sort(found)
	return found
}

// fields returns a function that changes a value at each field in turn. A number is changed by one
// up and down, a text gets longer, and a list loses its last element.
func fields[T any](code func(*T, *codec.Coder)) func(value []byte) []damaged {
	return func(value []byte) (all []damaged) {
		read := func() *T {
			v, c := new(T), codec.NewDecoder(value)
			if code(v, &c); c.Done() != nil {
				panic(fmt.Sprintf("%T does not decode: %v", v, c.Done()))
			}
			return v
		}
		paths := fieldsOf(reflect.ValueOf(read()).Elem(), "")
		for i := range paths {
			for n := range paths[i].changes() {
				v := read()
				f := fieldsOf(reflect.ValueOf(v).Elem(), "")[i]
				change := f.change(n)
				c := codec.NewEncoder(nil)
				code(v, &c)
				if b := c.Encoded(); change != "" && !bytes.Equal(b, value) {
					all = append(all, damaged{f.name + change, b})
				}
			}
		}
		return all
	}
}

// field is a field inside a value.
type field struct {
	name string
	v    reflect.Value
}

// fieldsOf returns the fields of a value, including those of its elements.
func fieldsOf(v reflect.Value, name string) (all []field) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // so that it can be set
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, fieldsOf(v.Field(i), strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."))...)
		}
		return all
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*time.Location]() {
			return nil // all times of the process share it
		}
		if !v.IsNil() {
			return fieldsOf(v.Elem(), name)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			all = append(all, fieldsOf(v.Index(i), fmt.Sprintf("%s[%d]", name, i))...)
		}
	case reflect.Array:
		n := v.Len()
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = 1 // as one field
		}
		for i := range n {
			all = append(all, fieldsOf(v.Index(i), fmt.Sprintf("%s[%d]", name, i))...)
		}
		return all
	}
	return append(all, field{name, v})
}

// changes returns the number of ways to change a field.
func (f field) changes() int {
	if f.v.CanInt() || f.v.CanUint() {
		return 2
	}
	return 1
}

// change changes the field in the given way and describes the change; "" if that is impossible.
func (f field) change(n int) string {
	switch v := f.v; {
	case v.CanInt() && n == 0:
		v.SetInt(v.Int() + 1)
		return "+1"
	case v.CanInt():
		v.SetInt(v.Int() - 1)
		return "-1"
	case v.CanUint() && n == 0:
		v.SetUint(v.Uint() + 1)
		return "+1"
	case v.CanUint() && v.Uint() > 0:
		v.SetUint(v.Uint() - 1)
		return "-1"
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
		return " turned"
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
		return " longer"
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes(append(bytes.Clone(v.Bytes()), 'x'))
		return " longer"
	case v.Kind() == reflect.Slice && v.Len() > 0:
		v.SetLen(v.Len() - 1)
		return " shorter"
	}
	return ""
}
