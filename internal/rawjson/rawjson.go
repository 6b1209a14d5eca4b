package rawjson

import (
	"encoding/json"
	"unicode/utf8"
)

// Value returns a value that encoding/json encodes as b unchanged if b is JSON, as null if b is
// empty, and otherwise as a string.
func Value(b []byte) any {
	switch {
	case len(b) == 0:
		return nil
	case utf8.Valid(b) && json.Valid(b):
		return json.RawMessage(b)
	}
	return string(b)
}
