package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "examples/deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// effective returns the configuration of a server with the arguments and environment of a file of
// examples/deploy.
func effective(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	if len(args) < 2 || args[0] != "server" || args[1] != "start" {
		t.Fatalf("it runs %q, not server start", args)
	}
	for name := range env {
		if !knownEnv(name) {
			t.Errorf("%s is no setting", name)
		}
	}
	code, stdout, stderr := run(t, env, append([]string{"server", "config"}, args[2:]...)...)
	if code != 0 {
		t.Fatalf("%v with %v: exit code %d, %s", args, env, code, stderr)
	}
	return stdout
}

func knownEnv(name string) bool {
	for _, s := range settings {
		if s.env() == name {
			return true
		}
	}
	return false
}

// TestDeployKubernetes: floe accepts what the manifest gives each of its pods.
func TestDeployKubernetes(t *testing.T) {
	manifest := regexp.MustCompile(`\\\n\s+`).ReplaceAllString(deployed(t, "kubernetes.yaml"), "")
	args := regexp.MustCompile(`\n +args: \[(.*)\]\n`).FindStringSubmatch(manifest)
	if args == nil {
		t.Fatal("the manifest has no arguments")
	}
	for id := 1; id <= 3; id++ {
		env := map[string]string{}
		for _, match := range regexp.MustCompile(`name: (FLOE_\w+)(?:, |\n +)value: "?(.*?)"?}?\n`).FindAllStringSubmatch(manifest, -1) {
			env[match[1]] = strings.ReplaceAll(match[2], "$(POD_NAMESPACE)", "prod")
		}
		if !strings.Contains(manifest, "- name: FLOE_NODE_ID\n") || len(env) != strings.Count(manifest, "name: FLOE_")-1 {
			t.Fatalf("the manifest has FLOE_NODE_ID and %v", env)
		}
		env["FLOE_NODE_ID"] = fmt.Sprint(id)
		got := effective(t, env, strings.Split(args[1], ", ")...)
		for _, want := range []string{
			fmt.Sprintf("node_id = %d ", id), `"2=floe-2.floe-nodes.prod.svc:9000"`, `bind = "0.0.0.0" `, `data_dir = "/data/floe" `,
			"listen_port = 9000 ", "metrics_port = 9001 ", "dashboard_port = 9002 ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the configuration of node %d lacks %s:\n%s", id, want, got)
			}
		}
	}
}

// TestDeployContainer: floe accepts what the image gives it, and so does its health check.
func TestDeployContainer(t *testing.T) {
	file := deployed(t, "Containerfile")
	command := func(instruction string) (args []string) {
		_, text, _ := strings.Cut(file, instruction)
		text, _, _ = strings.Cut(text, "\n")
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatalf("%s%s: %v", instruction, text, err)
		}
		return args
	}
	env := map[string]string{}
	for _, match := range regexp.MustCompile(`(FLOE_\w+)=(\S+)`).FindAllStringSubmatch(file, -1) {
		env[match[1]] = match[2]
	}
	if got := effective(t, env, command("\nCMD ")...); !strings.Contains(got, `data_dir = "/data" `) {
		t.Errorf("the configuration of the container is\n%s", got)
	}
	check := command(" CMD ")
	code, _, stderr := run(t, env, append(check[1:], "--metrics-port", "0")...)
	if check[0] != "/floe" || code != exitUnavailable || !strings.Contains(stderr, "no node answers at http://127.0.0.1:0/health") {
		t.Errorf("health check %v: exit code %d, %s", check, code, stderr)
	}
}

// TestDeployUnit: floe accepts the command of the systemd unit.
func TestDeployUnit(t *testing.T) {
	_, command, _ := strings.Cut(deployed(t, "floe.service"), "\nExecStart=/usr/local/bin/floe ")
	command, _, _ = strings.Cut(command, "\n")
	file := filepath.Join(t.TempDir(), "floe.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	effective(t, nil, strings.Fields(strings.ReplaceAll(command, "/etc/floe/floe.toml", file))...)
}
