package dashboard

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floedb/floe/internal/engine"
)

// span is the valid range of an integer.
type span struct {
	absent   int64 // value if it is missing
	min, max int64
}

// pageLimit is the range of limit in a listing.
var pageLimit = span{absent: 100, min: 1, max: 1000}

// parse parses a decimal integer: digits, optionally with a minus, nothing else.
func (s span) parse(text string) (n int64, ok bool) {
	if strings.HasPrefix(text, "+") {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && s.min <= n && n <= s.max
}

// param returns a query parameter, which may occur once. The parameter that continues a listing,
// after, may also be named cursor.
func (in *input) param(name string) (value string, given bool) {
	value, given = in.named(name)
	if name != "after" {
		return value, given
	}
	other, also := in.named("cursor")
	switch {
	case !also:
		return value, given
	case given && value != other:
		in.invalid("parameter after is %.64q, cursor, which means the same, is %.64q", value, other)
	}
	return other, true
}

// called returns the name by which a parameter was given.
func (in *input) called(name string) string {
	if name == "after" && in.query["after"] == nil && in.query["cursor"] != nil {
		return "cursor"
	}
	return name
}

func (in *input) named(name string) (value string, given bool) {
	if !slices.Contains(in.asked, name) {
		in.asked = append(in.asked, name)
	}
	values := in.query[name]
	if len(values) == 0 {
		return "", false
	}
	if len(values) > 1 {
		in.invalid("parameter %s is given %d times, it takes one value", name, len(values))
	}
	return values[0], true
}

// text returns a parameter of any bytes, "" if it is missing.
func (in *input) text(name string) string {
	value, _ := in.param(name)
	return value
}

// nonEmpty returns a parameter of any bytes but none, "" if it is missing. An empty value is an
// error, because the value may have been lost.
func (in *input) nonEmpty(name string) string {
	value, given := in.param(name)
	if given && value == "" {
		in.invalid("parameter %s is empty", name)
	}
	return value
}

// lastName returns the parameter after of a listing by names, "" if it is missing.
func (in *input) lastName() string {
	name := in.text("after")
	if name != "" {
		in.check(engine.CheckName("parameter "+in.called("after")+":", name))
	}
	return name
}

// header returns a header of the request, "" if it is missing.
func (in *input) header(name string) string {
	values := in.headerValues(name)
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (in *input) headerValues(name string) []string {
	if in.probe != nil {
		in.probe.headers = append(in.probe.headers, name)
	}
	return in.request.Header.Values(name)
}

// required returns a parameter that must be given; takes says what it takes.
func (in *input) required(name, takes string) string {
	value, given := in.param(name)
	if !given {
		in.invalid("parameter %s is missing, it takes %s", name, takes)
	}
	if in.probe != nil {
		in.probe.required = append(in.probe.required, name)
	}
	return value
}

// oneOf returns a parameter that takes only some values, "" if it is missing.
func (in *input) oneOf(name string, values ...string) string {
	value, given := in.param(name)
	in.describe(name, func() schema { return schema{"type": "string", "enum": slices.Clone(values)} })
	if given && !slices.Contains(values, value) {
		last := len(values) - 1
		takes := values[last]
		if last > 0 {
			takes = strings.Join(values[:last], ", ") + " or " + takes
		}
		in.invalid("parameter %s is %.64q, it takes %s", name, value, takes)
	}
	return value
}

// integer returns an integer parameter.
func (in *input) integer(name string, s span) int64 {
	value, given := in.param(name)
	in.describe(name, s.schema)
	if !given {
		return s.absent
	}
	n, ok := s.parse(value)
	if !ok {
		in.invalid("parameter %s is %.64q, it takes an integer from %d to %d", in.called(name), value, s.min, s.max)
	}
	return n
}

// optional returns an integer parameter, nil if it is missing.
func (in *input) optional(name string, s span) *int64 {
	if _, given := in.param(name); !given {
		in.describe(name, s.schema)
		return nil
	}
	return new(in.integer(name, s))
}

// boolean returns a boolean parameter, false if it is missing. The name alone means true; "="
// without a value is an error, because the value may have been lost.
func (in *input) boolean(name string) bool {
	value, given := in.param(name)
	in.describe(name, boolSchema)
	switch {
	case value == "true" || value == "1" || given && value == "" && in.alone(name):
		return true
	case given && value != "false" && value != "0":
		in.invalid("parameter %s is %.64q, it takes true, false, 1 or 0, or nothing: ?%s", name, value, name)
	}
	return false
}

// encoding is the JSON encoding of the bytes of keys and values.
type encoding string

const (
	utf8Text   encoding = "utf8"   // as text; bytes that are not UTF-8 are shown as U+FFFD
	base64Text encoding = "base64" // as standard base64 with padding (RFC 4648, section 4): any bytes, unchanged
)

// encoding returns the parameter encoding.
func (in *input) encoding() encoding {
	if in.oneOf("encoding", string(utf8Text), string(base64Text)) == string(base64Text) {
		return base64Text
	}
	return utf8Text
}

// encoded encodes bytes for JSON.
func (e encoding) encoded(bytes string) string {
	if e == base64Text {
		return base64.StdEncoding.EncodeToString([]byte(bytes))
	}
	return bytes
}

// decoded decodes text; what names its origin in errors.
func (e encoding) decoded(what, text string) (string, error) {
	if e != base64Text {
		return text, nil
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", engine.Errorf(engine.ErrInvalid, "%s is not base64: %v", what, err)
	}
	return string(bytes), nil
}

// headers encodes the values of headers. The result is never nil, so it is always a JSON object.
func (e encoding) headers(headers map[string]string) map[string]string {
	encoded := make(map[string]string, len(headers))
	for name, value := range headers {
		encoded[name] = e.encoded(value)
	}
	return encoded
}

// decodeHeaders decodes the values of headers in place.
func (e encoding) decodeHeaders(headers map[string]string) error {
	for name, value := range headers {
		decoded, err := e.decoded(fmt.Sprintf("header %.64q", name), value)
		if err != nil {
			return err
		}
		headers[name] = decoded
	}
	return nil
}

// fieldsAsked says whether a payload includes fields beyond its specification.
type fieldsAsked struct{ all bool }

func (f *fieldsAsked) parse(in *input) {
	f.all = in.oneOf("fields", "all") != ""
}

// maxPayload returns the parameter max_payload of a listing: the maximum number of bytes shown of
// each payload. 0 means all.
func (in *input) maxPayload() int {
	return int(in.integer("max_payload", span{absent: 0, min: 1, max: math.MaxInt32}))
}

// beginning returns up to n bytes of a payload, without splitting a character of text; all bytes if
// n is 0.
func beginning(payload []byte, n int) []byte {
	if n == 0 || len(payload) <= n {
		return payload
	}
	for end := n; end > n-utf8.UTFMax && end > 0; end-- {
		if utf8.RuneStart(payload[end]) {
			return payload[:end]
		}
	}
	return payload[:n]
}
