// Bench measures floe against the physical limits of the machine it runs on, and reports which bars
// of the design are met.
//
//	go run ./cmd/internal/bench                        the full form, about an hour
//	go run ./cmd/internal/bench -short                 the short form, two or three minutes
//	go run ./cmd/internal/bench -only put/64,get       rows whose names have these prefixes; a leading = means the exact name
//	go run ./cmd/internal/bench -list                  the names of the rows and their bars
//	go run ./cmd/internal/bench -profile DIR -only ... profiles of floe's side of the rows, no figures
//
// Every figure is a ratio to a limit that is measured in the same run, in turns with floe: absolute
// numbers mean nothing on a shared machine. The limits are
//
//	L1  a growing file to which callers append 256 bytes each, with one fdatasync for all that have gathered
//	L2  a Pebble without a WAL, with the options of floe's state, to which callers commit batches of one row
//	L3  a Go map behind 256 locks
//	L4  a file to which 1 MiB is appended at a time, with an fdatasync for each
//
// and, for some bars, floe's own put, a bare Pebble over the tables of the same node, a node
// embedded in its caller (for clients) and a single node (for clusters). The rows "recycled"
// compare L1 on an overwritten file with L1 on a growing one, which shows the cost of file growth.
// The rows "threefold" compare L1 into three files with L1 into one, which shows the disk's share
// in the cost of a cluster on one machine. The rows "overwrite" use 100,000
// existing keys, chosen at random, in one namespace of a node with 16 shards. With a redis-server
// on the PATH they are also compared with Redis. The rows "rest" have bars in requests per second,
// because the design has.
//
// Bytes written are those written to the disk that holds the data, as /sys/dev/block counts them,
// until the node is closed. They include the file system's journal and the writes of other
// programs, so leave the machine alone meanwhile. Allocations are those of the process, in all
// goroutines, per operation.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the program.
type bench struct {
	settings  settings
	values    values
	seed      uint64
	dir       string // for data; removed at the end
	profiles  string
	profiling string // the row to profile, "" if none
	log       func(format string, args ...any)
	sync      func() // returns when the disk is idle

	prepared map[int]func() (string, error) // directories by their number of keys, see stored
}

// options are the flags that are not settings.
type options struct {
	only, readme, baseline, dir, profiles string
	idle, member                          string
	short, check, list                    bool
	seed                                  uint64
}

func run(args []string) error {
	o, s, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case o.idle != "":
		return idle(o.idle, os.Stdin)
	case o.member != "":
		return member(o.member, os.Stdin)
	}
	b := &bench{settings: s, seed: o.seed, profiles: o.profiles, log: progress, sync: syscall.Sync}
	b.values = newValues(o.seed)
	rows := choose(b.rows(), o)
	switch {
	case len(rows) == 0:
		return fmt.Errorf("no row begins with %q, see -list", o.only)
	case o.list:
		for _, r := range rows {
			fmt.Printf("%-32s %s\n", r.name, r.wants())
		}
		return nil
	}
	if b.dir, err = os.MkdirTemp(o.dir, "floe-bench-"); err != nil {
		return err
	}
	if o.profiles != "" {
		runtime.MemProfileRate = 0
		err = b.profileRows(rows)
	} else {
		err = b.report(rows, o)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func parse(args []string) (o options, s settings, err error) {
	var shards string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.only, "only", "", "rows whose names begin so, separated by commas")
	f.BoolVar(&o.list, "list", false, "list the rows and their bars")
	f.BoolVar(&o.short, "short", false, "the short form: the rows that tell most, with short rounds and few keys")
	f.StringVar(&o.readme, "write", "", "put the table between the marks of this file")
	f.StringVar(&o.baseline, "baseline", "", "write the figures into this file, or with -check compare them with it")
	f.BoolVar(&o.check, "check", false, "fail if a ratio is below 0.85 of the baseline's")
	f.StringVar(&o.profiles, "profile", "", "write CPU, allocs, block and mutex profiles of each row into this directory")
	f.StringVar(&o.dir, "dir", "", "directory for data, on the disk that is to be measured; the system's for temporary files if empty")
	f.Uint64Var(&o.seed, "seed", 1, "seed of values and of the order of reads")
	f.StringVar(&o.idle, idleFlag, "", "open an empty node on this directory and wait; for the row memory/empty")
	f.StringVar(&o.member, memberFlag, "", "open the node of this configuration and wait; for the rows of clusters")
	f.IntVar(&s.rounds, "rounds", 0, "rounds of each row; 0: 5, or 3 in the short form")
	f.DurationVar(&s.last, "time", 0, "length of a round; 0: 10s, or 1.5s in the short form")
	f.StringVar(&shards, "shards", "1,4,8", "numbers of shards that writes are measured with")
	f.DurationVar(&s.fsync, "fsync", 2*time.Millisecond, "what is added to each sync in the rows with a slower disk")
	f.IntVar(&s.keys, "keys", 0, "stored keys that reads find; 0: 10 million, or 300,000 in the short form")
	f.Int64Var(&s.puts, "puts", 5_000_000, "puts of the sustained row")
	f.IntVar(&s.behind, "messages", 1_000_000,
		"messages that are behind those of a row, or go through in one run; ten times as many go before")
	f.IntVar(&s.tail, "tail", 1_000_000, "commands that the slowest open replays")
	if err := f.Parse(args); err != nil {
		return o, s, err
	}
	if o.check && o.baseline == "" {
		return o, s, errors.New("-check needs -baseline")
	}
	if f.NArg() > 0 {
		return o, s, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	s.fill(o.short)
	s.shards, err = numbers(shards)
	return o, s, err
}

// fill replaces zero values by defaults.
func (s *settings) fill(short bool) {
	full := settings{rounds: 5, last: 10 * time.Second, keys: 10_000_000}
	if short {
		full = settings{rounds: 3, last: 1500 * time.Millisecond, keys: 300_000}
	}
	s.counted, s.hot = 2000, 10_000
	if s.rounds == 0 {
		s.rounds = full.rounds
	}
	if s.last == 0 {
		s.last = full.last
	}
	if s.keys == 0 {
		s.keys = full.keys
	}
}

// form describes how figures were measured.
func (s settings) form() string {
	return fmt.Sprintf("medians of %d rounds of %v, %s stored keys", s.rounds, s.last, thousands(float64(s.keys)))
}

func numbers(list string) (ns []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of numbers of shards", list)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// choose returns the rows selected by the flags.
func choose(all []row, o options) (rows []row) {
	for _, r := range all {
		if o.only == "" && (r.short || !o.short) || o.only != "" && wanted(r.name, o.only) {
			rows = append(rows, r)
		}
	}
	return rows
}

// wanted reports whether the name begins with an entry of the list, which must end at a slash or at
// the end of the name.
func wanted(name, list string) bool {
	for want := range strings.SplitSeq(list, ",") {
		whole, exact := strings.CutPrefix(want, "=")
		if name == whole || !exact && strings.HasPrefix(name, want+"/") {
			return true
		}
	}
	return false
}

// report measures the rows, and prints, stores and checks the figures as the flags say. It prints
// the table even if storing or checking fails.
func (b *bench) report(rows []row, o options) error {
	form := b.settings.form()
	var base baseline
	if o.check {
		var err error
		if base, err = readBaseline(o.baseline); err != nil {
			return err
		}
		if base.Form != form {
			return fmt.Errorf("the baseline %s was measured with %s, this is to be %s", o.baseline, base.Form, form)
		}
	}
	var all []measured
	for _, r := range rows {
		m, err := b.measure(r)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	table := render(thisMachine(b.dir, time.Now()), strings.ToUpper(form[:1])+form[1:]+".", all)
	fmt.Println(table)
	var errs []error
	if o.readme != "" {
		errs = append(errs, writePage(o.readme, table))
	}
	switch {
	case o.check:
		errs = append(errs, base.compare(all, func(m measured) (measured, error) { return b.measure(m.row) }))
	case o.baseline != "":
		errs = append(errs, baseline{Form: form}.write(o.baseline, all))
	}
	return errors.Join(errs...)
}

func (b *bench) measure(r row) (measured, error) {
	b.log("%s, %s", r.name, r.wants())
	res, err := r.work.measure(b)
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", r.name, err)
	}
	return measured{r, res}, nil
}

// wants describes the bar.
func (r row) wants() string {
	switch {
	case r.more:
		return fmt.Sprintf("at least %g %s", r.bar, r.unit)
	case r.absolute:
		return fmt.Sprintf("at most %g %s", r.bar, r.unit)
	case r.bar == 0:
		return "compared with " + r.against
	}
	return fmt.Sprintf("at least %.2f of %s", r.bar, r.against)
}

// progress reports the progress on standard error: standard output is for the table only.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
