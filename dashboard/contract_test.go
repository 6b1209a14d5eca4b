package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/floedb/floe"
)

// contract is the API as clients see it: for each endpoint what is sent, the status, and the exact
// fields and types that come back. The rows are sent in this order to a node that seed has filled.
// Each resource has its rows beside its tests.
func contract() []contractRow {
	return slices.Concat(healthContract, openAPIContract, openContract, clusterContract, namespaceContract, consoleContract,
		kvContract, kvWorkContract, consoleWrites, groupContract, streamContract, groupEndContract, streamWorkContract, groupWorkContract,
		queueContract, queueWorkContract, txnContract,
		timeseriesContract, actionContract, actionWorkContract, workerWorkContract, actionEndContract,
		workflowContract, scheduleContract, processingContract, jobWorkContract, txnPartsContract)
}

type contractRow struct {
	route  string // of the route table
	send   string // path and query behind the method of the route; a path that fits the route
	body   string
	status int
	want   shape
}

// shape is what a JSON value must look like.
type shape interface {
	// check returns what differs; at is where the value stands.
	check(at string, value any) []string
}

// jsonType is a JSON type.
type jsonType string

const (
	text    jsonType = "string"
	integer jsonType = "integer"
	boolean jsonType = "boolean"
)

func (k jsonType) check(at string, value any) []string {
	got := fmt.Sprintf("%T", value)
	switch v := value.(type) {
	case bool:
		got = "boolean"
	case json.Number:
		got = "number"
		if _, err := v.Int64(); err == nil {
			got = "integer"
		}
	}
	if got != string(k) {
		return []string{fmt.Sprintf("%s is %v, want %s", at, value, k)}
	}
	return nil
}

// is is a value itself: a string, an int, a bool or nil.
type is struct{ value any }

func (i is) check(at string, value any) []string {
	want := i.value
	if n, ok := want.(int); ok {
		want = json.Number(strconv.Itoa(n))
	}
	if value != want {
		return []string{fmt.Sprintf("%s is %#v, want %#v", at, value, want)}
	}
	return nil
}

// fields is an object with exactly these members.
type fields map[string]shape

func (f fields) check(at string, value any) []string {
	got, ok := value.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an object", at, value)}
	}
	var diffs []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		member, ok := got[name]
		if !ok {
			diffs = append(diffs, fmt.Sprintf("%s lacks %s", at, name))
			continue
		}
		diffs = append(diffs, f[name].check(at+"."+name, member)...)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := f[name]; !ok {
			diffs = append(diffs, fmt.Sprintf("%s has %s, which is not in the contract", at, name))
		}
	}
	return diffs
}

// list is an array, not empty, whose items all have the shape.
type list struct{ item shape }

func (l list) check(at string, value any) []string {
	got, ok := value.([]any)
	if !ok || len(got) == 0 {
		return []string{fmt.Sprintf("%s is %v, want an array with items", at, value)}
	}
	var diffs []string
	for i, item := range got {
		diffs = append(diffs, l.item.check(fmt.Sprintf("%s[%d]", at, i), item)...)
	}
	return diffs
}

// kept is a string or number that later rows send where their path or body has this name.
type kept string

func (k kept) check(at string, value any) []string {
	if value == nil || value == "" {
		return []string{fmt.Sprintf("%s is %v, want a value", at, value)}
	}
	seededIDs[string(k)] = fmt.Sprint(value)
	return nil
}

// known is the value that kept has kept under the name.
type known string

func (k known) check(at string, value any) []string {
	return is{seededIDs[string(k)]}.check(at, fmt.Sprint(value))
}

// ends is a string that ends with it.
type ends string

func (e ends) check(at string, value any) []string {
	if s, ok := value.(string); !ok || !strings.HasSuffix(s, string(e)) {
		return []string{fmt.Sprintf("%s is %v, want a string that ends with %q", at, value, string(e))}
	}
	return nil
}

// optional is null, or what it says.
type optional struct{ shape }

func (o optional) check(at string, value any) []string {
	if value == nil {
		return nil
	}
	return o.shape.check(at, value)
}

// items is an array of exactly these.
type items []shape

func (l items) check(at string, value any) []string {
	got, ok := value.([]any)
	if !ok || len(got) != len(l) {
		return []string{fmt.Sprintf("%s is %v, want an array of %d", at, value, len(l))}
	}
	var diffs []string
	for i, item := range got {
		diffs = append(diffs, l[i].check(fmt.Sprintf("%s[%d]", at, i), item)...)
	}
	return diffs
}

// failure is an error body.
var failure = fields{"error": text}

func TestContract(t *testing.T) {
	for i, m := range mounts {
		t.Run("mount="+m.prefix+"/", func(t *testing.T) {
			node := openNode(t)
			seed(t, node)
			var backend floe.DB = node
			if i > 0 {
				backend = dial(t, node)
			}
			base := serve(t, m.mount(New(backend, Options{}))) + m.prefix
			rows := contract()
			check := func(row contractRow) {
				method, _, _ := strings.Cut(row.route, " ")
				for name, id := range seededIDs {
					row.send, row.body = strings.ReplaceAll(row.send, name, id), strings.ReplaceAll(row.body, name, id)
				}
				got := send(t, method+" "+base+row.send, row.body)
				for _, diff := range row.diffs(got) {
					t.Errorf("%s %s %.80s: %s\n%v", method, row.send, row.body, diff, got)
				}
			}
			for _, row := range rows {
				check(row)
			}
			if backend != floe.DB(node) {
				return // the client has no key
			}
			for _, row := range authContract(bootstrap(t, node)) {
				check(row)
			}
		})
	}
}

func (row contractRow) diffs(got answer) []string {
	var diffs []string
	if got.status != row.status {
		diffs = append(diffs, fmt.Sprintf("status %d, want %d", got.status, row.status))
	}
	for name, want := range map[string]string{
		"Content-Type":           "application/json; charset=utf-8",
		"Cache-Control":          "no-store",
		"X-Content-Type-Options": "nosniff",
	} {
		if have := got.header.Get(name); have != want {
			diffs = append(diffs, fmt.Sprintf("%s: %q, want %q", name, have, want))
		}
	}
	dec := json.NewDecoder(bytes.NewReader(got.body))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return append(diffs, err.Error())
	}
	return append(diffs, row.want.check("body", value)...)
}

// seed writes what the contract's rows read.
func seed(t *testing.T, node *floe.Node) {
	t.Helper()
	seedKV(t, node)
	seedStreams(t, node)
	seedQueues(t, node)
	seedTimeseries(t, node)
	seedActions(t, node)
	seedWorkflows(t, node)
	seedProcessing(t, node)
}

// TestContractIsComplete: no endpoint without a row that succeeds, no row without an endpoint.
func TestContractIsComplete(t *testing.T) {
	shown := make(map[string]bool)
	for _, row := range append(contract(), authContract("")...) {
		_, pattern, _ := strings.Cut(row.route, " ")
		if !fits(pattern, row.send) {
			t.Errorf("row %s sends %s, which is another endpoint", row.route, row.send)
		}
		shown[row.route] = shown[row.route] || row.status == 200
	}
	for _, rt := range allRoutes() {
		if name := rt.method + " " + rt.path; !shown[name] && rt.response != reflect.TypeFor[watchedKeys]() { // see TestWatchEvents
			t.Errorf("%s has no row with status 200 in the contract", name)
		} else {
			delete(shown, name)
		}
		if rt.doc == "" || rt.request == nil || rt.response == nil {
			t.Errorf("%s %s lacks its line of documentation or its types", rt.method, rt.path)
		}
	}
	for name := range shown {
		t.Errorf("the contract has %s, which is not in the route table", name)
	}
}

// fits reports whether the path of a request is one of the pattern.
func fits(pattern, target string) bool {
	path, _, _ := strings.Cut(target, "?")
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(want, got string) bool { return want == got || strings.HasPrefix(want, ":") })
}
