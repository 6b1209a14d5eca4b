package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The output formats.
const (
	formatTable = "table" // for people
	formatRaw   = "raw"   // for scripts: no headers, one tab between columns; see writeRaw
	formatJSON  = "json"  // one document
)

func outputFormat(v string) (format string, err error) {
	all := map[string]string{formatTable: formatTable, formatRaw: formatRaw, formatJSON: formatJSON}
	return format, choose(&format, v, all)
}

// output prints results.
type output struct {
	w      io.Writer
	format string
}

// addOutput adds the flag for the format to a command, and returns the output that uses it.
func addOutput(cmd *cobra.Command, p Process) *output {
	o := &output{w: p.Stdout, format: formatTable}
	cmd.PersistentFlags().VarP(newFlag(&o.format, "format", outputFormat), "output", "o",
		"output format: table, json, or raw: columns between tabs, with \\t and \\n in values escaped; also FLOE_OUTPUT (default table)")
	formats := cobra.FixedCompletions([]string{formatTable, formatRaw, formatJSON}, cobra.ShellCompDirectiveNoFileComp)
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc("output", formats)
	return o
}

// table is a result, or a part of one, in rows. Without a header, each row is a name and a value.
type table struct {
	name string // name of the part; raw rows begin with it if there are several parts
	head []string
	rows [][]string
}

// print prints a result: the document with -o json, the tables otherwise.
func (o *output) print(document any, tables ...table) error {
	switch o.format {
	case formatJSON:
		return o.encode(document, "  ")
	case formatRaw:
		return o.printRaw(tables)
	}
	for i, t := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(o.w); err != nil {
				return err
			}
		}
		if err := o.printTable(t); err != nil {
			return err
		}
	}
	return nil
}

// partRows is the number of rows that a long listing prints as one table.
const partRows = 1000

// printEach prints items in rows as they arrive, because they may not fit into memory. In JSON they
// belong in one document, which whole makes of them; nil means the list itself.
func printEach[T, D any](o *output, items iter.Seq2[T, error], head []string, document func(T) D, row func(T) []string,
	whole func([]D) any) error {
	all, part := []D{}, table{head: head}
	for item, err := range items {
		if err != nil {
			return err
		}
		if o.format == formatJSON {
			all = append(all, document(item))
			continue
		}
		if part.rows = append(part.rows, row(item)); len(part.rows) == partRows {
			if err := o.print(nil, part); err != nil {
				return err
			}
			part = table{}
		}
	}
	switch {
	case o.format == formatJSON && whole != nil:
		return o.print(whole(all))
	case o.format == formatJSON:
		return o.print(all)
	case part.head == nil && part.rows == nil:
		return nil
	}
	return o.print(nil, part)
}

// cell returns bytes for a row: all of them for scripts, a shortened form for people.
func (o *output) cell(bytes []byte) string {
	if o.format == formatRaw {
		return string(bytes)
	}
	return shortened(bytes)
}

// line is cell for JSON. In raw format it removes line breaks and tabs between values, so that a
// script can read one row per line.
func (o *output) line(document []byte) string {
	var compact bytes.Buffer
	if o.format == formatRaw && json.Compact(&compact, document) == nil {
		return compact.String()
	}
	return o.cell(document)
}

// printValue prints a result that is a single value. Scripts get exactly its bytes in both table
// and raw format; on a terminal a line break follows.
func (o *output) printValue(document any, value []byte) error {
	if o.format == formatJSON {
		return o.encode(document, "  ")
	}
	if o.format == formatTable && isTerminal(o.w) {
		value = append(value, '\n')
	}
	_, err := o.w.Write(value)
	return err
}

// encode writes one document, on one line if indent is empty.
func (o *output) encode(document any, indent string) error {
	e := json.NewEncoder(o.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(document)
}

func (o *output) printRaw(tables []table) error {
	for _, t := range tables {
		for _, row := range t.rows {
			if len(tables) > 1 {
				row = slices.Concat([]string{t.name}, row)
			}
			if err := o.writeRaw(row...); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawEscapes are the escapes of raw rows.
var rawEscapes = strings.NewReplacer("\t", `\t`, "\n", `\n`, "\r", `\r`)

// writeRaw writes a row for scripts. Tabs and line breaks in a cell are escaped, so that each row
// is a line and has its columns.
func (o *output) writeRaw(cells ...string) error {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = rawEscapes.Replace(cell)
	}
	_, err := fmt.Fprintln(o.w, strings.Join(row, "\t"))
	return err
}

func (o *output) printTable(t table) error {
	w := tabwriter.NewWriter(o.w, 0, 0, 2, ' ', 0)
	rows := t.rows
	if t.head != nil {
		rows = slices.Concat([][]string{t.head}, rows)
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		// Flush returns the errors.
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// shortened is the beginning of a value for a row of a table.
func shortened(value []byte) string {
	const most = 100
	if len(value) <= most {
		return string(value)
	}
	return fmt.Sprintf("%s... (%d bytes)", value[:most], len(value))
}

// printable returns text, quoted if it would break out of its cell or control the terminal.
func printable(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// jsonText returns bytes as a JSON string. If they are not text, it returns them in base64 (RFC
// 4648, section 4) with the encoding "base64".
func jsonText(bytes string) (text, encoding string) {
	if utf8.ValidString(bytes) {
		return bytes, ""
	}
	return base64.StdEncoding.EncodeToString([]byte(bytes)), "base64"
}

// shownTime formats a time for tables.
func shownTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// shownDuration formats a duration as flags accept it: 7d, 36h, 10m, 1.5s.
func shownDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if whole, found := strings.CutSuffix(text, zero); found {
			text = whole + zero[:1]
		}
	}
	return text
}

// shownOptionalTime formats a time, or returns "-" for the zero time.
func shownOptionalTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return shownTime(t)
}

// optionalMillis is a time in JSON, nil for the zero time.
func optionalMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

func decimal[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }

// collected reads an iterator up to its end or the first error.
func collected[T any](all iter.Seq2[T, error]) (items []T, err error) {
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
