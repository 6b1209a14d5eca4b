// Command processing tells how many lines of Go are written in an hour, and by whom: it appends an
// event for each file of the Go standard library to a stream, and a job makes sums of them.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// The definitions: of the job, and of one that the job can not be changed to without losing
// something.
//
//go:embed lines.yaml
var lines []byte

//go:embed two-hours.yaml
var twoHours []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	src := flag.String("src", "", "`directory` of Go packages (default the src of go env GOROOT)")
	flag.Parse()
	dir, err := *src, error(nil)
	if dir == "" {
		dir, err = goSource()
	}
	if err == nil {
		err = run(ctx, os.DirFS(dir), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "processing:", err)
		os.Exit(1)
	}
}

func goSource() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w: name a directory with -src", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}

func run(ctx context.Context, src fs.FS, out io.Writer) (err error) {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	for name, team := range map[string]string{"net": "network", "crypto": "security", "encoding": "formats", "archive": "formats"} {
		if _, err := node.KV("code").Put(ctx, "owner:"+name, fmt.Appendf(nil, `{"team":%q}`, team)); err != nil {
			return err
		}
	}
	if err := write(ctx, node.Stream("code"), src, out); err != nil {
		return err
	}
	jobs := node.Processing("code")
	made, err := jobs.Submit(ctx, lines)
	if err != nil {
		return err
	}
	job, err := ended(ctx, jobs, made.Job)
	if err != nil {
		return err
	}
	if err := tell(ctx, node, job, out); err != nil {
		return err
	}
	plan, err := jobs.Plan(ctx, made.Job, processing.ReplaceDefinition(twoHours))
	fmt.Fprintf(out, "windows of two hours: keeps %v, drops %v\n", plan.Kept, plan.Dropped)
	return err
}

// event says that a file was written.
type event struct {
	Path    string `json:"path"`
	Package string `json:"package"` // the first part of the path
	Lines   int    `json:"lines"`
	At      int64  `json:"at"` // ms
}

// write appends an event for each file, as if they had been written one after the other in a night,
// one in ten seconds.
func write(ctx context.Context, files *stream.Store, src fs.FS, out io.Writer) error {
	at := time.Date(2025, 1, 1, 20, 0, 0, 0, time.UTC)
	var batch []stream.Message
	n := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n += len(batch)
		_, err := files.AppendMany(ctx, "files", batch)
		batch = nil
		return err
	}
	err := fs.WalkDir(src, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(path.Dir(name), "/")
		text, err := json.Marshal(event{name, first, bytes.Count(content, []byte("\n")), at.UnixMilli()})
		at = at.Add(10 * time.Second)
		if batch = append(batch, stream.Message{Key: first, Payload: text}); len(batch) < 1000 {
			return err
		}
		return errors.Join(err, flush())
	})
	err = cmp.Or(err, flush())
	fmt.Fprintf(out, "%d files\n", n)
	return err
}

// ended returns a job that runs no more.
func ended(ctx context.Context, jobs *processing.Store, id processing.JobID) (processing.Detail, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		job, err := jobs.Get(ctx, id)
		if err != nil || job.Status != processing.Running {
			return job, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return job, ctx.Err()
		}
	}
}

// tell prints what the job has written.
func tell(ctx context.Context, node *floe.Node, job processing.Detail, out io.Writer) error {
	m := job.Metrics
	fmt.Fprintf(out, "%v: %d records in, %d out, %d errors\n", job.Status, m.RecordsIn, m.RecordsOut, m.Errors)
	for _, o := range m.Operators {
		fmt.Fprintf(out, "  %-6s %6d in %6d out\n", o.Name, o.In, o.Out)
	}
	recs, err := node.Stream("code").Read(ctx, "lines-per-team", stream.Limit(5))
	if err != nil {
		return err
	}
	for _, r := range recs {
		fmt.Fprintf(out, "%s\n", r.Payload)
	}
	review, err := node.Queue("code").Get(ctx, "review")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d hours to review\n", review.Ready)
	latest, err := node.KV("code").Get(ctx, "lines:network")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "network, last: %s\n", latest.Value)
	history, err := node.TS("code").Get(ctx, "lines")
	fmt.Fprintf(out, "%d points of %d teams\n", history.Points, history.Series)
	return err
}
