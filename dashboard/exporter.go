package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
)

const metricsPath = "/metrics"

// exporterRoutes are the endpoints of NewExporter.
var exporterRoutes = []route{
	endpoint("GET "+healthPath, (*handler).exporterHealth,
		"Get the health of the node and its number of shards: 200 with status ok, or 503 with the reason."),
	{method: http.MethodGet, path: metricsPath, doc: "Get the metrics of the node for Prometheus."},
}

// Limits of scrapes.
const (
	maxScrapes = 4
	scrapeTime = 10 * time.Second
)

// Measured is a DB with metrics; *floe.Node implements it.
type Measured interface {
	floe.DB
	// Collector returns the metrics; see floe.Node.
	Collector(objects int) prometheus.Collector
}

// exporter serves the metrics of a node.
type exporter struct {
	*handler
	metrics http.Handler
	scrapes chan struct{} // one token for each active scrape
}

// NewExporter returns the handler of a node's metrics for Prometheus. /metrics includes the metrics
// of the Go runtime and the process. /health also returns the number of shards: {"status": "ok",
// "shards": 4}, or 503. It is meant for a port of its own; a program with its own registry
// registers node.Collector there instead.
//
// With a key store, /metrics requires an API key for all namespaces, or a session token of one, as
// "Authorization: Bearer ...". The Options used are Logger, LoopbackOnly, Hosts and MetricsObjects.
func NewExporter(node Measured, o Options) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(node.Collector(o.MetricsObjects), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &exporter{handler: newHandler(node, o), scrapes: make(chan struct{}, maxScrapes),
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime, EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError,
		})}
}

// ServeHTTP answers one request.
func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &reply{ResponseWriter: w, request: r, traffic: e.traffic}
	defer e.recoverPanic(out)
	if err := e.serveRoute(out, r); err != nil {
		e.fail(out, err)
	}
}

func (e *exporter) serveRoute(out *reply, r *http.Request) error {
	path := escapedPath(r.URL)
	if path != metricsPath && path != healthPath {
		return noSuchPath(path)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Header().Set("Allow", "GET, HEAD")
		return engine.Errorf(errMethod, "method %.32s is not allowed here, GET, HEAD are", r.Method)
	}
	if path == healthPath {
		state, err := e.exporterHealth(r.Context(), nothing{})
		if err == nil {
			e.send(out, http.StatusOK, state)
		}
		return err
	}
	if err := checkHost(e.hosts, r.Host); err != nil && !e.locked(r) {
		return err
	}
	if err := e.checkNear(r); err != nil {
		return err
	}
	if err := e.admitScraper(r); err != nil {
		return err
	}
	select {
	case e.scrapes <- struct{}{}:
		defer func() { <-e.scrapes }()
	default:
		return engine.Errorf(engine.ErrBusy, "%d scrapes are under way, the limit is %d", maxScrapes, maxScrapes)
	}
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	e.metrics.ServeHTTP(out, r)
	return nil
}

// admitScraper requires a key or token if there is a key store, because the metrics name objects of
// all namespaces.
func (e *exporter) admitScraper(r *http.Request) error {
	who, err := e.holder(r)
	if err != nil {
		return err
	}
	if k := who.Key(); len(k.Namespaces) > 0 {
		return engine.Errorf(errForbidden, "key %s is limited to some namespaces, and this call covers all", k.ID)
	}
	return nil
}

// holder returns the holder of the request's key or session token.
func (h *handler) holder(r *http.Request) (*floe.Holder, error) {
	shown := bearer(r)
	if strings.HasPrefix(shown, "floe_sk_") {
		return h.backend.Keys().AuthenticateKey(r.Context(), shown, h.clientOf(r))
	}
	return h.backend.Keys().Authenticate(r.Context(), shown)
}

// exporterState is the body of the exporter's /health.
type exporterState struct {
	Status   string `json:"status"`
	Shards   int    `json:"shards"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

func (h *handler) exporterHealth(ctx context.Context, _ nothing) (exporterState, error) {
	state, err := h.health(ctx, nothing{})
	if err != nil {
		return exporterState{}, err
	}
	stats, err := h.backend.Stats(ctx)
	return exporterState{Status: state.Status, Shards: len(stats.Shards), ReadOnly: state.ReadOnly}, err
}
