// Command metrics collects what this machine does, processor, memory, disks and network, into time
// series, and asks questions about them in FloQL.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/floql"
)

func main() {
	length := flag.Duration("for", time.Minute, "how long to collect")
	every := flag.Duration("every", time.Second, "time between two collections")
	data := flag.String("data", "", "directory that keeps the series; in memory if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, options{*length, *every, *data, "/proc"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	length, every time.Duration
	data, proc    string
}

func run(ctx context.Context, out io.Writer, o options) error {
	node, err := floe.Open(floe.Config{DataDir: o.data})
	if err != nil {
		return err
	}
	defer node.Close()
	fmt.Fprintf(out, "collecting every %v for %v; ctrl-c asks at once\n", o.every, o.length)
	if err := collect(ctx, node, o); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	list, err := node.TS("default").Page(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Items {
		fmt.Fprintf(out, "%-8s %3d series, %d fields, %d points\n", m.Name, m.Series, len(m.Fields), m.Points)
	}
	for _, q := range questions {
		if err := ask(ctx, node, out, q.question, strings.ReplaceAll(q.query, "STEP", step(o.length))); err != nil {
			return err
		}
	}
	return nil
}

// collect writes what the machine does until the time is over.
func collect(ctx context.Context, node *floe.Node, o options) error {
	over := time.After(o.length)
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		points, err := sample(o.proc, time.Now())
		if err != nil {
			return err
		}
		if _, err := node.TS("default").Write(context.WithoutCancel(ctx), points...); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// step is a sixth of the time, in whole seconds.
func step(length time.Duration) string {
	return fmt.Sprintf("%ds", max(1, int(length.Seconds()/6)))
}

// questions are what one may want to know. Counters of the kernel only grow, so rate makes speeds
// of them.
var questions = []struct{ question, query string }{
	{"How busy was the whole machine, in percent of one processor?",
		`cpu{mode!=idle,mode!=iowait} | rate(STEP) | sum() | math(value * 100) | round(1)`},
	{"What did the processors do?", `cpu | rate(STEP) | group_by(mode) | avg() | math(value * 100) | round(1) | topk(3)`},
	{"How much memory was in use at most, in MiB?", `memory | field(used) | window(STEP) | max() | math(value / 1048576) | round(0)`},
	{"Which disks wrote most, in KiB a second?",
		`disk | field(written) | rate(STEP) | group_by(device) | sum() | math(value / 1024) | round(1) | topk(2)`},
	{"What came in from the network, in KiB a second?",
		`network{interface!=lo} | field(received) | rate(STEP) | group_by(interface) | sum() | math(value / 1024) | round(1)`},
}

func ask(ctx context.Context, node *floe.Node, out io.Writer, question, query string) error {
	result, err := node.FloQL(ctx, "default", query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	fmt.Fprintf(out, "\n%s\n  %s\n", question, query)
	for _, s := range result.Series {
		fmt.Fprintf(out, "  %-24s", name(&s))
		for _, p := range s.Points {
			fmt.Fprintf(out, " %8v", p.Value)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func name(s *floql.ResultSeries) string {
	for _, t := range s.Tags {
		return t.Value
	}
	return s.Key
}
