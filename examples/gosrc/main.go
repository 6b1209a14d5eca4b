// Gosrc loads the source of the Go standard library into a floe node, one key per file, and lets it
// be browsed over HTTP.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/kv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gosrc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gosrc", flag.ContinueOnError)
	flags.SetOutput(stderr)
	src := flags.String("src", "", "`directory` to load (default the src of go env GOROOT)")
	dataDir := flags.String("data-dir", "", "`directory` of the node (default a new temporary one)")
	addr := flags.String("addr", "127.0.0.1:9002", "where to serve the dashboard")
	once := flags.Bool("once", false, "exit instead of serving")
	err := flags.Parse(args)
	if err == nil && *src == "" {
		*src, err = goSource()
	}
	if err == nil && *dataDir == "" {
		*dataDir, err = os.MkdirTemp("", "floe-gosrc-")
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "data in", *dataDir)

	// Some files are longer than 1 MiB, the limit unless configured otherwise.
	node, err := floe.Open(floe.Config{DataDir: *dataDir, MaxValueSize: 16 << 20})
	if err != nil {
		return err
	}
	store := node.KV("gosrc")
	err = load(ctx, store, *src, stdout, stderr)
	if err == nil {
		err = list(ctx, store, "src/net/http/", stdout)
	}
	if err == nil {
		err = edit(ctx, store, "src/net/http/server.go", stdout)
	}
	if err == nil && !*once {
		err = serve(ctx, node, *addr, stdout)
	}
	return errors.Join(err, node.Close())
}

func goSource() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w: name a directory with -src", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}

// list prints the first files of a directory, and the size of all. To the store a directory is a
// prefix of keys.
func list(ctx context.Context, store *kv.Store, prefix string, stdout io.Writer) error {
	const shown = 5
	files, size := 0, 0
	for item, err := range store.All(ctx, kv.Prefix(prefix), kv.NoValues(), kv.Limit(kv.MaxPageItems)) {
		if err != nil {
			return err
		}
		if files < shown {
			fmt.Fprintf(stdout, "%9d  %s\n", item.Size, item.Key)
		}
		files, size = files+1, size+item.Size
	}
	fmt.Fprintf(stdout, "%9d  in all %d files of %s\n", size, files, prefix)
	return nil
}

// edit appends a line to a file, unless it has changed meanwhile, and prints what was
// kept of it.
func edit(ctx context.Context, store *kv.Store, key string, stdout io.Writer) error {
	file, err := store.Get(ctx, key)
	if err != nil {
		return err
	}
	edited := append(file.Value, "// Edited in floe.\n"...)
	if _, err := store.Put(ctx, key, edited, kv.IfRevision(file.Revision)); err != nil {
		return err
	}
	_, err = store.Put(ctx, key, nil, kv.IfRevision(file.Revision)) // too late: this revision is gone
	fmt.Fprintf(stdout, "a second edit of the same revision: %v\n", cmp.Or(err, errors.New("went through")))
	for v, err := range store.History(key).All(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "version %d: %d bytes, %s\n", v.Version, v.Size, v.Time.Format(time.DateTime))
	}
	return nil
}

func serve(ctx context.Context, node *floe.Node, addr string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: dashboard.New(node, dashboard.Options{LoopbackOnly: true}), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	keys := "http://" + listener.Addr().String() + "/api/v1/kv/namespaces/gosrc/keys"
	fmt.Fprintf(stdout, "\nserving until ctrl-c; try\n  curl '%s?prefix=src/net/http/&limit=3'\n", keys)
	fmt.Fprintf(stdout, "  curl '%s/src%%2Fnet%%2Fhttp%%2Fdoc.go'\n  curl '%s/src%%2Fnet%%2Fhttp%%2Fserver.go/history'\n", keys, keys)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
