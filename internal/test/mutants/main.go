// Mutants plants random bugs in the product, one at a time, and runs the tests of the package with
// the bug: their short form first, and if that notices nothing, all of them. A bug that no test
// notices is a survivor: either the tests lack a case, or the change makes no difference.
// survivors.txt lists the second kind with the reason, and those are not drawn again.
//
//	go run ./internal/test/mutants -n 200 ./kv ./queue
//
// A bug is a changed operator, condition, constant or return value, or a removed statement. All
// bugs of a package are compiled into one test binary, which an environment variable selects from;
// go test -overlay leaves the tree unchanged. The exit status is 1 if fewer than -noticed percent
// are noticed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"time"
)

func main() {
	var (
		n       = flag.Int("n", 20, "number of bugs")
		seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the draw")
		jobs    = flag.Int("jobs", 2, "number of test runs at a time")
		limit   = flag.Duration("timeout", 5*time.Minute, "time limit of one test run, which counts as noticed")
		noticed = flag.Int("noticed", 95, "percentage of bugs that must be noticed")
		all     = flag.Bool("all", true, "try all tests if the short ones notice nothing")
		list    = flag.Bool("list", false, "list the sites of all packages and exit")
		known   = flag.String("known", "internal/test/mutants/survivors.txt", "file that lists reviewed survivors, each with the reason")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, config{*n, *seed, *jobs, *limit, *noticed, *all, *list, *known}, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// config holds the flags of main.
type config struct {
	n       int
	seed    uint64
	jobs    int
	limit   time.Duration
	noticed int
	all     bool
	list    bool
	known   string
}

// packages lists the packages whose own tests must notice a bug.
var packages = []string{
	"./kv", "./stream", "./stream/processing", "./queue", "./ts", "./floql", "./action", "./workflow",
	"./internal/engine", "./internal/wait", "./internal/shard", "./internal/auth", "./internal/workloop", "./internal/workers",
	"./internal/cron",
}

func run(ctx context.Context, c config, dirs []string) error {
	if len(dirs) == 0 {
		dirs = packages
	}
	reviewed, err := readReviewed(c.known)
	if err != nil {
		return err
	}
	var all []mutant
	for _, dir := range dirs {
		found, err := mutantsOf(dir)
		if err != nil {
			return err
		}
		for _, m := range found {
			if reviewed[m.id()] == "" {
				all = append(all, m)
			}
		}
	}
	if c.list {
		for _, m := range all {
			fmt.Println(m)
		}
		return nil
	}
	fmt.Printf("%d places in %d packages, %d reviewed survivors, seed %d\n", len(all), len(dirs), len(reviewed), c.seed)
	rng := rand.New(rand.NewPCG(c.seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return trial(ctx, c, all)
}

// trial compiles mutants in turn until n of them are valid, tries those, and reports.
func trial(ctx context.Context, c config, all []mutant) error {
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var (
		valid     int
		survivors []mutant
	)
	for len(all) > 0 && valid < c.n {
		drawn := all[:min(len(all), c.n-valid)]
		all = all[len(drawn):]
		tried, survived, err := round(ctx, c, drawn, tmp)
		if err != nil {
			return err
		}
		valid += tried
		survivors = append(survivors, survived...)
	}
	if valid == 0 {
		return fmt.Errorf("no bug compiled")
	}
	fmt.Printf("noticed: %d of %d\n", valid-len(survivors), valid)
	for _, m := range survivors {
		fmt.Println(m.id())
	}
	if percent := 100 * (valid - len(survivors)) / valid; percent < c.noticed {
		return fmt.Errorf("%d %% noticed, want %d %%", percent, c.noticed)
	}
	return nil
}

// round builds the mutants and tries them. It returns how many are valid, and the survivors.
func round(ctx context.Context, c config, drawn []mutant, tmp string) (tried int, survivors []mutant, err error) {
	var (
		mu   sync.Mutex
		work sync.WaitGroup
		slot = make(chan struct{}, max(c.jobs, 1))
	)
	defer work.Wait()
	for _, b := range builds(drawn) {
		dir, err := os.MkdirTemp(tmp, "")
		if err != nil {
			return 0, nil, err
		}
		if err := b.compile(ctx, dir); err != nil {
			return 0, nil, err
		}
		if err := b.passes(ctx, c.limit); err != nil {
			return 0, nil, err
		}
		var left sync.WaitGroup
		for i, m := range b.mutants {
			slot <- struct{}{}
			left.Add(1)
			work.Go(func() {
				defer func() { <-slot; left.Done() }()
				start := time.Now()
				v, by := b.try(ctx, i, c.limit, c.all)
				mu.Lock()
				defer mu.Unlock()
				if v != invalid {
					tried++
					fmt.Printf("%-8s %s  %s (%.0f s)\n", v, m, by, time.Since(start).Seconds())
				}
				if v == survived {
					survivors = append(survivors, m)
				}
			})
		}
		work.Go(func() {
			left.Wait()
			os.RemoveAll(dir) // binaries are large
		})
	}
	work.Wait()
	return tried, survivors, ctx.Err()
}
