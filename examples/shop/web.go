package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/dashboard"
)

//go:embed pages.html
var pagesText string

var pages = template.Must(template.New("").Parse(pagesText))

// maxBody limits the bodies of forms, in bytes.
const maxBody = 64 << 10

// handler returns the shop, with the dashboard of its node under /admin/floe/. A real shop requires
// a login for everything under /admin/.
func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":                         s.getOffers,
		"GET /products/{sku}":              s.getOffer,
		"GET /cart":                        s.getCart,
		"POST /cart":                       s.postCart,
		"POST /checkout":                   s.postCheckout,
		"GET /orders/{id}":                 s.getOrder,
		"GET /admin/{$}":                   s.getAdmin,
		"POST /admin/orders/{id}/decision": s.postDecision,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			if err := serve(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.Handle("/admin/floe/", http.StripPrefix("/admin/floe", dashboard.New(s.db, dashboard.Options{Logger: s.log})))
	return http.NewCrossOriginProtection().Handler(mux)
}

// view is the data of a page. A client that accepts JSON gets Data.
type view struct {
	Title   string
	Refresh bool // the page reloads while the order changes
	Data    any
}

func (s *shop) render(w http.ResponseWriter, r *http.Request, status int, page string, v view) error {
	var body bytes.Buffer
	kind, err := "text/html; charset=utf-8", error(nil)
	if wantsJSON(r) {
		kind, err = "application/json", json.NewEncoder(&body).Encode(v.Data)
	} else {
		err = pages.ExecuteTemplate(&body, page, v)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // it fails only if the client has disconnected
	return nil
}

// next answers a form: a browser is redirected to the next page, other clients get the data.
func (s *shop) next(w http.ResponseWriter, r *http.Request, url string, data any) error {
	if wantsJSON(r) {
		return s.render(w, r, http.StatusOK, "", view{Data: data})
	}
	http.Redirect(w, r, url, http.StatusSeeOther)
	return nil
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

// refusal is an error that the customer can act on.
type refusal struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
}

func (e *refusal) Error() string { return e.Message }

// failures maps errors of floe to refusals. The first match counts.
var failures = []struct {
	err error
	refusal
}{
	{floe.ErrNotFound, refusal{http.StatusNotFound, "There is no such page."}},
	{floe.ErrInvalid, refusal{http.StatusBadRequest, "The request is malformed."}},
	{floe.ErrConflict, refusal{http.StatusConflict, "This has changed in the meantime."}},
	{floe.ErrBusy, refusal{http.StatusServiceUnavailable, "The shop is busy. Please try again."}},
	{floe.ErrUnavailable, refusal{http.StatusServiceUnavailable, "The shop is not available. Please try again."}},
	{floe.ErrClosed, refusal{http.StatusServiceUnavailable, "The shop is closing. Please try again."}},
}

func (s *shop) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // the client has disconnected, or the shop stops
		return
	}
	refused := &refusal{http.StatusInternalServerError, "Something went wrong."}
	if !errors.As(err, &refused) {
		for _, f := range failures {
			if errors.Is(err, f.err) {
				refused = &f.refusal
				break
			}
		}
	}
	if refused.Status >= http.StatusInternalServerError {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if refused.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if err := s.render(w, r, refused.Status, "error", view{Title: http.StatusText(refused.Status), Data: refused}); err != nil {
		s.log.Error("error page", "error", err)
	}
}
