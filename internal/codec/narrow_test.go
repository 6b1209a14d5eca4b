package codec_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
)

type numbered struct {
	small []uint16
	names []string
}

func (l *numbered) code(f *codec.Fields) {
	codec.ListOf(f, "small", &l.small, func(n *uint16, f *codec.Fields) { codec.Narrow(f, "", n) }, codec.Range{Max: 3})
	codec.ListOf(f, "names", &l.names, func(s *string, f *codec.Fields) { f.Text("", s) })
}

// TestNarrow codes lists of small integers in every form.
func TestNarrow(t *testing.T) {
	in := numbered{[]uint16{1, 65535}, []string{"a"}}
	b := codec.EncodeFields(nil, &in, (*numbered).code)
	if want := "\x02\x01\xff\xff\x03\x01\x01a"; string(b) != want {
		t.Errorf("binary is %q, want %q", b, want)
	}
	var out, fromJSON numbered
	if err := codec.DecodeFields(b, &out, (*numbered).code); err != nil || !reflect.DeepEqual(out, in) {
		t.Errorf("decoded %+v, %v, want %+v", out, err, in)
	}
	first := &out.small[0]
	if err := codec.DecodeFields([]byte{1, 7, 0}, &out, (*numbered).code); err != nil || *first != 1 || out.names != nil {
		t.Errorf("decoding into %+v, %v reuses memory", out, err)
	}
	text, _ := codec.AppendJSON(nil, false, in.code)
	if want := `{"small":[1,65535],"names":["a"]}`; string(text) != want {
		t.Errorf("JSON is %s, want %s", text, want)
	}
	if err := codec.ReadJSON(text, false, fromJSON.code); err != nil || !reflect.DeepEqual(fromJSON, in) {
		t.Errorf("read %+v, %v, want %+v", fromJSON, err, in)
	}
	for text, says := range map[string]string{`{"small":[65536]}`: "65536 is not in 0-65535", `{"small":[-1]}`: "non-negative"} {
		if err := codec.ReadJSON([]byte(text), false, new(numbered).code); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("read %s: %v, want %q", text, err, says)
		}
	}
	for _, bad := range []string{"\x05\x01", "\x01\x80\x80\x04\x00", "\x02\x01", "\x00\x00\x00"} {
		if err := codec.DecodeFields([]byte(bad), new(numbered), (*numbered).code); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("decoded %q: %v, want ErrCorrupt", bad, err)
		}
	}
	in.small = make([]uint16, 4)
	if err := codec.CheckFields(&in, false, (*numbered).code); err == nil || !strings.Contains(err.Error(), "4 small are not in 0-3") {
		t.Errorf("check of a long list: %v", err)
	}
	fields := codec.Describe(in.code)
	if len(fields) != 2 || fields[0].Type != codec.ListType || fields[0].Fields[0].Range.Max != 65535 {
		t.Errorf("described as %+v", fields)
	}
}

// TestDurationOverflows: a number of milliseconds that a time.Duration cannot hold is refused. It
// used to wrap around, to any duration.
func TestDurationOverflows(t *testing.T) {
	for ms, ok := range map[int64]bool{
		math.MaxInt64 / 1_000_000: true, math.MaxInt64/1_000_000 + 1: false, 18_446_744_073_710: false, math.MaxInt64: false,
		math.MinInt64 / 1_000_000: true, math.MinInt64/1_000_000 - 1: false, math.MinInt64: false,
	} {
		var d time.Duration
		err := codec.ReadJSON(fmt.Appendf(nil, `{"d":%d}`, ms), false, func(f *codec.Fields) { f.Duration("d", &d) })
		if (err == nil) != ok || ok && d.Milliseconds() != ms {
			t.Errorf("%d ms became %v, %v", ms, d, err)
		}
	}
}
