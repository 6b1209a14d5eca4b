package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

// A host mounts the dashboard under a prefix of its own mux.
func Example() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	mux := http.NewServeMux()
	mux.Handle("/admin/floe/", http.StripPrefix("/admin/floe", dashboard.New(node, dashboard.Options{})))
	server := httptest.NewServer(mux)
	defer server.Close()

	call := func(method, path, body string) {
		req, err := http.NewRequest(method, server.URL+"/admin/floe"+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s", res.StatusCode, answer)
	}
	call("GET", "/health", "")
	call("POST", "/api/v1/namespaces", `{"name":"shop"}`)
	if _, err := node.KV("shop").Put(context.Background(), "user/1", []byte("Ada")); err != nil {
		log.Fatal(err)
	}
	call("DELETE", "/api/v1/kv/namespaces/shop/keys/user%2F1", "")
	call("GET", "/api/v1/kv/namespaces/shop/keys/user%2F1", "")
	call("PUT", "/api/v1/kv/namespaces/shop/keys/user%2F1", `{"value":"Ada","ttl_seconds":-1}`)
	// Output:
	// 200 {"status":"ok"}
	// 200 {"ok":true,"name":"shop"}
	// 200 {"ok":true,"key":"user/1","namespace":"shop"}
	// 404 {"error":"kv: key \"user/1\" not found","found":false,"key":"user/1","namespace":"shop"}
	// 400 {"error":"member \"ttl_seconds\" of the body is -1, it takes an integer from 0 to 3153600000"}
}
