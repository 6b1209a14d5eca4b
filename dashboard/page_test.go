package dashboard

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestPage: GET / says what this is and links endpoints that are there, under every mount, and asks no other site for anything.
func TestPage(t *testing.T) {
	node := openNode(t)
	for _, m := range mounts {
		base := serve(t, m.mount(New(node))) + m.prefix + "/"
		got := send(t, "GET "+base, "")
		if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("GET %s/ = %v, %s", m.prefix, got, got.header.Get("Content-Type"))
		}
		policy := got.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("the policy %q lacks %s", policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q", policy)
		}
		body := string(got.body)
		if !strings.Contains(body, "floe") || strings.Contains(body, "://") || strings.Contains(body, "<script") || strings.Contains(body, "src=") {
			t.Errorf("the page is\n%s", body)
		}
		links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1)
		if len(links) < 5 {
			t.Errorf("the page has the links %q", links)
		}
		at, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			target, err := at.Parse(link[1])
			if err != nil || strings.HasPrefix(link[1], "/") {
				t.Errorf("link %q is not relative: %v", link[1], err)
				continue
			}
			if got := send(t, "GET "+target.String(), ""); got.status != 200 {
				t.Errorf("link %q leads to %v", link[1], got)
			}
		}
		if got := send(t, "HEAD "+base, ""); got.status != 200 || len(got.body) > 0 {
			t.Errorf("HEAD %s/ = %v", m.prefix, got)
		}
		checkError(t, "POST /", send(t, "POST "+base, ""), 405, "method POST")
	}
	page := string(get(New(node), "/").body)
	for _, rt := range allRoutes() {
		if !strings.Contains(page, rt.path) {
			t.Errorf("the page lacks %s", rt.path)
		}
	}
}
