//go:build monitoring

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
)

const monitoring = "../../../examples/monitoring"

// program returns where a program of Prometheus is.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: apt-get install prometheus (make monitoring does)", name)
	}
	return path
}

// TestMonitoring has a real Prometheus scrape a real node, with the configuration of the example,
// and asks it what it has learned.
func TestMonitoring(t *testing.T) {
	s := startBy(t, binary(build(t), nil), "--data-dir", t.TempDir())
	defer s.stop()
	seedEverything(t, s)
	text := mustCall(t, 200, "GET", s.scrape, "")

	check := exec.Command(program(t, "promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	checkNames(t, text)

	target := strings.TrimSuffix(strings.TrimPrefix(s.scrape, "http://"), "/metrics")
	p := startPrometheus(t, target)
	p.await(t, `up{job="floe"}`, 1)
	for query, want := range map[string]float64{
		`floe_queue_ready{namespace="shop",queue="mail"}`:                                                     1,
		`floe_keys{namespace="shop"}`:                                                                         1,
		`floe_shard_leader{shard="0"}`:                                                                        1,
		`floe_operation_duration_seconds_count{primitive="kv",kind="write"}`:                                  1,
		`histogram_quantile(1, floe_operation_duration_seconds_bucket{primitive="kv",kind="write"}) > bool 0`: 1,
		`count(ALERTS{alertstate="firing"}) or vector(0)`:                                                     0,
	} {
		p.await(t, query, want)
	}
	native := startPrometheus(t, target, "--enable-feature=native-histograms")
	native.await(t, `histogram_count(floe_operation_duration_seconds{primitive="kv",kind="write"})`, 1)
	native.await(t, `histogram_quantile(1, floe_operation_duration_seconds{primitive="kv",kind="write"}) > bool 0`, 1)
}

// seedEverything writes something to each primitive.
func seedEverything(t *testing.T, s *running) {
	t.Helper()
	env := map[string]string{"FLOE_ADDR": s.addr, "FLOE_NAMESPACE": "shop"}
	for _, args := range []string{
		"kv set k v -n shop", "queue enqueue mail x -n shop", "stream append orders x -n shop", "stream group create orders bills -n shop",
		"ts write cpu --value 1 -n shop", "action register pay -n shop", "action invoke pay {} -n shop",
	} {
		expectRun(t, env, 0, strings.Fields(args)...)
	}
	definition := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(definition,
		[]byte("name: ship\nversion: \"1\"\nstart:\n  waitForSignal: {type: a}\n  transitions: {success: flo.Completed}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	expectRun(t, env, 0, "workflow", "create", "-f", definition, "-n", "shop")
	job := filepath.Join(t.TempDir(), "j.yaml")
	if err := os.WriteFile(job, []byte(jobOfOrders), 0o600); err != nil {
		t.Fatal(err)
	}
	expectRun(t, env, 0, "processing", "submit", "-f", job, "-n", "shop")
}

const jobOfOrders = `{"kind":"Processing","name":"big","sources":[{"name":"in","stream":{"name":"orders","partitions":"all"}}],"operators":[{"name":"only","type":"filter","condition":"not_empty"}],"sinks":[{"name":"out","stream":{"name":"large"}}]}`

// checkNames makes sure that alerts and dashboard are about metrics that there are.
func checkNames(t *testing.T, text string) {
	t.Helper()
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "grafana.json"} {
		b, err := os.ReadFile(filepath.Join(monitoring, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(floe|go|process)_[a-z0-9_]+`).FindAllString(string(b), -1) {
			metric := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			if !strings.Contains(text, "# TYPE "+metric+" ") {
				t.Errorf("%s is about %s, which no node has", file, name)
			}
		}
	}
}

// TestAlerts runs the tests of the alerts: each alert has one that would fail without it.
func TestAlerts(t *testing.T) {
	test := exec.Command(program(t, "promtool"), "test", "rules", "alerts_test.yml")
	test.Dir = monitoring
	if out, err := test.CombinedOutput(); err != nil {
		t.Fatalf("promtool test rules: %v\n%s", err, out)
	}
	names := func(file, key string) (all []string) {
		b, err := os.ReadFile(filepath.Join(monitoring, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)`+key+`: (\w+)$`).FindAllStringSubmatch(string(b), -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	alerts, tested := names("alerts.yml", "- alert"), names("alerts_test.yml", "alertname")
	if len(alerts) == 0 || !slices.Equal(alerts, tested) {
		t.Errorf("alerts %v, tested are %v", alerts, tested)
	}
}

// prometheus is a server of its own.
type prometheus struct{ url string }

// startPrometheus starts one that scrapes a node with the example's configuration, but more often.
func startPrometheus(t *testing.T, target string, flags ...string) *prometheus {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(monitoring, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(monitoring, "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("127.0.0.1:9001", target, "15s", "200ms", "alerts.yml", rules).Replace(string(b))
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := machinetest.FreeAddr(t)
	cmd := exec.Command(program(t, "prometheus"),
		append(flags, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr,
			"--log.level=warn")...)
	var log lockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus:\n%s", log.String())
		}
	})
	return &prometheus{"http://" + addr}
}

// await asks until the answer is one series with this value.
func (p *prometheus) await(t *testing.T, query string, want float64) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		got, err := p.ask(query)
		if err == nil && len(got) == 1 && got[0] == want {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: got %v, %v, want %v", query, got, err, want)
		}
	}
}

// ask returns the values of an instant query.
func (p *prometheus) ask(query string) (values []float64, err error) {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != "" {
		return nil, fmt.Errorf("%v %s", err, answer.Error)
	}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}
