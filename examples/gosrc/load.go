package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/kv"
)

// writers is how many files are written at a time. Writes that wait together share an fsync, so
// more writers are more writes a second.
const writers = 64

// load puts every file below dir at the key src/ and its path.
func load(ctx context.Context, store *kv.Store, dir string, stdout, stderr io.Writer) error {
	tree := os.DirFS(dir)
	paths, err := filesOf(tree)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done, size atomic.Int64
	progress := newProgress(stderr, len(paths))
	begun := time.Now()
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(paths)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				content, err := fs.ReadFile(tree, paths[i])
				if err == nil {
					_, err = store.Put(ctx, "src/"+paths[i], content)
				}
				if err != nil {
					cancel(err)
					return
				}
				size.Add(int64(len(content)))
				progress.show(done.Add(1))
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	took := time.Since(begun).Seconds()
	fmt.Fprintf(stdout, "loaded %d files, %d bytes in %.2f s: %.0f writes/s, %.0f MB/s by %d writers\n",
		done.Load(), size.Load(), took, float64(done.Load())/took, float64(size.Load())/1e6/took, writers)
	return nil
}

func filesOf(tree fs.FS) (paths []string, err error) {
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	w     io.Writer
	total int64
}

func newProgress(w io.Writer, total int) progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return progress{w, int64(total)}
		}
	}
	return progress{io.Discard, int64(total)}
}

// show draws the bar for every hundredth file and the last.
func (p progress) show(done int64) {
	if done%100 != 0 && done != p.total {
		return
	}
	const width = 40
	full := int(done * width / p.total)
	end := ""
	if done == p.total {
		end = "\n"
	}
	fmt.Fprintf(p.w, "\r[%s%s] %d/%d%s", strings.Repeat("#", full), strings.Repeat(" ", width-full), done, p.total, end)
}
