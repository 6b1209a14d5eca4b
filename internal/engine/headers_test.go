package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

func TestCheckHeaders(t *testing.T) {
	most := strings.Repeat("v", engine.MaxHeaderBytes-2)
	for name, c := range map[string]struct {
		headers map[string]string
		want    string
	}{
		"none":       {nil, "<nil>"},
		"most":       {map[string]string{"a": most[1:], "bc": ""}, "<nil>"},
		"too many":   {map[string]string{"a": most, "bc": ""}, "queue: headers of 65537 bytes exceed 65536"},
		"empty name": {map[string]string{"": "v"}, "header name is empty"},
		"bad name":   {map[string]string{"a": "v", "b\n": "v"}, `header name "b\n" holds the control character U+000A`},
	} {
		expect(t, name, engine.CheckHeaders("queue", c.headers), c.want)
		labels := strings.NewReplacer("header", "label", "queue", "action").Replace(c.want)
		err := engine.CheckLabels("action", c.headers)
		expect(t, name+", labels", err, labels)
		if err != nil && !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v is not ErrInvalid", name, err)
		}
	}
	expect(t, "bytes", engine.HeaderBytes(map[string]string{"a": "12", "bcd": "3456"}), 10)
}

func TestHeadersAreEncoded(t *testing.T) {
	headers := map[string]string{"b": "2", "a": "", "c": "\x00x"}
	const encoded = "\x01a\x00\x01b\x012\x01c\x02\x00x"
	expect(t, "encoded", fmt.Sprintf("%q", engine.AppendHeaders([]byte("_"), headers)), fmt.Sprintf("%q", "_"+encoded))
	if got := engine.AppendHeaders(nil, map[string]string{}); got != nil {
		t.Errorf("no headers are encoded as %q, want nil", got)
	}
	if got, err := engine.DecodeHeaders(nil); got != nil || err != nil {
		t.Errorf("no bytes are %v, %v", got, err)
	}
	if got, err := engine.DecodeHeaders([]byte(encoded)); err != nil || !maps.Equal(got, headers) {
		t.Errorf("decoded as %q, %v", got, err)
	}
	for b, want := range map[string]string{
		"\x01b\x00\x01a\x00": `header "a" is behind "b"`,
		"\x01a\x00\x01a\x00": `header "a" is behind "a"`,
		"\x00\x00":           `header "" is behind ""`,
		"\x01\n\x00":         `header name "\n" holds the control character U+000A`,
		"\x01b":              "headers: malformed record: bad varint",
		"\x01b\x02x":         "headers: malformed record: length beyond the end",
		"\x01":               "headers: malformed record: length beyond the end",
	} {
		_, err := engine.DecodeHeaders([]byte(b))
		if expect(t, fmt.Sprintf("%q", b), err, want); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", b, err)
		}
	}
}

// TestHeaderFields: headers are bytes in a record, and an object of strings in JSON.
func TestHeaderFields(t *testing.T) {
	type record struct {
		encoded []byte
		decoded map[string]string
	}
	fields := map[string]func(r *record, f *codec.Fields){
		"encoded": func(r *record, f *codec.Fields) { engine.CodeHeaders(f, &r.encoded) },
		"decoded": func(r *record, f *codec.Fields) { engine.CodePairMap(f, "headers", &r.decoded) },
	}
	headers := map[string]string{"b\"": "2", "a": ""}
	full := record{engine.AppendHeaders(nil, headers), headers}
	is := func(r record, want map[string]string) bool {
		return maps.Equal(r.decoded, want) || bytes.Equal(r.encoded, engine.AppendHeaders(nil, want)) && r.encoded != nil
	}
	for name, code := range fields {
		binary := codec.EncodeFields(nil, &full, code)
		present := map[string][]byte{"decoded": {1}}[name] // a flag
		if want := codec.AppendBytes(present, full.encoded); !bytes.Equal(binary, want) {
			t.Errorf("%s: %q in binary form, want %q", name, binary, want)
		}
		var back record
		if err := codec.DecodeFields(binary, &back, code); err != nil || !is(back, headers) {
			t.Errorf("%s: read as %q, %v", name, back, err)
		}
		expect(t, name+", check", codec.CheckFields(&full, true, code), "<nil>")
		expect(t, name+", check of none", codec.CheckFields(&record{}, true, code), "<nil>")
		show := func(r record) string {
			b, _ := codec.AppendJSON(nil, false, func(f *codec.Fields) { code(&r, f) })
			return string(b)
		}
		expect(t, name+", shown", show(full), `{"headers":{"a":"","b\"":"2"}}`)
		none := map[string]string{"encoded": `{"headers":{}}`, "decoded": `{}`}[name]
		expect(t, name+", none shown", show(record{}), none)
		for src, want := range map[string]string{
			`{"headers":{"a":"","b\"":"2"}}`: "<nil>",
			`{"headers":{"b\"":"2","a":""}}`: "<nil>",
			`{"headers":{"a":"","a":""}}`:    `field "headers": "a" is repeated or not a string`,
			`{"headers":{"a":1}}`:            `field "headers": "a" is repeated or not a string`,
			`{"headers":{"":"x"}}`:           `field "headers": a name is empty`,
			`{"headers":{"":"x","a":""}}`:    `field "headers": a name is empty`,
			`{"headers":["a"]}`:              `field "headers": want an object of strings`,
		} {
			var r record
			err := codec.ReadJSON([]byte(src), false, func(f *codec.Fields) { code(&r, f) })
			expect(t, name+" "+src, err, want)
			if err == nil && !is(r, headers) {
				t.Errorf("%s: %s is read as %q", name, src, r)
			}
		}
		kept := record{full.encoded, headers}
		if err := codec.ReadJSON([]byte(`{}`), false, func(f *codec.Fields) { code(&kept, f) }); err != nil || !is(kept, headers) {
			t.Errorf("%s: without the field: %q, %v", name, kept, err)
		}
	}
	bad := record{encoded: []byte("\x01b\x00\x01a\x00")}
	expect(t, "check of bad headers", codec.CheckFields(&bad, true, fields["encoded"]), `header "a" is behind "b"`)
	expect(t, "check of a byte", codec.CheckFields(&record{encoded: []byte{1}}, true, fields["encoded"]),
		"headers: malformed record: length beyond the end")
	err := codec.DecodeFields(codec.AppendBytes([]byte{1}, bad.encoded), &record{}, fields["decoded"])
	expect(t, "bad headers", err, `malformed record: header "a" is behind "b"`)
	err = codec.ReadJSON([]byte(`{"headers":{"a\n":""}}`), false, func(f *codec.Fields) { fields["decoded"](&record{}, f) })
	expect(t, "bad name in JSON", err, `header name "a\n" holds the control character U+000A`)
}
