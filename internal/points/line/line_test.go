package line

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// render reads all lines, and writes each as one.
func render(r io.Reader, p Precision) string {
	var b strings.Builder
	s := NewScanner(r, p)
	for {
		l, err := s.Next()
		var bad *Error
		switch {
		case err == io.EOF:
			return b.String()
		case errors.As(err, &bad):
			fmt.Fprintf(&b, "%v\n", bad)
			continue
		case err != nil:
			fmt.Fprintf(&b, "stops: %v\n", err)
			return b.String()
		}
		fmt.Fprintf(&b, "%d: ", l.Number)
		m, tags, err := ParseSeries(l.Series)
		if err != nil {
			fmt.Fprintf(&b, "(%v)", err)
		} else {
			fmt.Fprintf(&b, "%s%v", m, tags)
		}
		for _, f := range l.Fields {
			fmt.Fprintf(&b, " %s=%s", f.Key, f)
		}
		if l.Strings > 0 {
			fmt.Fprintf(&b, " strings=%d", l.Strings)
		}
		if l.HasTime {
			fmt.Fprintf(&b, " @%d", l.Time)
		}
		b.WriteByte('\n')
	}
}

func (f Field) String() string {
	kind := [...]string{Float: "f", Integer: "i", Unsigned: "u", Boolean: "b"}[f.Kind]
	if f.Decimal {
		return fmt.Sprintf("%de-%d%s", f.Mantissa, f.Exponent, kind)
	}
	return fmt.Sprintf("%v%s", f.Value, kind)
}

// TestLines goes through the protocol as its reference describes it.
func TestLines(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		// Syntax.
		{"m f=1", "1: m[] f=1e-0f\n"},
		{"m,t=v f=1 5", "1: m[{t v}] f=1e-0f @5\n"},
		{"m,b=2,a=1 f=1,g=2.50 -5", "1: m[{a 1} {b 2}] f=1e-0f g=250e-2f @-5\n"},
		{"m f=1\nm f=2\n", "1: m[] f=1e-0f\n2: m[] f=2e-0f\n"},
		{"m f=1\r\nm f=2\r\n", "1: m[] f=1e-0f\n2: m[] f=2e-0f\n"},
		{"  m   f=1    5  ", "1: m[] f=1e-0f @5\n"},
		{"# m f=1\n\n  # again\nm f=1", "4: m[] f=1e-0f\n"},
		{"m#x f=1", "1: m#x[] f=1e-0f\n"},
		{"", ""},
		// Values.
		{"m f=1.0,g=-1.5,h=.5,i=5.", "1: m[] f=10e-1f g=-15e-1f h=5e-1f i=5e-0f\n"},
		{"m f=1e3,g=-1.234456e+06,h=1.2E-3", "1: m[] f=1000e-0f g=-1234456e-0f h=12e-4f\n"},
		{"m f=1i,g=-12485903i,h=0i", "1: m[] f=1e-0i g=-12485903e-0i h=0e-0i\n"},
		{"m f=1u,g=18446744073709551615u", "1: m[] f=1e-0u g=1.8446744073709552e+19u\n"},
		{"m f=9223372036854775807i,g=-9223372036854775808i", "1: m[] f=9.223372036854776e+18i g=-9.223372036854776e+18i\n"},
		{"m a=t,b=T,c=true,d=True,e=TRUE", "1: m[] a=1e-0b b=1e-0b c=1e-0b d=1e-0b e=1e-0b\n"},
		{"m a=f,b=F,c=false,d=False,e=FALSE", "1: m[] a=0e-0b b=0e-0b c=0e-0b d=0e-0b e=0e-0b\n"},
		{"m f=-0,g=-0.0,h=0", "1: m[] f=-0f g=-0f h=0e-0f\n"},
		{"m f=1e300,g=1e-300,h=9007199254740993", "1: m[] f=1e+300f g=1e-300f h=9.007199254740992e+15f\n"},
		{"m f=0.30000000000000004", "1: m[] f=0.30000000000000004f\n"},
		{`m f="text",g=1`, "1: m[] g=1e-0f strings=1\n"},
		{`m f="a \"b\" \\",g=1,h="c, d=e" 7`, "1: m[] g=1e-0f strings=2 @7\n"},
		{`m f="",g=1`, "1: m[] g=1e-0f strings=1\n"},
		{"m f=\"two\nlines\",g=1 7\nm f=2", "1: m[] g=1e-0f strings=1 @7\n3: m[] f=2e-0f\n"},
		{`m f="only"`, "line 1: only string fields, which are not stored\n"},
		// Special characters.
		{`my\ m\,x f=1`, "1: my m,x[] f=1e-0f\n"},
		{`m=x f=1`, "1: m=x[] f=1e-0f\n"},
		{`m,t\ 1\,\==v\ 1\,\= f\ 1\,\==1`, "1: m[{t 1,= v 1,=}] f 1,==1e-0f\n"},
		{`m,path=C:\dir\x f=1`, `1: m[{path C:\dir\x}] f=1e-0f` + "\n"},
		{`m,t=a\\b f=1`, `1: m[{t a\\b}] f=1e-0f` + "\n"}, // a backslash escapes no backslash
		{`m,t=a\\ b f=1`, `1: m[{t a\ b}] f=1e-0f` + "\n"},
		{`m,t="q" f=1`, `1: m[{t "q"}] f=1e-0f` + "\n"},
		{`"m",t=v "f"=1`, `1: "m"[{t v}] "f"=1e-0f` + "\n"},
		{"m,t=🙂 🍭=1", "1: m[{t 🙂}] 🍭=1e-0f\n"},
		// What is refused.
		{"m", "line 1: no fields: a line is measurement,tags fields timestamp\n"},
		{"m,t=v", "line 1: no fields: a line is measurement,tags fields timestamp\n"},
		{"m f", "line 1: field \"f\" has no value\n"},
		{"m f=", "line 1: field \"f\": no value\n"},
		{"m =1", "line 1: a field has no name\n"},
		{"m f=1,", "line 1: field \"\" has no value\n"},
		{"m f=1,,g=2", "line 1: field \",g=2\" has no value\n"},
		{"m f=abc", "line 1: field \"f\": \"abc\" is not a number, boolean or quoted string\n"},
		{"m f=NaN", "line 1: field \"f\": \"NaN\" is not a number, boolean or quoted string\n"},
		{"m f=inf", "line 1: field \"f\": \"inf\" is not a number, boolean or quoted string\n"},
		{"m f=-inf", "line 1: field \"f\": \"-inf\" is not a number\n"},
		{"m f=1e999", "line 1: field \"f\": \"1e999\" is beyond the range of a 64-bit number\n"},
		{"m f=0x10", "line 1: field \"f\": \"0x10\" is not a number\n"},
		{"m f=1_0", "line 1: field \"f\": \"1_0\" is not a number\n"},
		{"m f=1.2.3", "line 1: field \"f\": \"1.2.3\" is not a number\n"},
		{"m f=1.5i", "line 1: field \"f\": \"1.5\"i is not a 64-bit integer\n"},
		{"m f=9223372036854775808i", "line 1: field \"f\": \"9223372036854775808\"i is not a 64-bit integer\n"},
		{"m f=-1u", "line 1: field \"f\": \"-1\"u is not an unsigned 64-bit integer\n"},
		{"m f=1 abc", "line 1: timestamp \"abc\" is not a 64-bit integer\n"},
		{"m f=1 1 2", "line 1: timestamp \"1 2\" is not a 64-bit integer\n"},
		{"m f=1 1.5", "line 1: timestamp \"1.5\" is not a 64-bit integer\n"},
		{"m f=1 99999999999999999999", "line 1: timestamp \"99999999999999999999\" is not a 64-bit integer\n"},
		{"m f=1, g=2", "line 1: field \" g=2\" has no value\n"},
		{`m f="open` + "\nm f=2\n", "line 1: string without closing quote\n2: m[] f=2e-0f\n"},
		{`m f="open` + "\n" + `m f="x",g=2` + "\n",
			"line 1: a string must be followed by a comma, a space or the end\n2: m[] g=2e-0f strings=1\n"},
		{"m f=\"two\nlines\" abc\nm f=2", "line 1: timestamp \"abc\" is not a 64-bit integer\n3: m[] f=2e-0f\n"},
		{",t=v f=1", "1: (no measurement) f=1e-0f\n"},
		{"m,t=v,t=w f=1", "1: (duplicate tag \"t\") f=1e-0f\n"},
		{"m,t= f=1", "1: (tag \"t=\" has no value) f=1e-0f\n"},
		{"m,t f=1", "1: (tag \"t\" has no value) f=1e-0f\n"},
		{"m,=v f=1", "1: (tag \"=v\" has no key) f=1e-0f\n"},
		{"m,t=v, f=1", "1: (missing tag after a comma) f=1e-0f\n"},
		{"m,t=v=w f=1", "1: (tag \"t=v=w\" has an equals sign in its value without backslash) f=1e-0f\n"},
	} {
		if got := render(strings.NewReader(c.in), Milliseconds); got != c.want {
			t.Errorf("%q:\n got %swant %s", c.in, got, c.want)
		}
		// The same by single bytes.
		if got := render(iotest.OneByteReader(strings.NewReader(c.in)), Milliseconds); got != c.want {
			t.Errorf("%q by bytes:\n got %swant %s", c.in, got, c.want)
		}
	}
}

func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		p    Precision
		in   string
		want string
	}{
		{Nanoseconds, "1700000000123456789", "1700000000123"},
		{Nanoseconds, "-1", "-1"},
		{Nanoseconds, "-1000000", "-1"},
		{Nanoseconds, "-1000001", "-2"},
		{Microseconds, "1700000000123456", "1700000000123"},
		{Microseconds, "-1", "-1"},
		{Milliseconds, "1700000000123", "1700000000123"},
		{Seconds, "1700000000", "1700000000000"},
		{Seconds, "9223372036854775807", ""},
	} {
		want := "1: m[] f=1e-0f @" + c.want + "\n"
		if c.want == "" {
			want = "line 1: timestamp " + c.in + " s is out of range\n"
		}
		if got := render(strings.NewReader("m f=1 "+c.in), c.p); got != want {
			t.Errorf("%s %s: got %swant %s", c.in, c.p, got, want)
		}
	}
	for p := range precisions {
		if got, err := ParsePrecision(Precision(p).String()); err != nil || got != Precision(p) {
			t.Errorf("ParsePrecision(%s) = %s, %v", Precision(p), got, err)
		}
	}
	if _, err := ParsePrecision("m"); err == nil {
		t.Error("ParsePrecision(m) is no error")
	}
}

// TestNumbers compares numbers with what strconv makes of them.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		v := math.Float64frombits(rng.Uint64())
		if i%2 == 0 {
			v = float64(rng.Int64N(1<<uint(1+rng.IntN(60)))) / math.Pow10(rng.IntN(25))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		text := strconv.FormatFloat(v, "eEfgG"[rng.IntN(5)], -1+rng.IntN(2)*rng.IntN(20), 64)
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		s := NewScanner(strings.NewReader("m f="+text), Milliseconds)
		l, err := s.Next()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		f := l.Fields[0]
		got := f.Value
		if f.Decimal {
			got = float64(f.Mantissa) / math.Pow10(int(f.Exponent))
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s is %v (%v), want %v", text, got, f, want)
		}
	}
}

// TestLongLines reads lines around the limit, and continues after them.
func TestLongLines(t *testing.T) {
	long := func(n int) string { return `m s="` + strings.Repeat("x", n-len(`m s="",f=1`)) + `",f=1` }
	in := long(MaxLineBytes-2) + "\n" + long(3*MaxLineBytes) + "\nm f=2\n" + `m s="` + strings.Repeat("x\n", MaxLineBytes) + "\nm f=3\n"
	lines := strings.Split(render(strings.NewReader(in), Milliseconds), "\n")
	if want := []string{"1: m[] f=1e-0f strings=1", "line 2: longer than 1 MiB", "3: m[] f=2e-0f",
		"line 4: string without closing quote"}; !slices.Equal(lines[:4], want) {
		t.Errorf("%q, want %q", lines[:4], want)
	}
	if last := lines[len(lines)-2]; !strings.HasSuffix(last, ": m[] f=3e-0f") {
		t.Errorf("the last line is %q", last)
	}
}

// TestReaderFails does not take half a line for a whole one.
func TestReaderFails(t *testing.T) {
	r := io.MultiReader(strings.NewReader("m f=1\nm f=12"), iotest.ErrReader(errors.New("cut off")))
	if got, want := render(r, Milliseconds), "1: m[] f=1e-0f\nstops: cut off\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func sample(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "cpu,host=web-%03d,region=eu-west usage=%d.%02d %d\n", i%100, i%97, i%100, 1_700_000_000_000+i)
	}
	return b.String()
}

func TestNoGarbage(t *testing.T) {
	text := sample(1000) + `m,t\ x=1 a\ b=1,c="s" 7` + "\n"
	s := NewScanner(strings.NewReader(text), Milliseconds)
	r := strings.NewReader(text)
	all := func() {
		r.Reset(text)
		s.Reset(r, Milliseconds)
		for {
			if _, err := s.Next(); err != nil {
				return
			}
		}
	}
	all()
	if n := testing.AllocsPerRun(10, all); n > 0 {
		t.Errorf("1,001 lines make %v allocations, want 0", n)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(sample(3)), 7)
	f.Add([]byte(`m,t\ x=1 a\ b=1,c="s`+"\n"+`x" 7`+"\n# c\nm f=-0,g=1e-7,h=5i"), 3)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size = max(1, size&0xfff); len(text) > 1<<16 {
			return
		}
		whole := render(strings.NewReader(string(text)), Nanoseconds)
		if parts := render(&inParts{text, size}, Nanoseconds); parts != whole {
			t.Fatalf("%q in parts of %d is read as\n%sand as a whole as\n%s", text, size, parts, whole)
		}
	})
}

type inParts struct {
	text []byte
	size int
}

func (r *inParts) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(r.size, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

func BenchmarkScan(b *testing.B) {
	wide := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "cpu,host=web-%03d,region=eu-west", i%100)
			for f := range 10 {
				fmt.Fprintf(&b, "%cfield%d=%d.%02d", " ,"[min(f, 1)], f, i%97, (i+f)%100)
			}
			fmt.Fprintf(&b, " %d\n", 1_700_000_000_000+i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name   string
		text   string
		points int
	}{{"fields=1", sample(5000), 5000}, {"fields=10", wide(500), 5000}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			r := strings.NewReader(c.text)
			s := NewScanner(r, Milliseconds)
			for b.Loop() {
				r.Reset(c.text)
				s.Reset(r, Milliseconds)
				for {
					if _, err := s.Next(); err != nil {
						break
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.points), "ns/point")
		})
	}
}
