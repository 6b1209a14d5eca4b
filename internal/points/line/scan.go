package line

import (
	"bytes"
	"errors"
	"io"
)

const (
	// MaxLineBytes is the maximum length of a line, including further lines of its strings.
	MaxLineBytes = 1 << 20
	readBytes    = 64 << 10
	// maxEmptyReads is how many times in a row a reader may return no data and no error, as in
	// bufio.
	maxEmptyReads = 100
)

// Scanner reads lines. Reset makes a used one ready again and keeps its memory.
type Scanner struct {
	r         io.Reader
	precision Precision
	buf       []byte
	from, to  int   // the unread part of buf
	err       error // error of r at the end of buf
	number    int   // of the previous line
	barred    int   // no string continues in another line before this index
	line      Line
	unescaped []byte
}

// NewScanner returns a Scanner that reads from r, with timestamps of a precision.
func NewScanner(r io.Reader, p Precision) *Scanner {
	s := new(Scanner)
	s.Reset(r, p)
	return s
}

// Reset makes s read from the beginning of r.
func (s *Scanner) Reset(r io.Reader, p Precision) {
	s.r, s.precision = r, p
	s.from, s.to, s.err, s.number, s.barred = 0, 0, nil, 0, 0
}

// Next returns the next valid line that has a value. Errors: *Error for an invalid line, after
// which Next continues with the following one; io.EOF after the last line; an error of the reader.
func (s *Scanner) Next() (*Line, error) {
	for {
		end, err := s.lineEnd(s.from)
		if err != nil {
			return nil, s.fail(err)
		}
		text := s.buf[s.from:end]
		s.number++
		blanks := blanksOf(text)
		if text = trimEnd(text[blanks:]); len(text) == 0 || text[0] == '#' {
			s.from = min(end+1, s.to)
			continue
		}
		return s.parseFrom(blanks, end)
	}
}

// fail returns why there are no more lines, and skips a line that is too long.
func (s *Scanner) fail(err error) error {
	if !errors.Is(err, errLong) {
		return err
	}
	s.number++
	s.passLong()
	return &Error{s.number, "longer than 1 MiB"}
}

var errLong = errors.New("line too long")

// lineEnd returns the end of the line that contains at: a line feed, or the end of the input. It
// reads more if necessary, which may move s.from and the data after it.
func (s *Scanner) lineEnd(at int) (end int, err error) {
	for {
		if i := bytes.IndexByte(s.buf[at:s.to], '\n'); i >= 0 {
			return at + i, nil
		}
		switch {
		case s.err == nil:
			shift := s.from
			at = s.to - shift
			if err := s.read(); err != nil {
				return 0, err
			}
		case s.err == io.EOF && s.from < s.to:
			return s.to, nil
		default:
			return 0, s.err
		}
	}
}

// read reads more data after the unread part, which it moves to the front of the buffer.
func (s *Scanner) read() error {
	if s.to-s.from > MaxLineBytes {
		return errLong
	}
	s.to = copy(s.buf, s.buf[s.from:s.to])
	s.barred = max(0, s.barred-s.from)
	s.from = 0
	if len(s.buf)-s.to < readBytes/2 {
		s.buf = append(s.buf, make([]byte, max(readBytes, len(s.buf)))...)
	}
	for range maxEmptyReads {
		n, err := s.r.Read(s.buf[s.to:])
		s.to += n
		if s.err = err; n > 0 || err != nil {
			return nil
		}
	}
	s.err = io.ErrNoProgress
	return nil
}

// passLong skips a line without keeping it.
func (s *Scanner) passLong() {
	for {
		if i := bytes.IndexByte(s.buf[s.from:s.to], '\n'); i >= 0 {
			s.from += i + 1
			return
		}
		s.from = s.to
		if s.err != nil || s.read() != nil {
			return
		}
	}
}

// parseFrom reads a line whose text begins after a number of blanks at s.from, and moves s.from to
// its end. The line ends at end, unless a string continues there.
func (s *Scanner) parseFrom(blanks, end int) (*Line, error) {
	number := s.number
	s.line = Line{Number: number, Fields: s.line.Fields[:0]}
	first := end + 1 - s.from
	length := first
	err := s.parse(trimEnd(s.buf[s.from+blanks : end]))
	if err == errOpen && s.from >= s.barred {
		length, err = s.parseLong(blanks, first)
	}
	s.from = min(s.from+length, s.to)
	if err != nil {
		return nil, &Error{number, err.Error()}
	}
	return &s.line, nil
}

// parseLong reads a line with a string that continues in the next lines. It returns the total
// length, starting at s.from.
func (s *Scanner) parseLong(blanks, first int) (length int, err error) {
	length, lines, err := s.extent(blanks, first)
	if err == nil {
		s.line = Line{Number: s.number, Fields: s.line.Fields[:0]}
		err = s.parse(trimEnd(s.buf[s.from+blanks : min(s.from+length-1, s.to)]))
	}
	if err == errOpen || err == errBehindString {
		// What was read as the rest of a string is separate lines. None of them may continue a
		// string; otherwise scanning could take quadratic time.
		s.barred = s.from + length
		return first, err
	}
	s.number += lines
	return length, err
}

// extent finds the end of a line whose strings continue beyond the physical line, whose length is
// first. It returns the total length, including the line feed, and the number of further lines.
func (s *Scanner) extent(blanks, first int) (length, lines int, err error) {
	var q quotes
	q.scan(s.buf[s.from+blanks : s.from+first-1])
	for length = first; q.open(); lines++ {
		if length > MaxLineBytes || s.from+length > s.to {
			return length, lines, errOpen
		}
		q.escaped = false // by the line feed
		end, err := s.lineEnd(s.from + length)
		if err != nil {
			return length, lines, errOpen
		}
		q.scan(s.buf[s.from+length : end])
		length = end + 1 - s.from
	}
	return length, lines, nil
}

// quotes finds strings in a line that arrives in parts.
type quotes struct {
	in      where
	escaped bool // by the previous character
}

// where is the position of a character in a line.
type where uint8

const (
	inSeries where = iota
	inKey
	atValue
	inValue
	inString
	behindFields
)

// open reports whether the scanned text ends inside a string.
func (q *quotes) open() bool { return q.in == inString }

func (q *quotes) scan(b []byte) {
	for _, c := range b {
		if q.escaped {
			q.escaped = false
			continue
		}
		q.escaped = c == '\\' && q.in != inValue && q.in != atValue
		q.in = q.next(c)
	}
}

func (q *quotes) next(c byte) where {
	switch {
	case q.in == inSeries && c == ' ', (q.in == inValue || q.in == atValue) && c == ',':
		return inKey
	case q.in == inKey && c == '=':
		return atValue
	case q.in == atValue && c == '"':
		return inString
	case q.in == atValue && c != ' ', q.in == inString && c == '"':
		return inValue
	case (q.in == inValue || q.in == atValue) && c == ' ':
		return behindFields
	}
	return q.in
}

func blanksOf(b []byte) (n int) {
	for n < len(b) && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return n
}

// trimEnd removes the end of a line.
func trimEnd(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	for n := len(b); n > 0 && b[n-1] == ' '; n-- {
		b = b[:n-1]
	}
	return b
}
