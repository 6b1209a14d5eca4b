package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// open is a shop in memory that runs until the test ends.
type open struct {
	*shop
	url   string
	mails chan mail
}

func openShop(t *testing.T) *open {
	t.Helper()
	s := &open{shop: newShop(floe.OpenMemory(t), quiet), mails: make(chan mail, 100)}
	s.send = func(_ context.Context, m mail) error {
		s.mails <- m
		return nil
	}
	if err := s.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	s.url = server.URL
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	parts := []func(context.Context) error{s.work, s.deliver}
	go func() {
		ended <- together(ctx, len(parts), func(ctx context.Context, i int) error { return parts[i](ctx) })
	}()
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// ended waits for the end of an order's workflow and returns the order.
func (s *open) ended(t *testing.T, id string) (order, workflow.Run) {
	t.Helper()
	run, err := s.db.Workflow(namespace).Wait(t.Context(), workflow.RunID(id))
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.orders().Get(t.Context(), orderKey(id))
	if err != nil {
		t.Fatal(err)
	}
	return o, run
}

// wantStock compares the stock of a product that the shop shows.
func (s *open) wantStock(t *testing.T, v visitor, sku string, want int) {
	t.Helper()
	var o offer
	if v.get(s.url+"/products/"+sku, http.StatusOK, &o); o.Stock != want {
		t.Errorf("the stock of %s is %d, want %d", sku, o.Stock, want)
	}
}

// visitor is a browser with its own cart.
type visitor struct {
	t      *testing.T
	client *http.Client
}

func newVisitor(t *testing.T) visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return visitor{t, &http.Client{Jar: jar, Transport: transport}}
}

// do sends a request and decodes its answer. It repeats the request while the shop is unavailable.
func (v visitor) do(method, target string, form url.Values, want int, answer any) {
	v.t.Helper()
	for {
		r, err := http.NewRequestWithContext(v.t.Context(), method, target, strings.NewReader(form.Encode()))
		if err != nil {
			v.t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := v.client.Do(r)
		if err != nil {
			v.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			v.t.Fatal(err)
		}
		if resp.StatusCode == http.StatusServiceUnavailable && want != resp.StatusCode {
			continue
		}
		if resp.StatusCode != want {
			v.t.Fatalf("%s %s: %d, want %d: %s", method, target, resp.StatusCode, want, body)
		}
		if err := json.Unmarshal(body, answer); err != nil {
			v.t.Fatalf("%s %s: %v in %s", method, target, err, body)
		}
		return
	}
}

func (v visitor) get(target string, want int, answer any) {
	v.t.Helper()
	v.do(http.MethodGet, target, nil, want, answer)
}

func (v visitor) post(target string, form url.Values, want int, answer any) {
	v.t.Helper()
	v.do(http.MethodPost, target, form, want, answer)
}

// fill puts products into the cart and returns its total.
func (v visitor) fill(base, sku string, quantity int) cents {
	v.t.Helper()
	v.post(base+"/cart", url.Values{"sku": {sku}, "quantity": {strconv.Itoa(quantity)}}, http.StatusOK, new(map[string]int))
	var c cartPage
	v.get(base+"/cart", http.StatusOK, &c)
	return c.Total
}

func payment(card string, total cents) url.Values {
	return url.Values{"email": {"ada@example.com"}, "card": {card}, "total": {strconv.FormatInt(int64(total), 10)}}
}

// buy orders a product.
func (v visitor) buy(base, sku string, quantity int, card string) (o order) {
	v.t.Helper()
	v.post(base+"/checkout", payment(card, v.fill(base, sku, quantity)), http.StatusOK, &o)
	return o
}

// until waits until a condition holds.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func TestOrderIsPaid(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	id := v.buy(s.url, "cup", 2, "valid").ID
	o, run := s.ended(t, id)
	if o.Status != paid || o.Provider != "cardhouse" || o.Total != 2400 || run.Status != workflow.Completed {
		t.Errorf("the order is %+v and its run %v", o, run.Status)
	}
	for _, want := range []mail{
		{id + ".placed", "ada@example.com", "Your order of €24.00 is placed"},
		{id + ".paid", "ada@example.com", "Your order of €24.00 is paid"},
	} {
		if m := <-s.mails; m != want {
			t.Errorf("the mail is %+v, want %+v", m, want)
		}
	}
	s.wantStock(t, v, "cup", 38)
	var c cartPage
	if v.get(s.url+"/cart", http.StatusOK, &c); len(c.Lines) != 0 {
		t.Errorf("the cart still has %v", c.Lines)
	}
	s.wantStock(t, v, "cup", 38)
}

// TestLostAnswer: the answer to a checkout is lost, so the browser keeps the cookie of the cart.
func TestLostAnswer(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	base, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	total := v.fill(s.url, "cup", 2)
	cookies := v.client.Jar.Cookies(base)
	var first, again order
	v.post(s.url+"/checkout", payment("valid", total), http.StatusOK, &first)
	v.client.Jar.SetCookies(base, cookies)
	if v.post(s.url+"/checkout", payment("valid", total), http.StatusOK, &again); again.ID != first.ID {
		t.Errorf("the repeated checkout made the order %s besides %s", again.ID, first.ID)
	}
	v.client.Jar.SetCookies(base, cookies)
	if next := v.buy(s.url, "cup", 1, "valid"); next.ID == first.ID || next.Total != 1200 {
		t.Errorf("the next order is %+v", next)
	}
	s.wantStock(t, v, "cup", 37)
}

func TestSoldOut(t *testing.T) {
	s, v, w := openShop(t), newVisitor(t), newVisitor(t)
	total := v.fill(s.url, "print", 1)
	w.buy(s.url, "print", 1, "valid")
	var refused refusal
	v.post(s.url+"/checkout", payment("valid", total), http.StatusConflict, &refused)
	if refused.Message != "Sold out: 0 of print left." {
		t.Errorf("the refusal is %q", refused.Message)
	}
	s.wantStock(t, v, "print", 0)
}

func TestRefusals(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	total := v.fill(s.url, "cup", 1)
	for _, c := range []struct {
		path string
		form url.Values
		want int
	}{
		{"/checkout", payment("valid", total-1), http.StatusConflict},
		{"/checkout", url.Values{"email": {"ada"}, "total": {"1200"}}, http.StatusBadRequest},
		{"/cart", url.Values{"sku": {"cup"}, "quantity": {"21"}}, http.StatusBadRequest},
		{"/cart", url.Values{"sku": {"anvil"}, "quantity": {"1"}}, http.StatusNotFound},
		{"/admin/orders/none/decision", url.Values{"decision": {"approve"}}, http.StatusNotFound},
		{"/admin/orders/none/decision", url.Values{"decision": {"maybe"}}, http.StatusBadRequest},
	} {
		v.post(s.url+c.path, c.form, c.want, new(refusal))
	}
	v.get(s.url+"/orders/none", http.StatusNotFound, new(refusal))
	v.get(s.url+"/products/anvil", http.StatusNotFound, new(refusal))
}

func TestFallbackProvider(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	o, run := s.ended(t, v.buy(s.url, "lamp", 1, "declined").ID)
	if o.Status != paid || o.Provider != "paybridge" || run.Status != workflow.Completed {
		t.Errorf("the order is %+v and its run %v", o, run.Status)
	}
}

func TestDeclined(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	o, run := s.ended(t, v.buy(s.url, "lamp", 4, "stolen").ID)
	if o.Status != cancelled || o.Reason != "the payment was declined" || run.Status != workflow.Failed || run.CompensationsFailed != 0 {
		t.Errorf("the order is %+v and its run %v", o, run)
	}
	<-s.mails
	if m := <-s.mails; m.Subject != "Your order of €356.00 is cancelled: the payment was declined" {
		t.Errorf("the mail is %q", m.Subject)
	}
	s.wantStock(t, v, "lamp", 10)
}

func TestApproval(t *testing.T) {
	for decision, want := range map[string]order{
		"approve": {Status: paid},
		"reject":  {Status: cancelled, Reason: "it was not approved"},
	} {
		t.Run(decision, func(t *testing.T) {
			s, v := openShop(t), newVisitor(t)
			id := v.buy(s.url, "sofa", 1, "valid").ID
			until(t, func() bool {
				var page adminPage
				v.get(s.url+"/admin/", http.StatusOK, &page)
				return len(page.Orders) == 1 && page.Orders[0].Decide
			})
			s.wantStock(t, v, "sofa", 2)
			v.post(s.url+"/admin/orders/"+id+"/decision", url.Values{"decision": {decision}}, http.StatusOK, new(map[string]string))
			o, _ := s.ended(t, id)
			if o.Status != want.Status || o.Reason != want.Reason {
				t.Errorf("the order is %+v, want %+v", o, want)
			}
		})
	}
}

func TestRevenue(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	for _, buy := range []struct {
		sku, card string
		quantity  int
	}{{"cup", "valid", 2}, {"lamp", "declined", 1}, {"cup", "stolen", 5}, {"cup", "valid", 1}} {
		s.ended(t, v.buy(s.url, buy.sku, buy.quantity, buy.card).ID)
	}
	until(t, func() bool {
		var page adminPage
		v.get(s.url+"/admin/", http.StatusOK, &page)
		return page.Revenue.Total == 3*1200+8900
	})
	c, err := s.revenue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Products) != 2 || c.Products[0].Product != "cup" || c.Products[0].Cents != 3600 || c.Products[1].Cents != 8900 {
		t.Errorf("the revenue is %+v", c.Products)
	}
	html := page(t, s.url+"/admin/")
	for _, want := range []string{"<rect ", " cup €", "lamp €89.00", "Revenue of the last hour: €125.00"} {
		if !strings.Contains(html, want) {
			t.Errorf("the chart lacks %q:\n%s", want, html)
		}
	}
}

// page returns a page as a browser gets it.
func page(t *testing.T, target string) string {
	t.Helper()
	v := newVisitor(t)
	resp, err := v.client.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v\n%s", target, resp.Status, err, body.String())
	}
	return body.String()
}

func TestPages(t *testing.T) {
	s, v := openShop(t), newVisitor(t)
	id := v.buy(s.url, "cup", 1, "valid").ID
	s.ended(t, id)
	for path, want := range map[string]string{
		"/":                  "Signed print",
		"/products/lamp":     "brass and linen",
		"/cart":              "The cart is empty",
		"/orders/" + id:      "paid</b> through cardhouse",
		"/admin/":            "ada@example.com",
		"/admin/floe/":       "<html",
		"/admin/floe/health": "ok",
	} {
		if html := page(t, s.url+path); !strings.Contains(html, want) {
			t.Errorf("%s lacks %q:\n%s", path, want, html)
		}
	}
}
