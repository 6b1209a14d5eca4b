// Command 12-dashboard is a web server that mounts floe's console and JSON API under a prefix,
// behind its own password.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "bind address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, addr string) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes(node), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	fmt.Fprintf(out, "shop:    http://%s/\nconsole: http://%s/admin/floe/ (user admin, password secret)\n", listener.Addr(), listener.Addr())

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(finish); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// routes has the pages of the program and, for administrators, floe's own.
func routes(node *floe.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		visits, err := node.KV("shop").Incr(r.Context(), "visits", 1)
		if err != nil {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "welcome, visitor %d\n", visits.Value)
	})
	console := dashboard.New(node, dashboard.Options{ReadOnly: true})
	mux.Handle("/admin/floe/", administrators(http.StripPrefix("/admin/floe", console)))
	return mux
}

// administrators asks for a password. A real program uses its own sessions and roles.
func administrators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "admin" || subtle.ConstantTimeCompare([]byte(password), []byte("secret")) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
			http.Error(w, "administrators only", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
