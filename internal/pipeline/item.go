package pipeline

import (
	"errors"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// item is a record that is passing through the operators.
type item struct {
	Record
	from int32 // index in its batch; -1 for a record made by an operator, such as a window's
	late bool  // skips further operators and goes to the sinks that match the tag for late records
}

// jsonState records whether a value is JSON. It is determined on first use.
type jsonState uint8

const (
	jsonUnknown jsonState = iota
	jsonValid
	jsonInvalid
)

var errNoJSON = errors.New("the value is no JSON")

// JSON returns the value. It fails if the value is not JSON.
func (it *item) JSON() (string, error) {
	if it.json == jsonUnknown {
		it.json = jsonInvalid
		if rawjson.Valid(it.Value) {
			it.json = jsonValid
		}
	}
	if it.json == jsonInvalid {
		return "", errNoJSON
	}
	return stringOf(it.Value), nil
}

// RecordKey returns the key.
func (it *item) RecordKey() string { return stringOf(it.Key) }

// Time returns the event time.
func (it *item) Time() int64 { return it.EventTime }

// Header returns a header.
func (it *item) Header(name string) (string, bool) {
	for i := range it.Headers {
		if it.Headers[i].Name == name {
			return it.Headers[i].Value, true
		}
	}
	return "", false
}

// at returns the part of the value at a path, or nothing if the value is not JSON.
func (it *item) at(p *expression.Path) gjson.Result {
	json, err := it.JSON()
	if err != nil {
		return gjson.Result{}
	}
	return p.Of(json)
}

// paidAt is at with a cost limit, because a definition may have a thousand paths. It fails if the
// total work on the record takes too long.
func (it *item) paidAt(p *expression.Path, m *expression.Meter) (gjson.Result, error) {
	if err := m.Pay(len(it.Value)); err != nil {
		return gjson.Result{}, err
	}
	return it.at(p), nil
}

// set replaces the record's value with a JSON value.
func (it *item) set(value []byte) { it.Value, it.json = value, jsonValid }

// textOf returns a part of a value as text: the content of a string, other values as written. ok is
// false if it is missing or null.
func textOf(r gjson.Result) (string, bool) {
	switch r.Type {
	case gjson.Null:
		return "", false
	case gjson.String:
		return r.Str, true
	}
	return r.Raw, true
}

// stringOf and bytesOf return views. They are safe because the bytes of records never change.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
