package processing_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/floedb/floe/internal/pipeline"
)

var rewriteReference = flag.Bool("write-reference", false, "write REFERENCE.md anew")

// TestReference: REFERENCE.md agrees with the parsers' tables.
func TestReference(t *testing.T) {
	want := pipeline.Reference()
	if *rewriteReference {
		if err := os.WriteFile("REFERENCE.md", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("REFERENCE.md"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("REFERENCE.md is not what the tables of the parsers say (%v): go test ./stream/processing -run TestReference "+
			"-write-reference", err)
	}
}
