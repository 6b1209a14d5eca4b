package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/internal/spelling"
)

// The limits of a batch of bulk input, except that one line may be larger. They keep a batch well
// below what a node takes in one call, so that it never waits long for others.
const (
	bulkLines = 500
	bulkBytes = 1 << 20
)

// longestLine fits any payload in base64 or with many escapes, and its other members.
const longestLine = 2 * maxPayloadBytes

// bulk is bulk input: the flags --lines and --ndjson.
type bulk struct{ lines, ndjson bool }

// addBulk adds the flags. line describes a line, and members the members of a JSON object.
func addBulk(cmd *cobra.Command, line, members string) *bulk {
	b := new(bulk)
	cmd.Flags().BoolVar(&b.lines, "lines", false, "read stdin or @FILE; each line, ended by \\n or \\r\\n, is "+line)
	cmd.Flags().BoolVar(&b.ndjson, "ndjson", false, "read stdin or @FILE; each line is a JSON object: "+members)
	return b
}

// given reports whether a command has bulk input. Without and inLines are flags that contradict it:
// all of it, or --ndjson, whose objects have them.
func (b *bulk) given(cmd *cobra.Command, without, inLines []string) (bool, error) {
	if err := exclusive(cmd, "lines", "ndjson"); err != nil {
		return false, err
	}
	for _, bulk := range []string{"lines", "ndjson"} {
		for _, name := range without {
			if err := exclusive(cmd, bulk, name); err != nil {
				return false, err
			}
		}
	}
	for _, name := range inLines {
		if err := exclusive(cmd, "ndjson", name); err != nil {
			return false, err
		}
	}
	return b.lines || b.ndjson, nil
}

// load is the work on bulk input.
type load[T any] struct {
	from   []string // arguments for the input: none, -, or @FILE
	blanks bool     // blank lines are skipped
	parse  func(line []byte) (item T, payload int, err error)
	send   func(ctx context.Context, s *session, batch []T) (sent int, err error) // the first ones of the batch
	done   func(s *session, lines int) error                                      // prints the result
}

// batch is the items of consecutive lines of the input.
type batch[T any] struct {
	items []T
	lines []int // number of each item's line, from 1
	size  int64 // bytes
	err   error // the input ends with an error after these lines
}

// run sends the input in batches. The timeout is that of the connection and of each batch.
func (l *load[T]) run(f *frame, cmd *cobra.Command) error {
	in, size, err := l.open(f, cmd)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	err = f.connected(ctx, cmd, func(s *session) error {
		reading, stop := context.WithCancel(cmd.Context())
		defer stop()
		batches := make(chan batch[T], 1)
		// Only the other end can end a read of a terminal or pipe: an interrupted command leaves
		// the goroutine behind, and it ends with the process.
		go l.read(reading, in, s.MaxValueSize(), batches)
		meter := bulkMeter{to: f.Stderr, shown: isTerminal(f.Stderr), size: size}
		written, err := l.sendAll(cmd.Context(), f, s, batches, &meter)
		meter.end()
		if err == nil {
			return l.done(s, written)
		}
		if cmd.Context().Err() != nil {
			err = interrupted(err)
		}
		return err
	})
	return coded(err)
}

// stopped adds the lines written before an error, up to the last one. Unsure means that the lines
// that the error names may have been written too.
func stopped(err error, last int, unsure bool) error {
	hint := "nothing was written"
	switch {
	case last == 1:
		hint = "line 1 was written"
	case last > 1:
		hint = fmt.Sprintf("lines 1 to %d were written", last)
	}
	if unsure {
		hint += " for certain; the lines of the error may have been"
	}
	return &hintedError{err, hint}
}

// open returns the input and its size, 0 if that is not known.
func (l *load[T]) open(f *frame, cmd *cobra.Command) (io.ReadCloser, int64, error) {
	switch from := append(l.from, "-")[0]; {
	case len(l.from) > 1 || from != "-" && !strings.HasPrefix(from, "@"):
		return nil, 0, &usageError{fmt.Errorf("unexpected argument %q: --lines and --ndjson read stdin or @FILE", l.from[len(l.from)-1]),
			helpHint(cmd)}
	case from != "-":
		file, err := os.Open(from[1:])
		if err != nil {
			return nil, 0, err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, 0, err
		}
		return file, info.Size(), nil
	case f.Stdin == nil || isTerminal(f.Stdin) && len(l.from) == 0:
		return nil, 0, &usageError{errors.New("the input is missing"), "give it as @FILE or on stdin"}
	}
	return io.NopCloser(f.Stdin), 0, nil
}

// read sends the lines of in to batches, and ends with the input, an error or ctx. It sends a batch
// that is not full if the input has no more lines yet.
func (l *load[T]) read(ctx context.Context, in io.Reader, maxPayload int, batches chan<- batch[T]) {
	defer close(batches)
	r := bufio.NewReaderSize(in, 64<<10)
	var next batch[T]
	flush := func() bool {
		if len(next.items) == 0 && next.err == nil {
			return true
		}
		select {
		case batches <- next:
			next = batch[T]{}
			return true
		case <-ctx.Done():
			return false
		}
	}
	for n := 1; ; n++ {
		line, err := readLine(r)
		end := errors.Is(err, io.EOF)
		if end && len(line) == 0 {
			flush()
			return
		}
		full := len(next.items) == bulkLines || len(next.items) > 0 && next.size+int64(len(line)) > bulkBytes
		if full && !flush() {
			return
		}
		if err == nil || end {
			err = l.add(&next, n, line, maxPayload)
		}
		if err != nil {
			next.err = &textError{err, fmt.Sprintf("line %d: %v", n, err)}
			flush()
			return
		}
		if r.Buffered() == 0 && !flush() {
			return
		}
	}
}

// add adds line n to a batch. Errors: ErrInvalid.
func (l *load[T]) add(to *batch[T], n int, line []byte, maxPayload int) error {
	to.size += int64(len(line))
	if l.blanks && len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	item, payload, err := l.parse(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
	if err == nil && payload > maxPayload {
		err = fmt.Errorf("%d bytes exceed the max_value_size of the node, %d", payload, maxPayload)
	}
	if err != nil {
		return &textError{floe.ErrInvalid, err.Error()}
	}
	to.items, to.lines = append(to.items, item), append(to.lines, n)
	return nil
}

// readLine returns the next line with its end, which the last one may lack; then the error is
// io.EOF.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestLine:
			return nil, &textError{floe.ErrInvalid, fmt.Sprintf("is longer than %d bytes", longestLine)}
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// sendAll sends batches until there are no more, and returns the number of items written.
func (l *load[T]) sendAll(ctx context.Context, f *frame, s *session, batches <-chan batch[T], meter *bulkMeter) (written int, err error) {
	last := 0 // number of the last line written
	for {
		select {
		case b, more := <-batches:
			switch {
			case !more && ctx.Err() == nil:
				return written, nil
			case !more:
				return written, stopped(ctx.Err(), last, false)
			case b.err != nil: // the lines before it in the batch are not sent: a batch is written as a whole
				return written, stopped(b.err, last, false)
			}
			call, cancel := context.WithTimeout(ctx, f.timeout)
			sent, err := l.send(call, s, b.items)
			unsure := call.Err() != nil || errors.Is(err, floe.ErrUnknownOutcome)
			cancel()
			if written += sent; sent > 0 {
				last = b.lines[sent-1]
			}
			if err != nil {
				return written, stopped(atLines(err, b.lines[sent:]), last, unsure)
			}
			meter.add(b.size, written)
		case <-ctx.Done():
			return written, stopped(ctx.Err(), last, false)
		}
	}
}

// atLines adds the numbers of the lines that were not written to the error of a batch.
func atLines(err error, lines []int) error {
	if refused := (*floe.TxnError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("line %d: %w", lines[refused.Index], refused.Err)
	}
	if len(lines) == 1 {
		return fmt.Errorf("line %d: %w", lines[0], err)
	}
	return fmt.Errorf("lines %d to %d: %w", lines[0], lines[len(lines)-1], err)
}

// bulkMeter shows progress on a terminal.
type bulkMeter struct {
	to    io.Writer
	shown bool
	size  int64 // of the input; 0: unknown
	read  int64
}

func (m *bulkMeter) add(size int64, lines int) {
	const width = 30
	m.read += size
	switch {
	case !m.shown:
	case m.size == 0:
		fmt.Fprintf(m.to, "\r\033[K%d lines", lines)
	default:
		done := int(min(width*m.read/m.size, width))
		fmt.Fprintf(m.to, "\r\033[K[%s%s] %3d%%  %d lines", strings.Repeat("=", done), strings.Repeat(" ", width-done),
			min(100*m.read/m.size, 100), lines)
	}
}

func (m *bulkMeter) end() {
	if m.shown {
		fmt.Fprint(m.to, "\r\033[K")
	}
}

// allOrNone is the result of sending a batch that is written as a whole.
func allOrNone(n int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return n, nil
}

// parseMembers parses a JSON object into the struct that v points to. As over HTTP, the case of
// names counts, and members that are unknown, repeated or null are refused.
func parseMembers(line []byte, v any) error {
	if !utf8.Valid(line) || rawjson.Unpaired(line) {
		return errors.New("is not valid UTF-8, or has half a surrogate pair")
	}
	if err := json.Unmarshal(line, new(json.RawMessage)); err != nil {
		return fmt.Errorf("is not valid JSON: %w", err)
	}
	var known []string
	for field := range reflect.TypeOf(v).Elem().Fields() {
		known = append(known, field.Tag.Get("json"))
	}
	if err := checkMembers(bytes.TrimSpace(line), known); err != nil {
		return err
	}
	err := json.Unmarshal(line, v)
	if unlike := (*json.UnmarshalTypeError)(nil); errors.As(err, &unlike) {
		return fmt.Errorf("member %q is a JSON %s", unlike.Field, unlike.Value)
	}
	return err
}

// checkMembers refuses members of an object and of objects in it that encoding/json would ignore or
// overwrite. An object without known names may have any.
func checkMembers(object []byte, known []string) (err error) {
	seen := make(map[string]bool)
	if !rawjson.EachMember(object, func(key, value []byte) bool {
		name, _ := rawjson.Text(key)
		switch {
		case known != nil && !slices.Contains(known, name):
			err = fmt.Errorf("unknown member %q", name)
			if near := spelling.Nearest(name, known); near != "" {
				err = fmt.Errorf("%w (did you mean %q?)", err, near)
			}
		case seen[name]:
			err = fmt.Errorf("member %q is given twice", name)
		case string(value) == "null":
			err = fmt.Errorf("member %q is null", name)
		case value[0] == '{':
			if err = checkMembers(value, nil); err != nil {
				err = fmt.Errorf("member %q: %w", name, err)
			}
		}
		seen[name] = true
		return err == nil
	}) {
		return errors.New("is not a JSON object")
	}
	return err
}

// unquoted returns the bytes of a JSON string with its encoding: "" or "base64".
func unquoted(member string, text *string, encoding string) ([]byte, error) {
	switch {
	case text == nil:
		return nil, fmt.Errorf("member %q is missing", member)
	case encoding == "":
		return []byte(*text), nil
	case encoding != "base64":
		return nil, fmt.Errorf("member %q is %q, it takes base64", member+"_encoding", encoding)
	}
	b, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, fmt.Errorf("member %q is not base64", member)
	}
	return b, nil
}
