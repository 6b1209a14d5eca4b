package cli

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// TestGuideCommands runs the commands of README.md and docs: those of one page in order, with a
// server of their own. The comment lines below a command are its expected output; numbers in it may
// differ. A command that cannot run here is in a block of the language console.
func TestGuideCommands(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	ran := 0
	for _, page := range guides(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, match := range block.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(strings.TrimSpace(match[1]), "\n")...)
		}
		if len(lines) == 0 {
			continue
		}
		ran++
		t.Run(strings.TrimPrefix(page, root+"/"), func(t *testing.T) {
			t.Parallel()
			s := start(t, "--data-dir", t.TempDir())
			defer s.stop()
			g := &guide{t: t, s: s}
			for _, line := range lines {
				g.line(strings.TrimSpace(line))
			}
			g.compare()
		})
	}
	if ran == 0 {
		t.Error("no page shows a command")
	}
}

// guides returns the names of README.md and the pages of docs.
func guides(t *testing.T) []string {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestGuideDefinitions validates the definitions of workflows and jobs in README.md and docs.
func TestGuideDefinitions(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?ms)^```yaml\n(kind: (\\w+)\n.*?)^```$")
	valid := 0
	for _, page := range guides(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range block.FindAllSubmatch(text, -1) {
			file := filepath.Join(t.TempDir(), "definition.yaml")
			if err := os.WriteFile(file, match[1], 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"processing", "validate", file}
			if string(match[2]) == "Workflow" {
				args = []string{"workflow", "validate", "-f", file}
			}
			if code, stdout, stderr := runWith(t, nil, nil, args...); code != 0 {
				t.Errorf("%s: %s\n%s%s", page, match[1], stdout, stderr)
			}
			valid++
		}
	}
	if valid == 0 {
		t.Error("no page shows a definition")
	}
}

// guide runs the commands of a page.
type guide struct {
	t                 *testing.T
	s                 *running
	last, shown, want string // the command, its output and the output that the page shows
}

var words = regexp.MustCompile(`'[^']*'|[^\s']+`)

func (g *guide) line(line string) {
	if expected, found := strings.CutPrefix(line, "# "); found && g.last != "" {
		g.want += expected + "\n"
		return
	}
	g.compare()
	if line == "" || strings.HasPrefix(line, "#") {
		return
	}
	line, _, _ = strings.Cut(line, "   #")
	var args []string
	for _, word := range words.FindAllString(line, -1) {
		word = strings.Trim(word, "'")
		if _, err := os.Stat(filepath.Join(root, word)); err == nil && strings.Contains(word, "/") {
			word = filepath.Join(root, word) // a file of the repository
		}
		args = append(args, word)
	}
	switch args[0] {
	case "floe":
		code, stdout, stderr := runWith(g.t, map[string]string{"FLOE_ADDR": g.s.addr}, nil, args[1:]...)
		if code != 0 {
			g.t.Errorf("%s: exit code %d\n%s", line, code, stderr)
		}
		g.last, g.shown = line, stdout
	case "curl":
		g.last, g.shown = line, g.curl(args[1:])
	default:
		g.t.Errorf("%s: not a command that the test can run; use a block of the language console", line)
	}
}

// compare compares the output of the last command with the page.
func (g *guide) compare() {
	if g.want != "" && stable(g.shown) != stable(g.want) {
		g.t.Errorf("%s: the page shows\n%s\nit prints\n%s", g.last, g.want, g.shown)
	}
	g.last, g.shown, g.want = "", "", ""
}

// stable replaces what differs between runs: IDs, numbers, and the width of columns.
func stable(s string) string {
	s = recordName.ReplaceAllString(s, "ID")
	s = regexp.MustCompile(`\d+`).ReplaceAllString(s, "0")
	return strings.TrimSpace(regexp.MustCompile(`[ \t]+`).ReplaceAllString(regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(s, "\n"), " "))
}

// curl makes the request of a curl command with -X, -d, -H and a URL.
func (g *guide) curl(args []string) string {
	method, body, url, header := "", "", "", make(http.Header)
	for len(args) > 0 {
		flag := args[0]
		if strings.HasPrefix(flag, "http://") {
			url, args = strings.Replace(flag, "http://127.0.0.1:9002", g.s.url, 1), args[1:]
			continue
		}
		if flag == "-s" || flag == "-i" || len(args) < 2 {
			g.t.Errorf("%s: cannot handle %s", g.last, flag)
			return ""
		}
		value := args[1]
		args = args[2:]
		switch flag {
		case "-X":
			method = value
		case "-d", "--data-binary":
			body = value
			if method == "" {
				method = http.MethodPost
			}
		case "-H":
			name, content, _ := strings.Cut(value, ": ")
			header.Set(name, content)
		default:
			g.t.Errorf("cannot handle %s", flag)
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		g.t.Errorf("%s %s: %s, %v\n%s", method, url, resp.Status, err, answer)
	}
	return string(answer)
}
