package codec

import (
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"
)

type sample struct {
	U     uint64
	I     int64
	N     int
	H     uint16
	W     uint32
	C     byte
	B     bool
	S     string
	Some  []byte
	Empty []byte
	None  []byte
	At    time.Time
	Never time.Time
	Names []string
	Sub   []sample
}

func (s *sample) code(c *Coder) {
	c.Uvarint(&s.U)
	c.Varint(&s.I)
	c.Int(&s.N)
	c.Uint16(&s.H)
	c.Uint32(&s.W)
	c.Byte(&s.C)
	c.Bool(&s.B)
	c.String(&s.S)
	c.Bytes(&s.Some)
	c.Bytes(&s.Empty)
	c.Bytes(&s.None)
	c.Time(&s.At)
	c.Time(&s.Never)
	List(c, &s.Names, (*Coder).String)
	List(c, &s.Sub, func(c *Coder, s *sample) { s.code(c) })
}

func filled() sample {
	sub := sample{S: "inner", Empty: []byte{}}
	return sample{
		U: math.MaxUint64, I: math.MinInt64, N: -5, H: math.MaxUint16, W: math.MaxUint32, C: 7, B: true, S: "text\x00",
		Some: []byte("bytes"), Empty: []byte{},
		At: time.UnixMilli(1_763_740_000_123), Names: []string{"", "b"}, Sub: []sample{sub, sub},
	}
}

func TestCoderReadsWhatItWrote(t *testing.T) {
	for _, want := range []sample{{}, filled()} {
		e := NewEncoder([]byte("before"))
		want.code(&e)
		record := e.Encoded()
		if string(record[:6]) != "before" {
			t.Fatalf("record begins with %q, want what was there", record[:6])
		}
		var got sample
		d := NewDecoder(record[6:])
		got.code(&d)
		if err := d.Done(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v, want %+v", got, err, want)
		}
		for i := range record {
			record[i] = 0xff
		}
		if !reflect.DeepEqual(got, want) {
			t.Error("what was read changes with the record")
		}
	}
}

// TestViewIsAPartOfTheRecord: View reads what it, or Bytes, has written, nil apart from what is
// empty, and copies nothing.
func TestViewIsAPartOfTheRecord(t *testing.T) {
	for _, want := range [][]byte{nil, {}, []byte("part")} {
		e, bytes := NewEncoder(nil), NewEncoder(nil)
		e.View(&want)
		bytes.Bytes(&want)
		record := e.Encoded()
		if !reflect.DeepEqual(record, bytes.Encoded()) {
			t.Errorf("View writes %x, Bytes %x", record, bytes.Encoded())
		}
		got := []byte("before")
		d := NewDecoder(record)
		d.View(&got)
		if err := d.Done(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
		if len(got) > 0 && &got[0] != &record[len(record)-len(got)] {
			t.Errorf("%q is a copy", got)
		}
	}
}

// TestEncodersShare: what is encoded may be used by many at once, as an error is. With -race this
// fails if an encoder writes.
func TestEncodersShare(t *testing.T) {
	s := filled()
	var encoders sync.WaitGroup
	for range 4 {
		encoders.Go(func() {
			e := NewEncoder(nil)
			s.code(&e)
		})
	}
	encoders.Wait()
}

func TestNarrowIntegers(t *testing.T) {
	for _, n := range []uint64{math.MaxUint16 + 1, math.MaxUint32 + 1, math.MaxUint64} {
		c, v := NewDecoder(AppendUvarint(nil, n)), uint16(0)
		if c.Uint16(&v); c.Done() == nil {
			t.Errorf("Uint16 reads %d as %d", n, v)
		}
		d, w := NewDecoder(AppendUvarint(nil, n)), uint32(0)
		if d.Uint32(&w); (d.Done() == nil) != (n <= math.MaxUint32) {
			t.Errorf("Uint32 reads %d as %d, %v", n, w, d.Done())
		}
	}
}

func TestCoderRefusesEveryPrefix(t *testing.T) {
	e := NewEncoder(nil)
	s := filled()
	s.code(&e)
	record := e.Encoded()
	for n := range record {
		var got sample
		d := NewDecoder(record[:n])
		got.code(&d)
		if err := d.Done(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v, want ErrCorrupt", n, len(record), err)
		}
	}
}

func TestCoderDoesNotBelieveLengths(t *testing.T) {
	record := append(AppendUvarint(nil, 1<<40), make([]byte, 100)...)
	var names []string
	d := NewDecoder(record)
	List(&d, &names, (*Coder).String)
	if !errors.Is(d.Err(), ErrCorrupt) || cap(names) > 0 {
		t.Errorf("a list of 2^40 in 100 bytes: %v, room for %d", d.Err(), cap(names))
	}
}

func FuzzCoder(f *testing.F) {
	e := NewEncoder(nil)
	s := filled()
	s.code(&e)
	f.Add(e.Encoded())
	f.Fuzz(func(t *testing.T, record []byte) {
		var got sample
		d := NewDecoder(record)
		got.code(&d)
		if d.Done() != nil {
			return
		}
		e := NewEncoder(nil)
		got.code(&e)
		if string(e.Encoded()) != string(record) {
			t.Errorf("%x is read, and written as %x", record, e.Encoded())
		}
	})
}
