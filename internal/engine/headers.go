package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/rawjson"
)

// MaxHeaderBytes is the maximum total size of the names and values of a message's headers.
const MaxHeaderBytes = 64 << 10

// CheckHeaders returns ErrInvalid if headers are not valid for a message. The error's text begins
// with who, such as "queue".
func CheckHeaders(who string, headers map[string]string) error {
	return checkPairs(who, "header", headers)
}

// CheckLabels is CheckHeaders for labels.
func CheckLabels(who string, labels map[string]string) error { return checkPairs(who, "label", labels) }

func checkPairs(who, what string, pairs map[string]string) error {
	for name := range pairs {
		if err := CheckName(what, name); err != nil {
			return err
		}
	}
	if size := HeaderBytes(pairs); size > MaxHeaderBytes {
		return Errorf(ErrInvalid, "%s: %ss of %d bytes exceed %d", who, what, size, MaxHeaderBytes)
	}
	return nil
}

// HeaderBytes returns the total length of names and values, as counted for the limits of headers
// and labels.
func HeaderBytes(headers map[string]string) (size int) {
	for name, value := range headers {
		size += len(name) + len(value)
	}
	return size
}

// AppendHeaders appends name and value (each uvarint length, bytes) of each header, in order of
// names.
func AppendHeaders(dst []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return dst
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		dst = codec.AppendString(codec.AppendString(dst, name), headers[name])
	}
	return dst
}

// DecodeHeaders decodes the output of AppendHeaders for headers that CheckHeaders accepts, and
// rejects anything else. No bytes are nil.
func DecodeHeaders(b []byte) (map[string]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := codec.NewReader(b)
	headers, last := make(map[string]string), ""
	for r.Len() > 0 {
		name, value := r.String(), r.String()
		if r.Err() == nil && name <= last {
			return nil, Errorf(ErrInvalid, "header %q is behind %q", name, last)
		}
		headers[name], last = value, name
	}
	if err := r.Done(); err != nil {
		return nil, Errorf(ErrInvalid, "headers: %v", err)
	}
	return headers, CheckHeaders("message", headers)
}

// CodeHeaders codes headers in their encoded form: bytes in a record, an object of strings in JSON.
func CodeHeaders(f *codec.Fields, b *[]byte) {
	switch {
	case f.Binary() != nil:
		f.Bytes("headers", b)
		return
	case f.Checking():
		_, err := DecodeHeaders(*b)
		f.Refuse(err)
		return
	}
	codec.OnCopy(f, b, func(b *[]byte) { CodePairs(f, "headers", b) })
}

// CodePairs codes encoded headers or labels as an object of strings in JSON. Callers handle Binary
// and Checking first.
func CodePairs(f *codec.Fields, name string, b *[]byte) {
	f.Custom(name, codec.Custom{
		Type: codec.ObjectType,
		Show: func(dst []byte) []byte {
			dst = append(dst, '{')
			for r := codec.NewReader(*b); r.Len() > 0; {
				if dst[len(dst)-1] != '{' {
					dst = append(dst, ',')
				}
				dst = append(rawjson.AppendText(dst, r.String()), ':')
				dst = rawjson.AppendText(dst, r.String())
			}
			return append(dst, '}')
		},
		Parse: func(value []byte) error {
			headers := make(map[string]string)
			var err error
			if !rawjson.EachMember(value, func(key, value []byte) bool {
				name, _ := rawjson.Text(key)
				text, ok := rawjson.Text(value)
				switch _, twice := headers[name]; {
				case name == "":
					err = errors.New("a name is empty")
				case !ok || twice:
					err = fmt.Errorf("%q is repeated or not a string", name)
				}
				headers[name] = text
				return err == nil
			}) {
				return errors.New("want an object of strings")
			}
			*b = AppendHeaders(nil, headers)
			return err
		},
	})
}

// CodePairMap codes decoded headers or labels: in their encoded form in a record, and as an object
// of strings in JSON, which omits an empty one.
func CodePairMap(f *codec.Fields, name string, pairs *map[string]string) {
	if f.Checking() {
		return
	}
	b := AppendHeaders(nil, *pairs)
	if c := f.Binary(); c != nil {
		if c.Bytes(&b); !c.Reading() {
			return
		}
		var err error
		if *pairs, err = DecodeHeaders(b); err != nil {
			c.Fail(err.Error())
		}
		return
	}
	if f.Given(name, len(b) > 0) {
		if CodePairs(f, name, &b); f.Parsing() {
			var err error
			*pairs, err = DecodeHeaders(b)
			f.Refuse(err)
		}
	}
}
