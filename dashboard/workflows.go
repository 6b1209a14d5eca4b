package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/workflow"
)

const (
	definitionsPath = "/api/v1/workflow/definitions"
	flowRunsPath    = "/api/v1/workflow/runs"
	workflowsPath   = "/api/v1/workflows"
)

var workflowRoutes = []route{
	endpoint("GET "+definitionsPath, (*handler).definitions, "List the workflows of a namespace."),
	endpoint("POST "+definitionsPath, (*handler).createDefinition,
		"Create a workflow or a version of one. The body is its definition, YAML or JSON."),
	endpoint("GET "+definitionsPath+"/:name", (*handler).definition, "Get a workflow with the definition of new runs."),
	endpoint("GET "+definitionsPath+"/:name/versions", (*handler).definitionVersions, "List the versions of a workflow, newest first."),
	endpoint("PUT "+definitionsPath+"/:name/versions/:version/default", (*handler).setDefaultVersion,
		"Make a version the default one: new runs use it, and the workflow has its schedule, trigger and retention."),
	endpoint("DELETE "+definitionsPath+"/:name/versions/:version", (*handler).removeDefinitionVersion,
		"Remove a version of a workflow. Its runs continue."),
	endpoint("DELETE "+definitionsPath+"/:name", (*handler).deleteDefinition,
		"Delete a workflow with all versions. One with active runs, which continue, requires force=true."),
	endpoint("PUT "+definitionsPath+"/:name/enable", (*handler).enableDefinition, "Enable a disabled workflow."),
	endpoint("PUT "+definitionsPath+"/:name/disable", (*handler).disableDefinition,
		"Disable a workflow: starts are rejected, its runs continue."),
	endpoint("GET "+flowRunsPath, (*handler).flowRuns, "List the workflow runs of a namespace, newest first."),
	endpoint("POST "+flowRunsPath, (*handler).startFlow, "Start a run of a workflow. The body is its input, JSON."),
	endpoint("GET "+flowRunsPath+"/:id", (*handler).flowRun,
		"Get a run with the results of its steps. With wait_ms it waits for the end of the run. With Accept: text/event-stream, its "+
			"present state and its end are events."),
	endpoint("GET "+flowRunsPath+"/:id/history", (*handler).flowHistory, "List the events of a run, oldest first."),
	endpoint("DELETE "+flowRunsPath+"/:id", (*handler).cancelFlow, "Cancel a run. Its completed steps are compensated."),
	endpoint("POST "+flowRunsPath+"/:id/retry", (*handler).retryFlow, "Continue a failed run from the failed step, or from another one."),
	endpoint("POST "+flowRunsPath+"/:id/signal", (*handler).signalFlow, "Send a signal to a run. The body is the payload, JSON."),
}

// withAliases adds alternative paths of routes: workflows is workflow/definitions, and
// workflows/:id is workflow/runs/:id, each including the paths below. Both have GET workflows/:id,
// which is that of a run.
func withAliases(routes []route) []route {
	all := routes
	for _, rt := range routes {
		definition, ofDefinition := strings.CutPrefix(rt.path, definitionsPath)
		run, ofRun := strings.CutPrefix(rt.path, flowRunsPath+"/:id")
		switch {
		case ofRun:
			rt.path = workflowsPath + "/:id" + run
		case ofDefinition && definition != "/:name" && !strings.HasPrefix(definition, "/:name/versions"): // Flo does not have these
			rt.path = workflowsPath + definition
		default:
			continue
		}
		all = append(all[:len(all):len(all)], rt)
	}
	return all
}

// definitionSummary is an item of the listing of workflows.
type definitionSummary struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Enabled     bool     `json:"enabled"`
	StepCount   int      `json:"step_count"`
	PlanCount   int      `json:"plan_count"`
	HasSchedule bool     `json:"has_schedule"`
	HasTrigger  bool     `json:"has_trigger"`
	StartStep   string   `json:"start_step"`
	Terminals   []string `json:"terminals"`
	Steps       []string `json:"steps"`
}

func summarizeDefinition(i workflow.Info) definitionSummary {
	return definitionSummary{
		Name: i.Name, Version: i.Version, Enabled: i.Enabled, StepCount: len(i.Steps), PlanCount: len(i.Plans), HasSchedule: i.HasSchedule,
		HasTrigger: i.HasTrigger, StartStep: i.StartStep, Terminals: append([]string{}, i.Terminals...), Steps: append([]string{},
			i.Steps...),
	}
}

func (h *handler) definitions(ctx context.Context, q listRequest) (listing[definitionSummary], error) {
	page := func(after string, n int) ([]workflow.Info, string, error) {
		page, err := h.backend.Workflow(q.namespace).Page(ctx, workflow.Limit(n), workflow.Cursor(after))
		return page.Items, page.Cursor, err
	}
	return collect(q.after, q.limit, page, summarizeDefinition, nil)
}

// createDefinitionRequest is a definition: the unparsed body.
type createDefinitionRequest struct {
	namespace  string
	given      bool // the request names the namespace
	definition []byte
}

func (q *createDefinitionRequest) parse(in *input) {
	q.namespace = in.namespace()
	in.reads(yamlMedia)
	if _, q.given = in.param("namespace"); in.err != nil {
		return
	}
	in.maxBody = min(in.maxBody, workflow.MaxDefinition)
	var err error
	q.definition, err = in.readBody()
	in.check(err)
}

// definitionCreated is the response to a definition. Its status is created, updated for a new
// version of a workflow, or unchanged.
type definitionCreated struct {
	OK     bool   `json:"ok"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

// createDefinition creates a workflow in the namespace of the request, or in that of the definition
// if the request names none.
func (h *handler) createDefinition(ctx context.Context, q createDefinitionRequest) (definitionCreated, error) {
	if !q.given {
		own, err := workflow.DefinitionNamespace(q.definition)
		if err != nil {
			return definitionCreated{}, allMistakes(err)
		}
		q.namespace = cmp.Or(own, q.namespace)
	}
	made, err := h.backend.Workflow(q.namespace).Create(ctx, q.definition)
	if err != nil {
		return definitionCreated{}, allMistakes(err)
	}
	status := "updated"
	switch {
	case made.Unchanged:
		status = "unchanged"
	case made.Versions == 1:
		status = "created"
	}
	return definitionCreated{true, made.Name, status}, nil
}

// allMistakes returns the error of a definition with all its mistakes; the error's own text has
// only the first few.
func allMistakes(err error) error {
	var bad *workflow.DefinitionError
	if !errors.As(err, &bad) {
		return err
	}
	var all []string
	for _, p := range bad.Problems {
		if p.Severity == workflow.Error {
			all = append(all, fmt.Sprintf("line %d: %s", p.Line, p.Message))
		}
	}
	return engine.Errorf(engine.ErrInvalid, "the definition has mistakes: %s", strings.Join(all, "; "))
}

// definitionRequest names a workflow.
type definitionRequest struct{ namespace, name string }

func (q *definitionRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name = in.segment("name")
}

// deleteDefinitionRequest names a workflow to delete, with force also with active runs.
type deleteDefinitionRequest struct {
	definitionRequest
	force bool
}

func (q *deleteDefinitionRequest) parse(in *input) {
	q.definitionRequest.parse(in)
	q.force = in.boolean("force")
}

// definitionDeleted is the response to DELETE.
type definitionDeleted struct {
	OK   bool   `json:"ok"`
	Name string `json:"name"`
}

func (h *handler) deleteDefinition(ctx context.Context, q deleteDefinitionRequest) (definitionDeleted, error) {
	var opts []workflow.DeleteOption
	if q.force {
		opts = append(opts, workflow.Force())
	}
	return definitionDeleted{true, q.name}, unlessForced(h.backend.Workflow(q.namespace).Delete(ctx, q.name, opts...))
}

// definitionDetail is the body of /workflow/definitions/:name.
type definitionDetail struct {
	definitionSummary
	DefinitionYAML string `json:"definition_yaml"`
	Status         string `json:"status"` // active or disabled
	RunCount       int64  `json:"run_count"`
}

func (h *handler) definition(ctx context.Context, q definitionRequest) (definitionDetail, error) {
	store := h.backend.Workflow(q.namespace)
	info, err := store.Get(ctx, q.name)
	if err != nil {
		return definitionDetail{}, err
	}
	version, err := store.Versions(q.name).Get(ctx, info.Version)
	if err != nil {
		return definitionDetail{}, err
	}
	status := "active"
	if !info.Enabled {
		status = "disabled"
	}
	return definitionDetail{summarizeDefinition(info), string(version.Definition), status, info.Runs.Total}, nil
}

// definitionVersion is a version of a workflow.
type definitionVersion struct {
	Version   string `json:"version"`
	Default   bool   `json:"default"`
	CreatedAt int64  `json:"created_at"`
}

// definitionVersionList is the body of /workflow/definitions/:name/versions.
type definitionVersionList struct {
	Name     string              `json:"name"`
	Versions []definitionVersion `json:"versions"`
}

func (h *handler) definitionVersions(ctx context.Context, q definitionRequest) (definitionVersionList, error) {
	all, err := engine.Collect(h.backend.Workflow(q.namespace).Versions(q.name).All(ctx))
	list := definitionVersionList{q.name, []definitionVersion{}}
	for _, v := range all {
		list.Versions = append(list.Versions, definitionVersion{v.Version, v.Default, v.CreatedAt.UnixMilli()})
	}
	return list, err
}

// versionRequest names a version of a workflow.
type versionRequest struct{ namespace, name, version string }

func (q *versionRequest) parse(in *input) {
	q.namespace = in.namespace()
	q.name, q.version = in.segment("name"), in.segment("version")
}

// versionChanged is the response after a version was removed or made the default one.
type versionChanged struct {
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (h *handler) setDefaultVersion(ctx context.Context, q versionRequest) (versionChanged, error) {
	err := h.backend.Workflow(q.namespace).Versions(q.name).SetDefault(ctx, q.version)
	return versionChanged{true, q.name, q.version}, err
}

func (h *handler) removeDefinitionVersion(ctx context.Context, q versionRequest) (versionChanged, error) {
	err := h.backend.Workflow(q.namespace).Versions(q.name).Delete(ctx, q.version)
	return versionChanged{true, q.name, q.version}, err
}

// definitionEnabled is the response after a workflow was enabled or disabled.
type definitionEnabled struct {
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

func (h *handler) enableDefinition(ctx context.Context, q definitionRequest) (definitionEnabled, error) {
	if err := h.backend.Workflow(q.namespace).Enable(ctx, q.name); err != nil {
		return definitionEnabled{}, err
	}
	return definitionEnabled{true, q.name, true}, nil
}

func (h *handler) disableDefinition(ctx context.Context, q definitionRequest) (definitionEnabled, error) {
	if err := h.backend.Workflow(q.namespace).Disable(ctx, q.name); err != nil {
		return definitionEnabled{}, err
	}
	return definitionEnabled{true, q.name, false}, nil
}

func (b staleBackend) Workflow(ns string, _ ...floe.AccessOption) *workflow.Store {
	return b.DB.Workflow(ns, floe.Stale())
}
