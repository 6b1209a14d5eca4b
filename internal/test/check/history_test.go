package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// record feeds a history of the key "k" from text, one operation per line, in any order:
//
//	call-return  put V | cas V R | delete | incr D | get  ->  outcome
//
// The outcome is a revision, "V@R" or "none" for a get, "=N" for an incr, "unknown", "busy",
// "missing", "conflict" or "conflict R".
func record(t *testing.T, h *History, text string) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		question, answer, found := strings.Cut(line, "->")
		words, outcome := strings.Fields(question), strings.Fields(answer)
		if !found || len(words) < 2 || len(outcome) < 1 {
			t.Fatalf("line %q makes no sense", line)
		}
		var called, returned int64
		if _, err := fmt.Sscanf(words[0], "%d-%d", &called, &returned); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		p := h.Invoke(called, parseOp(t, i, words[1:]))
		end(t, p, returned, outcome)
	}
}

func parseOp(t *testing.T, client int, words []string) Op {
	t.Helper()
	op := Op{Client: client, Key: "k"}
	switch words[0] {
	case "put":
		op.Kind, op.Value = Put, words[1]
	case "cas":
		op.Kind, op.Value, op.Revision = CAS, words[1], uint64(number(t, words[2]))
	case "delete":
		op.Kind = Delete
	case "incr":
		op.Kind, op.Delta = Incr, number(t, words[1])
	case "get":
	default:
		t.Fatalf("no operation %q", words[0])
	}
	return op
}

func end(t *testing.T, p *Pending, at int64, outcome []string) {
	t.Helper()
	switch word := outcome[0]; {
	case word == "unknown":
		p.Unknown(at)
	case word == "busy":
		p.Refused(at, engine.ErrBusy)
	case word == "missing":
		p.Refused(at, kv.ErrNotFound)
	case word == "conflict" && len(outcome) == 1:
		p.Refused(at, kv.ErrConflict)
	case word == "conflict":
		p.Refused(at, &kv.ConflictError{Revision: uint64(number(t, outcome[1]))})
	case word == "none":
		p.Done(at, Result{})
	case word[0] == '=':
		p.Done(at, Result{Number: number(t, word[1:])})
	case strings.Contains(word, "@"):
		value, revision, _ := strings.Cut(word, "@")
		p.Done(at, Result{Found: true, Value: value, Revision: uint64(number(t, revision))})
	default:
		p.Done(at, Result{Revision: uint64(number(t, word))})
	}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHistoryAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"nothing there":             "1-2 get -> none",
		"write and read":            "1-2 put a -> 5\n3-4 get -> a@5\n5-6 delete -> 7\n7-8 get -> none\n9-10 put b -> 8",
		"read during a write":       "1-9 put a -> 5\n2-3 get -> none\n4-5 get -> a@5",
		"two writes at once":        "1-9 put a -> 6\n1-9 put b -> 5\n10-11 get -> a@6",
		"unknown and happened":      "1-2 put a -> unknown\n3-4 get -> a@5\n5-6 put b -> 6",
		"unknown and did not":       "1-2 put a -> unknown\n3-4 get -> none\n5-6 put b -> 6\n7-8 get -> b@6",
		"unknown and happened late": "1-2 put a -> unknown\n3-4 get -> none\n5-6 put b -> 6\n7-8 get -> a@7",
		"unknown and overwritten":   "1-2 put a -> unknown\n3-4 put b -> 6\n5-6 get -> b@6",
		"unknown delete":            "1-2 put a -> 5\n3-4 delete -> unknown\n5-6 get -> none\n7-8 put b -> 9",
		"unknown cas that fails":    "1-2 put a -> 5\n3-4 cas b 4 -> unknown\n5-6 get -> a@5",
		"cas": "1-2 put a -> 5\n3-4 cas b 5 -> 6\n5-6 cas c 5 -> conflict 6\n7-8 cas d 5 -> conflict\n9-10 " +
			"get -> b@6",
		"cas of nothing": "1-2 cas a 0 -> 5\n3-4 cas b 0 -> conflict 5\n5-6 delete -> 6\n7-8 cas c 5 -> conflict " +
			"0\n9-10 cas d 0 -> 8",
		"cas behind an unknown write":    "1-2 put a -> 5\n3-4 put b -> unknown\n5-6 cas c 5 -> conflict 7\n7-8 cas d 7 -> 9",
		"counter":                        "1-2 incr 2 -> =2\n3-4 incr 3 -> unknown\n5-6 incr 1 -> =6\n7-8 get -> 6@9",
		"refused":                        "1-2 put a -> busy\n3-4 get -> none\n5-6 delete -> missing",
		"revision not told":              "1-2 put a -> 0\n3-4 get -> a@0\n5-6 get -> a@5",
		"recorded at one time":           "1-1 put a -> 5\n1-1 get -> a@5\n1-1 put b -> 6\n1-1 get -> b@6",
		"refused reads of the key's end": "1-2 put a -> 5\n3-4 delete -> 6\n5-6 delete -> missing",
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			record(t, h, text)
			if err := h.Check(); err != nil {
				t.Errorf("%s\nis refused: %v", text, err)
			}
		})
	}
}

func TestHistoryRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"lost write":             {"1-2 put a -> 5\n3-4 get -> none", "not found"},
		"lost overwrite":         {"1-2 put a -> 5\n3-4 put b -> 6\n5-6 get -> a@5", `"a" of revision 5`},
		"lost delete":            {"1-2 put a -> 5\n3-4 delete -> 6\n5-6 get -> a@5", `"a" of revision 5`},
		"lost increment":         {"1-2 incr 1 -> =1\n3-4 incr 1 -> =1", "incr 1 -> 1 at 4"},
		"increment twice":        {"1-2 incr 1 -> =1\n3-4 incr 1 -> =3", "incr 1 -> 3"},
		"stale read":             {"1-2 put a -> 5\n3-4 put b -> 6\n5-6 get -> b@6\n7-8 get -> a@5", "at 8"},
		"read goes back":         {"1-9 put a -> 5\n2-3 get -> a@5\n4-5 get -> none", "not found at 5"},
		"resurrected value":      {"1-2 put a -> 5\n3-4 delete -> 6\n5-6 get -> none\n7-8 get -> a@5", "at 8"},
		"unknown happened twice": {"1-2 put a -> unknown\n3-4 get -> a@5\n5-6 put b -> 6\n7-8 get -> a@7", "at 8"},
		"unknown delete happens twice": {"1-2 put a -> 5\n3-4 delete -> unknown\n5-6 get -> none\n7-8 put b -> 9\n9-10 get -> none",
			"at 10"},
		"duplicate revision":           {"1-2 put a -> 5\n3-4 put b -> 5", "revision 5 at 4"},
		"revision of a tombstone":      {"1-2 put a -> 5\n3-4 delete -> 6\n5-6 put b -> 6", "revision 6 at 6"},
		"revision goes back":           {"1-2 put a -> 5\n3-4 delete -> 4", "revision 4"},
		"wrong revision read":          {"1-2 put a -> 5\n3-4 get -> a@6", `"a" of revision 6`},
		"unknown with an old revision": {"1-2 put a -> 5\n3-4 put b -> unknown\n5-6 get -> b@4", `"b" of revision 4`},
		"cas against its condition":    {"1-2 put a -> 5\n3-4 put b -> 6\n5-6 cas c 5 -> 7", "cas"},
		"cas refused, but it held":     {"1-2 put a -> 5\n3-4 cas b 5 -> conflict", "refused"},
		"cas of nothing that is":       {"1-2 put a -> 5\n3-4 cas b 0 -> 6", "cas"},
		"conflict with a lie":          {"1-2 put a -> 5\n3-4 cas b 4 -> conflict 6", "refused"},
		"conflict with the condition":  {"1-2 put a -> unknown\n3-4 cas b 4 -> conflict 4", "refused"},
		"missing, but it is there":     {"1-2 put a -> 5\n3-4 delete -> missing", "refused"},
		"refused, but it happened":     {"1-2 put a -> busy\n3-4 get -> a@5", "its write was refused"},
		"conflict, but it happened":    {"1-2 put a -> 5\n3-4 cas b 4 -> conflict\n5-6 get -> b@6", "its write was refused"},
		"value of nobody":              {"1-2 put a -> 5\n3-4 get -> z@5", "nobody wrote"},
		"value used twice":             {"1-2 put a -> 5\n3-4 put a -> 6", "twice"},
		"later in one moment":          {"1-1 put a -> 5\n1-1 get -> none", "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			record(t, h, c.text)
			if err := h.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\ngot the error %v, want one with %q", c.text, err, c.want)
			}
		})
	}
}

func TestHistoryNamesTheFirstContradiction(t *testing.T) {
	h := NewHistory()
	h.Dir = t.ArtifactDir()
	record(t, h, "1-2 put a -> 5\n3-4 get -> none\n5-6 get -> a@5\n7-8 get -> a@5")
	err := h.Check()
	if err == nil || !strings.Contains(err.Error(), "explains the answer\n\tclient 1 at 3: get -> not found at 4\n") {
		t.Fatalf("got %v", err)
	}
	picture := filepath.Join(h.Dir, "history-6b.html")
	html, readErr := os.ReadFile(picture)
	if readErr != nil || !strings.Contains(string(html), "<html") || !strings.Contains(err.Error(), picture) {
		t.Errorf("picture: %v, %d bytes; the error is %v", readErr, len(html), err)
	}
}

func TestHistoryTakesSoManyOperations(t *testing.T) {
	h := NewHistory()
	for i := range int64(MaxOperations) {
		p := h.Invoke(2*i, Op{Kind: Put, Key: "k", Value: fmt.Sprint(i)})
		p.Done(2*i+1, Result{Revision: uint64(i + 1)})
	}
	if err := h.Check(); err != nil {
		t.Errorf("%d operations: %v", MaxOperations, err)
	}
	h.Invoke(2*MaxOperations, Op{Key: "k"})
	if err := h.Check(); err == nil || !strings.Contains(err.Error(), "501 operations") {
		t.Errorf("%d operations: %v, want to be told", MaxOperations+1, err)
	}
}

func TestHistoryKeysAreApart(t *testing.T) {
	h := NewHistory()
	h.Invoke(1, Op{Kind: Put, Key: "a", Value: "x"}).Done(2, Result{Revision: 5})
	h.Invoke(3, Op{Kind: Put, Key: "b", Value: "x"}).Done(4, Result{Revision: 5})
	h.Invoke(5, Op{Key: "a"}).Done(6, Result{Found: true, Value: "x", Revision: 5})
	if err := h.Check(); err != nil {
		t.Errorf("two keys with one value: %v", err)
	}
	h.Invoke(7, Op{Key: "b"}).Done(8, Result{})
	if err := h.Check(); err == nil || !strings.Contains(err.Error(), `key "b"`) {
		t.Errorf("write lost in the second key: %v", err)
	}
	if n := h.Operations(); n != 4 {
		t.Errorf("%d operations, want 4", n)
	}
}

// TestHistoryOfManyUnknown checks a history like that of a suite with many faults: a tenth of all
// outcomes is unknown, with ten clients at once.
func TestHistoryOfManyUnknown(t *testing.T) {
	h := NewHistory()
	revision := uint64(0)
	for round := range MaxOperations / 10 {
		at := int64(round) * 100
		for client := range 10 {
			value := fmt.Sprintf("%d.%d", round, client)
			revision++
			p := h.Invoke(at+int64(client), Op{Client: client, Kind: Put, Key: "k", Value: value})
			if (round+client)%10 == 0 {
				p.Refused(at+50, errors.New("connection lost"))
				p.Unknown(at + 50)
				continue
			}
			p.Done(at+50+int64(client), Result{Revision: revision})
		}
	}
	if err := h.Check(); err != nil {
		t.Errorf("a good history: %v", err)
	}
}
