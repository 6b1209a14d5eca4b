package main

import (
	"net/http"
	"time"

	"github.com/floedb/floe/workflow"
)

// adminPage is the page for the shop's staff.
type adminPage struct {
	Node    uint64   `json:"node"`
	Revenue chart    `json:"revenue"`
	Orders  []runRow `json:"orders"` // the newest first
}

// runRow is the run of an order's workflow.
type runRow struct {
	ID      workflow.RunID `json:"id"`
	Email   any            `json:"email"`
	Status  string         `json:"status"`
	Step    string         `json:"step,omitempty"`
	Decide  bool           `json:"decide,omitempty"` // it waits for a decision
	Started time.Time      `json:"started"`
}

func (s *shop) getAdmin(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	stats, err := s.db.Stats(ctx)
	if err != nil {
		return err
	}
	page := adminPage{Node: stats.Node}
	if page.Revenue, err = s.revenue(ctx); err != nil {
		return err
	}
	runs, err := s.db.Workflow(namespace).Runs().Page(ctx, workflow.Of("order"), workflow.Limit(50))
	if err != nil {
		return err
	}
	for _, run := range runs.Items {
		page.Orders = append(page.Orders, runRow{
			ID: run.ID, Email: run.Attributes["email"], Status: run.Status.String(), Step: run.CurrentStep,
			Decide: run.CurrentStep == "approve", Started: run.StartedAt,
		})
	}
	return s.render(w, r, http.StatusOK, "admin", view{Title: "Admin", Data: page})
}

// postDecision approves or rejects a large order, by the signal that its workflow waits for.
func (s *shop) postDecision(w http.ResponseWriter, r *http.Request) error {
	payload := `{"outcome":"success"}`
	switch r.PostFormValue("decision") {
	case "approve":
	case "reject":
		payload = `{"outcome":"rejected"}`
	default:
		return &refusal{http.StatusBadRequest, "The decision is approve or reject."}
	}
	status, err := s.db.Workflow(namespace).Signal(r.Context(), workflow.RunID(r.PathValue("id")), "decision", []byte(payload))
	if err != nil {
		return err
	}
	return s.next(w, r, "/admin/", map[string]string{"status": status.String()})
}
