package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floedb/floe"
	"github.com/floedb/floe/cmd/internal/stress"
	"github.com/floedb/floe/kv"
)

// benchOptions are the flags of floe bench.
type benchOptions struct {
	last            time.Duration
	clients         int
	valueSize, keys int
	embedded        bool
	dataDir         string
	durability      string
}

func benchCommand(p Process) *cobra.Command {
	f := &frame{Process: p}
	o := benchOptions{last: 5 * time.Second}
	var names []string
	long := "Put loads on a node, each for a time, and say how many calls it bears and how long they take.\n\n"
	for _, w := range stress.Workloads {
		names = append(names, w.Name)
		long += fmt.Sprintf("  %-14s %s\n", w.Name, w.Doc)
	}
	cmd := &cobra.Command{
		Use:   "bench [LOAD...]",
		Short: "Benchmark a node",
		Long: long + `
Without a name all of them run, one after the other. They work on the node at --addr, or on
one in this process: --embedded in memory, --data-dir on a disk. What they write is in the
namespace bench, or the one of --namespace, and stays there.`,
		Example: `  floe bench
  floe bench kv-put kv-get --clients 256 --for 30s
  floe bench --data-dir /tmp/bench --durability async queue -o json`,
		ValidArgs: names,
		Args:      cobra.ArbitraryArgs,
	}
	f.equip(cmd)
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(newFlag(&o.last, "duration", positiveDuration), "for", "duration of each load (default 5s)")
	flags.IntVar(&o.clients, "clients", 64, "number of concurrent clients")
	flags.IntVar(&o.valueSize, "value-size", 256, "size of values and payloads in bytes")
	flags.IntVar(&o.keys, "keys", 10_000, "number of keys")
	flags.BoolVar(&o.embedded, "embedded", false, "use an in-memory node in this process")
	flags.StringVar(&o.dataDir, "data-dir", "", "use a node in this process with this data `dir`")
	flags.StringVar(&o.durability, "durability", "sync", "durability of a node in this process: sync or async")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := exclusive(cmd, "addr", "embedded", "data-dir"); err != nil {
			return err
		}
		loads, err := o.check(cmd, args)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("namespace") {
			f.namespace = "bench"
		}
		if !o.embedded && o.dataDir == "" {
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return coded(f.connected(ctx, cmd, func(s *session) error {
				if most := s.MaxValueSize(); o.valueSize > most {
					return &usageError{fmt.Errorf("--value-size=%d: the node takes values of %d bytes at most", o.valueSize, most),
						helpHint(cmd)}
				}
				return f.bench(cmd.Context(), o, s.Client, loads)
			}))
		}
		durability := floe.Sync
		if o.durability == "async" {
			durability = floe.Async
		}
		node, err := floe.Open(floe.Config{DataDir: o.dataDir, Durability: durability,
			MaxValueSize: max(o.valueSize, kv.DefaultMaxValueBytes)})
		if err != nil {
			return coded(err)
		}
		return coded(errors.Join(f.bench(cmd.Context(), o, node, loads), node.Close()))
	}
	return cmd
}

// check returns the selected loads.
func (o *benchOptions) check(cmd *cobra.Command, args []string) (loads []stress.Workload, err error) {
	const mostClients, mostValue, mostKeys = 10_000, 16 << 20, 10_000_000
	switch {
	case o.clients < 1 || o.clients > mostClients:
		err = fmt.Errorf("--clients=%d: it takes 1 to %d", o.clients, mostClients)
	case o.valueSize < 1 || o.valueSize > mostValue:
		err = fmt.Errorf("--value-size=%d: it takes 1 to %d", o.valueSize, mostValue)
	case o.keys < 1 || o.keys > mostKeys:
		err = fmt.Errorf("--keys=%d: it takes 1 to %d", o.keys, mostKeys)
	case cmd.Flags().Changed("durability") && o.dataDir == "":
		err = fmt.Errorf("--durability=%s: is for a node with --data-dir; another one has its own", o.durability)
	case o.durability != "sync" && o.durability != "async":
		err = fmt.Errorf("--durability=%s: not one of async, sync", o.durability)
	}
	for _, name := range args {
		if at := slices.IndexFunc(stress.Workloads, func(w stress.Workload) bool { return w.Name == name }); at >= 0 {
			loads = append(loads, stress.Workloads[at])
		} else if err == nil {
			err = fmt.Errorf("unknown load %q: there are %s", name, strings.Join(cmd.ValidArgs, ", "))
		}
	}
	if err != nil {
		return nil, &usageError{err, helpHint(cmd)}
	}
	if len(args) == 0 {
		loads = stress.Workloads
	}
	return loads, nil
}

// benchResult is the result of one load.
type benchResult struct {
	Load      string  `json:"load"`
	Calls     uint64  `json:"calls"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
	Busy      uint64  `json:"busy"`
	Failed    uint64  `json:"failed"`
	Error     string  `json:"error,omitempty"` // the first error of the failed calls
}

// bench runs loads one after the other and prints their results. If the user interrupts it, it
// prints the results so far.
func (f *frame) bench(ctx context.Context, o benchOptions, db floe.DB, loads []stress.Workload) error {
	results := make([]benchResult, 0, len(loads))
	t := table{head: []string{"LOAD", "CALLS", "PER SECOND", "P50", "P90", "P99", "P99.9", "MAX", "BUSY", "FAILED"}}
	tell := f.benchProgress()
	failed, none := false, error(nil)
	for i := range loads {
		r, err := loads[i].Run(ctx, stress.Target{DB: db, Namespace: f.namespace, ValueSize: o.valueSize, Keys: o.keys, Callers: o.clients},
			o.last, tell)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		one := newBenchResult(&r)
		if r.Calls == 0 && none == nil {
			none = &textError{floe.ErrUnavailable,
				fmt.Sprintf("%s: no call has succeeded: %d found the node busy, %d failed", one.Load, one.Busy, one.Failed)}
		}
		if one.Error != "" {
			failed = true
			fmt.Fprintf(f.Stderr, "floe: %s: %d calls have failed, the first with: %s\n", one.Load, one.Failed, one.Error)
		}
		results = append(results, one)
		t.rows = append(t.rows, []string{
			one.Load, decimal(one.Calls), strconv.FormatFloat(one.PerSecond, 'f', 0, 64), shownLatency(one.P50), shownLatency(one.P90),
			shownLatency(one.P99),
			shownLatency(one.P999), shownLatency(one.Max), decimal(one.Busy), decimal(one.Failed),
		})
	}
	if err := f.output.print(results, t); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if none != nil {
		return coded(none)
	}
	if failed {
		return errors.New("some calls have failed")
	}
	return nil
}

func newBenchResult(r *stress.Result) benchResult {
	// a percentile is the middle of a bucket
	ms := func(d time.Duration) float64 { return float64(min(d, r.Slowest).Microseconds()) / 1000 }
	one := benchResult{
		Load: r.Name, Calls: r.Calls, PerSecond: r.Rate(), P50: ms(r.Latency.Quantile(0.5)), P90: ms(r.Latency.Quantile(0.9)),
		P99:  ms(r.Latency.Quantile(0.99)),
		P999: ms(r.Latency.Quantile(0.999)), Max: ms(r.Slowest), Busy: r.Busy, Failed: r.Failed,
	}
	if r.First != nil {
		one.Error = r.First.Error()
	}
	return one
}

func shownLatency(ms float64) string { return strconv.FormatFloat(ms, 'f', 3, 64) + " ms" }

// benchProgress returns a function that shows the progress of a load, or nil if there is no
// terminal.
func (f *frame) benchProgress() func(stress.Progress) {
	if !isTerminal(f.Stderr) {
		return nil
	}
	const width = 24
	return func(p stress.Progress) {
		full := min(int(width*p.Past/max(p.Whole, 1)), width)
		bar := strings.Repeat("#", full) + strings.Repeat("-", width-full)
		end := ""
		if p.Past >= p.Whole {
			end = "\n"
		}
		_, _ = io.WriteString(f.Stderr, fmt.Sprintf("\r\x1b[K%-14s [%s] %d calls, %.0f a second, %d refused or failed%s",
			p.Name, bar, p.Calls, float64(p.Calls)/max(p.Past.Seconds(), 1e-3), p.Wrong, end))
	}
}
