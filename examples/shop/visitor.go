package main

import (
	"crypto/rand"
	"errors"
	"net/http"
	netmail "net/mail"
	"slices"
	"strconv"

	"github.com/floedb/floe"
	"github.com/floedb/floe/workflow"
)

func (s *shop) getOffers(w http.ResponseWriter, r *http.Request) error {
	all, err := s.offers(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, "offers", view{Title: "Products", Data: all})
}

func (s *shop) getOffer(w http.ResponseWriter, r *http.Request) error {
	all, err := s.offers(r.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(o offer) bool { return o.SKU == r.PathValue("sku") })
	if i < 0 {
		return floe.ErrNotFound
	}
	return s.render(w, r, http.StatusOK, "offer", view{Title: all[i].Name, Data: all[i]})
}

// cartCookie holds the id of the cart, which becomes the id of the order.
const cartCookie = "cart"

func cartID(r *http.Request) string {
	c, err := r.Cookie(cartCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

func setCartID(w http.ResponseWriter, id string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: cartCookie, Value: id, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// cartPage is a cart and what the checkout form offers.
type cartPage struct {
	quote
	Cards []string `json:"cards"`
}

func (s *shop) getCart(w http.ResponseWriter, r *http.Request) error {
	page := cartPage{Cards: cards}
	var err error
	if id := cartID(r); id != "" {
		if page.quote, err = s.quote(r.Context(), id); err != nil {
			return err
		}
	}
	return s.render(w, r, http.StatusOK, "cart", view{Title: "Cart", Data: page})
}

func (s *shop) postCart(w http.ResponseWriter, r *http.Request) error {
	quantity, err := strconv.Atoi(r.PostFormValue("quantity"))
	if err != nil {
		return &refusal{http.StatusBadRequest, "The quantity is not a number."}
	}
	id := cartID(r)
	used, err := s.store().Exists(r.Context(), orderKey(id)) // its answer did not reach the browser
	if err != nil {
		return err
	}
	if id == "" || used {
		id = rand.Text()
	}
	if err := s.put(r.Context(), id, r.PostFormValue("sku"), quantity); err != nil {
		return err
	}
	setCartID(w, id, int(cartTTL.Seconds()))
	return s.next(w, r, "/cart", map[string]int{r.PostFormValue("sku"): quantity})
}

func (s *shop) postCheckout(w http.ResponseWriter, r *http.Request) error {
	email, err := netmail.ParseAddress(r.PostFormValue("email"))
	if err != nil {
		return &refusal{http.StatusBadRequest, "The address for the mail is not valid."}
	}
	total, err := strconv.ParseInt(r.PostFormValue("total"), 10, 64)
	if err != nil {
		return &refusal{http.StatusBadRequest, "The total is not a number."}
	}
	id := cartID(r)
	if id == "" {
		return &refusal{http.StatusConflict, "The cart is empty."}
	}
	o, err := s.checkout(r.Context(), id, email.Address, r.PostFormValue("card"), cents(total))
	if err != nil {
		return err
	}
	setCartID(w, "", -1)
	return s.next(w, r, "/orders/"+o.ID, o)
}

// orderPage is an order and the state of its workflow.
type orderPage struct {
	order
	Steps []workflow.StepResult `json:"-"`
	Waits string                `json:"waits,omitempty"`
}

func (s *shop) getOrder(w http.ResponseWriter, r *http.Request) error {
	o, err := s.orders().Get(r.Context(), orderKey(r.PathValue("id")))
	if err != nil {
		return err
	}
	page := orderPage{order: o}
	run, err := s.db.Workflow(namespace).Runs().Get(r.Context(), workflow.RunID(o.ID))
	if err != nil && !errors.Is(err, floe.ErrNotFound) { // a run is kept for 30 days, an order for ever
		return err
	}
	page.Steps, page.Waits = run.Steps, run.Waits
	return s.render(w, r, http.StatusOK, "order", view{Title: "Order", Refresh: o.Status == placed, Data: page})
}
