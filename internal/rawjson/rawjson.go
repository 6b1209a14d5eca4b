package rawjson

import (
	"encoding/json"
	"unicode/utf8"
)

// Value returns what encoding/json is to write for bytes: the JSON that they are, of others a
// string, of none null.
func Value(b []byte) any {
	switch {
	case len(b) == 0:
		return nil
	case utf8.Valid(b) && json.Valid(b):
		return json.RawMessage(b)
	}
	return string(b)
}
