package flow

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/floedb/floe/internal/codec"
)

// samples are definitions that use every key.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*.json"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = src
		}
	}
	return found
}

func mustParse(t testing.TB, src string) *Definition {
	t.Helper()
	d, problems := Parse([]byte(src))
	if d == nil {
		t.Fatalf("Parse: %v\nof %s", problems, src)
	}
	return d
}

func encode(d *Definition) []byte {
	e := codec.NewEncoder(nil)
	d.Code(&e)
	return e.Encoded()
}

func decodeDefinition(record []byte) (*Definition, error) {
	d := new(Definition)
	c := codec.NewDecoder(record)
	d.Code(&c)
	return d, c.Done()
}

func TestSamples(t *testing.T) {
	for name, src := range samples(t) {
		d, problems := Parse(src)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		got, err := decodeDefinition(encode(d))
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s: %v\nread %+v\nwant %+v", name, err, got, d)
		}
	}
}
