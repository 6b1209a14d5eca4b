package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProcessing(t *testing.T) {
	src := fstest.MapFS{"README": {Data: []byte("no package\n")}, "net/doc.txt": {Data: []byte("no Go\n")}}
	for i := range 300 {
		src[fmt.Sprintf("net/f%03d.go", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("\n", 20))}
		src[fmt.Sprintf("crypto/f%03d.go", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("\n", 2))}
		src[fmt.Sprintf("sort/f%03d.go", i)] = &fstest.MapFile{Data: []byte("\n")}
	}
	var out strings.Builder
	if err := run(t.Context(), src, &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	const want = `902 files
COMPLETED: 902 records in, 10 out, 0 errors
  go        902 in    900 out
  owner     900 in    600 out
  team      600 in    600 out
  hourly    600 in      3 out
  size        3 in      3 out
{"key":"network","value":1160,"count":58,"window_start":1735761600000,"window_end":1735765200000}
{"key":"security","value":600,"count":300,"window_start":1735761600000,"window_end":1735765200000}
{"key":"network","value":4840,"count":242,"window_start":1735765200000,"window_end":1735768800000}
2 hours to review
network, last: {"key":"network","value":4840,"count":242,"window_start":1735765200000,"window_end":1735768800000}
3 points of 2 teams
windows of two hours: keeps [source files], drops [operator hourly]
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
