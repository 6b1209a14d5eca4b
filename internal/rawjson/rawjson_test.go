package rawjson

import (
	"encoding/json"
	"testing"
)

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"": "null", "null": "null", `{"a": [1]}`: `{"a":[1]}`, `"x"`: `"x"`, "12 ": "12", "plain": `"plain"`, `{"a"`: `"{\"a\""`,
		"\"\xff\"": `"\"\ufffd\""`,
	} {
		if got, err := json.Marshal(Value([]byte(text))); err != nil || string(got) != want {
			t.Errorf("%q is shown as %s, %v; want %s", text, got, err, want)
		}
	}
}
