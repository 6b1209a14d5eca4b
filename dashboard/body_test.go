package dashboard

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/floedb/floe"
)

// FuzzParseObject: what the decoder of bodies takes, encoding/json takes too and means the same;
// encoded again it is the same again. What it refuses is ErrInvalid.
func FuzzParseObject(f *testing.F) {
	for _, row := range hostileBodies {
		if len(row.body) < 1000 {
			f.Add([]byte(row.body))
		}
	}
	f.Add([]byte(`{"a":{"b":[1,2,{"c":null}]},"d":-0.5e-7,"":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseObject(body)
		if err != nil {
			if !errors.Is(err, floe.ErrInvalid) {
				t.Errorf("parseObject(%q) = %v, want ErrInvalid", body, err)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("parseObject(%q) = %q, encoding/json has %q (%v)", body, got, want, err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseObject(again); err != nil || len(back) != len(got) {
			t.Errorf("parseObject(%q) = %q, %v; it was made from %q", again, back, err, got)
		}
	})
}
