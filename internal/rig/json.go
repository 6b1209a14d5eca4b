package rig

import (
	"bytes"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// SameInJSON converts a command to JSON and back, and compares the bodies.
func SameInJSON(t *testing.T, p engine.Primitive, cmd engine.Command) {
	t.Helper()
	of := p.Command(cmd.Kind)
	shown, err := of.Show(nil, cmd, true)
	if err != nil {
		t.Errorf("%s %s: %x can not be shown: %v", p.Name, of.Name, cmd.Body, err)
		return
	}
	in := codec.NewReader(cmd.Body)
	again, err := of.Parse(in.String(), shown, true).Limit(engine.DefaultMaxPayload)
	if err != nil || !bytes.Equal(again.Body, cmd.Body) {
		t.Errorf("%s %s: %x is shown as %s, and that makes %x, %v", p.Name, of.Name, cmd.Body, shown, again.Body, err)
	}
}
