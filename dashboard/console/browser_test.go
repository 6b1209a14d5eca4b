//go:build console

package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
	"github.com/floedb/floe/internal/demo"
	"github.com/floedb/floe/stream"
)

var (
	hold = flag.Bool("hold", false, "serve until interrupted, for a look or for npm run dev, and test nothing")
	full = flag.Bool("full", false, "all of the browser tests: every mount, axe on every screen, screenshots in both themes")
	only = flag.String("only", "", "run only the browser tests whose names match")
)

// TestBrowser has a real browser look at real nodes with the shop of floe demo in them: one that is
// open, mounted at the root, below a prefix, behind a proxy that calls the prefix something else,
// and for reading only; and one with keys.
func TestBrowser(t *testing.T) {
	node := openShop(t)
	if err := awkward(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	prefixed := http.NewServeMux()
	prefixed.Handle("/admin/floe/", http.StripPrefix("/admin/floe", dashboard.New(node, dashboard.Options{})))
	host := serve(t, prefixed)
	proxy := serve(t, rename(t, host, "/admin/floe/", "/ops/console/"))
	addresses := map[string]string{
		"root": serve(t, dashboard.New(node, dashboard.Options{})) + "/", "prefix": host + "/admin/floe/", "proxy": proxy + "/ops/console/",
		"reading": serve(t, dashboard.New(node, dashboard.Options{ReadOnly: true})) + "/",
	}
	addFlood(t, node, addresses)
	addKeys(t, openShop(t), addresses)
	text, err := json.Marshal(addresses)
	if err != nil {
		t.Fatal(err)
	}
	if *hold {
		fmt.Println(string(text))
		<-t.Context().Done()
		return
	}
	args := []string{"run", "-s", "e2e"}
	if *only != "" {
		args = append(args, "--", "-t", *only)
	}
	command := exec.CommandContext(t.Context(), "npm", args...)
	command.Env = append(os.Environ(), "FLOE_AT="+string(text))
	if *full {
		command.Env = append(command.Env, "FLOE_FULL=1")
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		t.Error(err)
	}
}

func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// openShop returns a node with a shop in it, which lives until the test ends.
func openShop(t *testing.T) *floe.Node {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	shop := demo.New(node, 1)
	if err := shop.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	living, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shop.Run(living) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the shop: %v", err)
		}
	})
	return node
}

// awkward adds what no shop has, and what breaks screens.
func awkward(ctx context.Context, node *floe.Node) error {
	var errs []error
	for key, value := range map[string]string{
		"odd/../key//with %2F and é\n": "odd", "..": "dots", "picture.png": "\x89PNG\r\n\x1a\n\x00\xff\xfe",
		"large.txt": strings.Repeat("all work and no play makes a dull line\n", 3000), "empty": "",
	} {
		_, err := node.KV(demo.Main).Put(ctx, key, []byte(value))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// addFlood adds a stream that grows by a thousand records on request, and a namespace with more
// keys than a list shows.
func addFlood(t *testing.T, node *floe.Node, addresses map[string]string) {
	ctx, store := t.Context(), node.Stream(demo.Main)
	flood := func(n int) error {
		messages := make([]stream.Message, n)
		for i := range messages {
			messages[i] = stream.Message{Payload: []byte(fmt.Sprintf(`{"reading":%d,"unit":"kPa","of":"a meter somewhere that talks a lot"}`, i))}
		}
		_, err := store.AppendMany(ctx, "flood", messages)
		return err
	}
	if err := flood(200); err != nil {
		t.Fatal(err)
	}
	addresses["flood"] = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := flood(1000); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})) + "/"
	if !*full {
		return
	}
	for i := range 10_500 {
		if _, err := node.KV("plenty").Put(ctx, fmt.Sprintf("key/%05d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
}

// addKeys serves a node that asks for keys, and what takes one back, for a test that has a session
// end.
func addKeys(t *testing.T, node *floe.Node, addresses map[string]string) {
	ctx, keys := t.Context(), node.Keys()
	_, admin, err := keys.Bootstrap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, reader, err := keys.Create(ctx, floe.RoleRead)
	_, narrow, err2 := keys.Create(ctx, floe.RoleWrite, floe.ForNamespaces(demo.Warehouse))
	brief, guest, err3 := keys.Create(ctx, floe.RoleWrite)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	revoke := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := keys.Revoke(r.Context(), brief.ID); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	for name, value := range map[string]string{
		"guarded": serve(t, dashboard.New(node, dashboard.Options{})) + "/", "revoke": serve(t, revoke) +
			"/", "admin": admin, "reader": reader, "narrow": narrow, "guest": guest,
	} {
		addresses[name] = value
	}
}

// rename is a proxy that knows a prefix by another name.
func rename(t *testing.T, target, theirs, ours string) http.Handler {
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		path := theirs + strings.TrimPrefix(r.In.URL.EscapedPath(), ours)
		r.Out.URL.RawPath = path
		if r.Out.URL.Path, err = url.PathUnescape(path); err != nil {
			r.Out.URL.Path = path
		}
	}}
}
