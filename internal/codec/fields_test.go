package codec

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// letter is a record with a field of every kind.
type letter struct {
	Copies   int
	Weight   int64
	Balance  int64
	Number   uint64
	Priority byte
	Lost     bool
	To       string
	Seal     []byte
	Sent     time.Time
	Delay    int64
	Late     bool // Delay is given
	Grace    time.Duration
	Stamp    stamp
	Pages    []page
	Marks    []bool
}

type stamp struct{ a, b uint64 }

type page struct {
	Lines int
	Notes []string
}

func (l *letter) code(f *Fields) {
	f.Int("copies", &l.Copies, Range{Min: 1, Max: 9})
	f.Count("weight", &l.Weight, Range{Max: 100})
	f.Varint("balance", &l.Balance)
	f.Uvarint("number", &l.Number, Range{Min: 1, Max: math.MaxInt64, Optional: true})
	f.Byte("priority", &l.Priority)
	f.Bool("lost", &l.Lost)
	f.Text("to", &l.To, Range{Max: 5})
	f.Bytes("seal", &l.Seal, Range{Min: 2, Max: 4, Optional: true})
	f.Moment("sent_ms", &l.Sent)
	if c := f.Binary(); c != nil {
		c.Bool(&l.Late)
		f.Millis("delay_ms", &l.Delay)
	} else if f.Given("delay_ms", l.Late) {
		l.Late = true
		f.Millis("delay_ms", &l.Delay, Range{Max: 1000})
	}
	f.Duration("grace_ms", &l.Grace, Range{Max: 60_000})
	switch c := f.Binary(); {
	case c != nil:
		c.Uvarint(&l.Stamp.a)
		c.Uvarint(&l.Stamp.b)
	case !f.Checking():
		f.Token("stamp", func() string { return fmt.Sprintf("%d-%d", l.Stamp.a, l.Stamp.b) }, func(text string) error {
			_, err := fmt.Sscanf(text, "%d-%d", &l.Stamp.a, &l.Stamp.b)
			return err
		})
	}
	if f.Binary() == nil {
		RestOf(f, "pages", &l.Pages, (*page).code, Range{Min: 1, Max: 3})
	}
	RestOf(f, "marks", &l.Marks, func(m *bool, f *Fields) { f.Bool("", m) })
}

func (p *page) code(f *Fields) {
	if f.Parsing() {
		p.Lines = 30
	}
	f.Int("lines", &p.Lines, Range{Min: 1, Max: 60})
	if f.Binary() == nil {
		RestOf(f, "notes", &p.Notes, func(s *string, f *Fields) { f.Text("", s) })
	}
}

func someLetter() letter {
	return letter{
		Copies: 3, Weight: 100, Balance: -7, Number: math.MaxInt64, Priority: 255, Lost: true, To: "a\"<é", Seal: []byte{0xff,
			'x'}, Sent: time.UnixMilli(1234567890123),
		Delay: 5, Late: true, Grace: 1500 * time.Millisecond, Stamp: stamp{17, 2041},
		Pages: []page{{Lines: 1, Notes: []string{"x", ""}}, {Lines: 60}}, Marks: []bool{true, false},
	}
}

func TestFieldsBinary(t *testing.T) {
	l := someLetter()
	l.Pages = nil // which only JSON has
	b := EncodeFields([]byte("before"), &l, (*letter).code)
	b, found := bytes.CutPrefix(b, []byte("before"))
	got := letter{Marks: make([]bool, 5, 10)}
	if err := DecodeFields(b, &got, (*letter).code); err != nil || !found || !reflect.DeepEqual(got, l) {
		t.Errorf("%+v decodes as %+v, %v", l, got, err)
	}
	for n := range len(b) - len(l.Marks) {
		if err := DecodeFields(b[:n], &got, (*letter).code); err == nil {
			t.Errorf("the first %d bytes decode as %+v", n, got)
		}
	}
	if err := DecodeFields(append(b, 2), &got, (*letter).code); err == nil {
		t.Errorf("a boolean of 2 decodes as %+v", got)
	}
	if got.Seal[0] = 'z'; !bytes.Contains(b, []byte("zx")) {
		t.Error("bytes are copied")
	}
}

func TestFieldsJSON(t *testing.T) {
	for _, encode64 := range []bool{false, true} {
		l := someLetter()
		want := `{"copies":3,"weight":100,"balance":-7,"number":9223372036854775807,"priority":255,"lost":true,"to":"a\"<é","seal":"` +
			map[bool]string{false: "\uFFFDx", true: "/3g="}[encode64] +
			`","sent_ms":1234567890123,"delay_ms":5,"grace_ms":1500,"stamp":"17-2041",` +
			`"pages":[{"lines":1,"notes":["x",""]},{"lines":60,"notes":[]}],"marks":[true,false]}`
		b, lossy := AppendJSON(nil, encode64, l.code)
		if string(b) != want || lossy == encode64 {
			t.Errorf("encode64 %t: %s, lossy: %t, want %s", encode64, b, lossy, want)
		}
		var got letter
		if err := ReadJSON(b, encode64, got.code); err != nil {
			t.Fatal(err)
		}
		if !encode64 {
			l.Seal = []byte("\uFFFDx")
		}
		l.Pages[1].Notes = []string{}
		if !reflect.DeepEqual(got, l) {
			t.Errorf("%s is read as %+v, want %+v", b, got, l)
		}
	}
	var l letter
	if b, lossy := AppendJSON([]byte("at "), false, l.code); !strings.HasPrefix(string(b), `at {"copies":0,`) ||
		strings.Contains(string(b), "delay") || lossy {
		t.Errorf("a zero letter is %s, lossy: %t", b, lossy)
	}
}

// TestReadJSON: what is absent stays what it is, and whatever is wrong is named.
func TestReadJSON(t *testing.T) {
	for _, c := range []struct{ src, err string }{
		{`{}`, ""},
		{` { "copies" : 4, "pages": [ { }, {"notes":["a"]} ] } `, ""},
		{`{"grace_ms":-1,"number":0,"to":"\ud83d\ude00"}`, ""},
		{``, "not valid JSON"},
		{`{"copies":1}}`, "not valid JSON"},
		{`[]`, "want an object, got []"},
		{`"x"`, "want an object"},
		{`{"copies":1.5}`, `field "copies": want an integer, got 1.5`},
		{`{"copies":1e2}`, `field "copies"`},
		{`{"copies":"1"}`, `field "copies"`},
		{`{"copies":null}`, `field "copies"`},
		{`{"copies":99999999999999999999}`, `field "copies"`},
		{`{"number":-1}`, `field "number": want a non-negative integer, got -1`},
		{`{"lost":1}`, `field "lost": want true or false, got 1`},
		{`{"to":5}`, `field "to": want a string, got 5`},
		{`{"seal":[]}`, `field "seal": want a string, got []`},
		{`{"sent_ms":"now"}`, `field "sent_ms"`},
		{`{"stamp":"x"}`, `field "stamp"`},
		{`{"stamp":17}`, `field "stamp": want a string, got 17`},
		{`{"pages":{}}`, `field "pages": want an array, got {}`},
		{`{"pages":[{},{"lines":true}]}`, `field "pages[1].lines": want an integer, got true`},
		{`{"pages":[{},5]}`, `field "pages[1]": want an object, got 5`},
		{`{"pages":[{"line":5}]}`, `field "pages[0].line": unknown`},
		{`{"pages":[{"notes":["a",5]}]}`, `field "pages[0].notes[1]`},
		{`{"marks":[true,"` + strings.Repeat("x", 100) + `"]}`, `got "\"xxxxx`},
		{`{"copy":1,"b":2}`, `field "b": unknown`},
		{`{"copies":1,"copies":1}`, `field "copies": given twice`},
	} {
		l := someLetter()
		err := ReadJSON([]byte(c.src), false, l.code)
		switch {
		case (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s: %v, want %q", c.src, err, c.err)
		case err == nil && (l.Balance != -7 || l.Seal == nil || !l.Late):
			t.Errorf("%s: what is absent is read as well: %+v", c.src, l)
		}
	}
	l := someLetter()
	if err := ReadJSON([]byte(`{"seal":"%"}`), true, l.code); err == nil || !strings.Contains(err.Error(), `field "seal": want base64`) {
		t.Errorf("bytes that are not base64: %v", err)
	}
	if err := ReadJSON([]byte(`{"pages":[{}],"priority":256}`), false, l.code); err != nil || l.Pages[0].Lines != 30 {
		t.Errorf("a page without lines is read as %+v, %v", l.Pages, err)
	}
	refused := fmt.Errorf("refused")
	if err := ReadJSON([]byte(`{}`), false,
		func(f *Fields) { f.Refuse(nil); f.Refuse(refused); f.Refuse(fmt.Errorf("again")) }); err != refused {
		t.Errorf("a refusal is %v", err)
	}
}

func TestCheckFields(t *testing.T) {
	for _, c := range []struct {
		change func(l *letter)
		err    string
	}{
		{func(*letter) {}, ""},
		{func(l *letter) { l.Copies = 0 }, "copies 0 is not in 1-9"},
		{func(l *letter) { l.Copies = 10 }, "copies 10 is not in 1-9"},
		{func(l *letter) { l.Copies = 9 }, ""},
		{func(l *letter) { l.Weight = -1 }, "weight -1 is not in 0-100"},
		{func(l *letter) { l.Weight = 101 }, "weight 101 is not in 0-100"},
		{func(l *letter) { l.Balance = math.MinInt64 }, ""},
		{func(l *letter) { l.Number = 0 }, ""},
		{func(l *letter) { l.Number = math.MaxUint64 }, "number 18446744073709551615 is not in 1-9223372036854775807"},
		{func(l *letter) { l.To = "123456" }, "to of 6 bytes exceeds 5"},
		{func(l *letter) { l.Seal = []byte{1} }, "seal of 1 bytes is not in 2-4"},
		{func(l *letter) { l.Seal = make([]byte, 5) }, "seal of 5 bytes is not in 2-4"},
		{func(l *letter) { l.Seal = nil }, ""},
		{func(l *letter) { l.Delay = 1001 }, "delay of 1001 ms is not in 0-1000"},
		{func(l *letter) { l.Delay, l.Late = 1001, false }, ""},
		{func(l *letter) { l.Grace = time.Minute + time.Millisecond }, "grace of 60001 ms is not in 0-60000"},
		{func(l *letter) { l.Pages = nil }, "0 pages are not in 1-3"},
		{func(l *letter) { l.Pages = make([]page, 4) }, "4 pages are not in 1-3"},
		{func(l *letter) { l.Pages[1].Lines = 61 }, "lines 61 is not in 1-60"},
		{func(l *letter) { l.Pages[0].Lines, l.Pages[1].Lines = 0, 61 }, "lines 0 is not in 1-60"},
	} {
		l := someLetter()
		c.change(&l)
		if err := CheckFields(&l, false, (*letter).code); (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
			t.Errorf("%+v: %v, want %q", l, err, c.err)
		}
	}
	l := someLetter()
	l.Weight = -1
	if err := CheckFields(&l, true, (*letter).code); err == nil || err.Error() != "weight 18446744073709551615 is not in 0-100" {
		t.Errorf("a decoded weight beyond an int64: %v", err)
	}
	l = someLetter()
	if n := testing.AllocsPerRun(100, func() { _ = CheckFields(&l, false, (*letter).code) }); n > 0 {
		t.Errorf("a check allocates %.0f times", n)
	}
}

func TestDescribe(t *testing.T) {
	var got []string
	for _, f := range Describe(new(letter).code) {
		got = append(got, describe(f))
	}
	want := []string{
		"copies integer 1-9", "weight integer 0-100", "balance integer", "number integer 1-9223372036854775807", "priority integer 0-255",
		"lost boolean", "to string 0-5",
		"seal bytes 2-4", "sent_ms integer since 1970", "delay_ms integer ms 0-1000", "grace_ms integer ms 0-60000", "stamp string",
		"pages list 1-3 of ( object (lines integer 1-60, notes list of ( string)))", "marks list of ( boolean)",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	class := byte(1)
	enum := Describe(func(f *Fields) { Enum(f, "class", &class, []string{"", "first", "second"}) })
	if want := []Field{{Name: "class", Type: StringType, Values: []string{"first", "second"}}}; !reflect.DeepEqual(enum, want) {
		t.Errorf("enum %+v, want %+v", enum, want)
	}
}

func describe(f Field) string {
	s := f.Name + " " + f.Type.String() + map[Unit]string{Plain: "", Millis: " ms", Moment: " since 1970"}[f.Unit]
	if f.Range.bounds() {
		s += fmt.Sprintf(" %d-%d", f.Range.Min, f.Range.Max)
	}
	if f.Fields == nil {
		return s
	}
	var below []string
	for _, b := range f.Fields {
		below = append(below, describe(b))
	}
	if f.Type == ListType {
		s += " of"
	}
	return s + " (" + strings.Join(below, ", ") + ")"
}

// TestManyMembers: a record has at most maxRecord members, and the first unknown one by name is
// named, also within a list whose records share memory.
func TestManyMembers(t *testing.T) {
	read := func(body string) error {
		var list []int64
		return ReadJSON([]byte(body), false, func(f *Fields) {
			ListOf(f, "list", &list, func(n *int64, f *Fields) { f.Varint("n", n) })
		})
	}
	object := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"m%02d":%d,`, n-i, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for body, want := range map[string]string{
		`{"list":[{"n":1},{},{"n":2},{"\u006e":3}]}`: "<nil>",
		`{"list":[{"n":1},{"n":2,"b":1,"a":1}]}`:     `field "list[1].a": unknown`,
		`{"list":[{"n":1,"n":2}]}`:                   `field "list[0].n": given twice`,
		`{"":1}`:                                     `field "": unknown`,
		object(maxRecord):                            `field "m01": unknown`,
		object(maxRecord + 1):                        `field "m01": a record has up to 64 fields`,
	} {
		if err := read(body); fmt.Sprint(err) != want {
			t.Errorf("%.60s: %v, want %s", body, err, want)
		}
	}
}
