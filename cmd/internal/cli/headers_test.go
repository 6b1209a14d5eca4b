package cli

import (
	"encoding/json"
	"testing"
)

// TestHeadersInJSON: header values that are no text come as base64, all of them, and JSON says so;
// they were U+FFFD.
func TestHeadersInJSON(t *testing.T) {
	for _, tt := range []struct {
		headers map[string]string
		want    string
	}{
		{nil, `{"headers":{}}`},
		{map[string]string{"k": "v", "e": ""}, `{"headers":{"e":"","k":"v"}}`},
		{map[string]string{"k": "v", "raw": "\xff"}, `{"headers":{"k":"dg==","raw":"/w=="},"headers_encoding":"base64"}`},
	} {
		if got, err := json.Marshal(newHeadersText(tt.headers)); err != nil || string(got) != tt.want {
			t.Errorf("headers %q in JSON are %s, %v, want %s", tt.headers, got, err, tt.want)
		}
	}
}
