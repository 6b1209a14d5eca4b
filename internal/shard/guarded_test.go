package shard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestGuardedHosts: guarded hosts keep the efforts of their commands, shorten the waits of duties,
// and end the process if a command breaks a limit. Other hosts do none of this.
func TestGuardedHosts(t *testing.T) {
	t.Cleanup(func() {
		guarded.mu.Lock()
		defer guarded.mu.Unlock()
		guarded.on, guarded.dutySpeedup, guarded.efforts = false, 0, nil
	})
	var stopped *Host
	for _, on := range []bool{false, true} {
		if on {
			GuardHosts()
			SpeedUpDuties(7)
		}
		patience := make(chan int64, 1)
		p := toy.Primitive()
		own := p.New
		p.New = func() engine.Machine {
			return dutiful{own(), func(ctx context.Context, lead *engine.Lead) error {
				patience <- lead.Patience(700)
				<-ctx.Done()
				return ctx.Err()
			}}
		}
		c := config(vfs.NewMem())
		c.Shards, c.Primitives = 1, []engine.Primitive{p}
		h := open(t, c)
		want := int64(700)
		if on {
			want = 100
		}
		if got := <-patience; got != want {
			t.Errorf("guarded=%t: a duty waits for %d ms of 700, want %d", on, got, want)
		}
		_, err := h.Propose(t.Context(), 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In("default"))
		must(t, err)
		closeHost(t, h)
		var commands []string
		for _, e := range GuardedEfforts() {
			commands = append(commands, e.Command)
		}
		if all := strings.Join(commands, ","); strings.Contains(all, "toy add") != on {
			t.Errorf("guarded=%t: the efforts are those of %s", on, all)
		}
		panics := func(v any) (passedOn any) {
			stopped = open(t, config(vfs.NewMem()))
			defer stopped.Close()
			defer func() { passedOn = recover() }()
			func() {
				defer stopped.shards[1].guard()
				panic(v)
			}()
			return nil
		}
		if passedOn := panics("too many rows"); (passedOn != nil) != on ||
			!on && !strings.Contains(stopped.Err().Error(), ": too many rows") {
			t.Errorf("guarded=%t: a panic becomes %v; the host has failed with %v", on, passedOn, stopped.Err())
		}
		cause := errors.New("a disk")
		if passedOn := panics(cause); passedOn != nil || !errors.Is(stopped.Err(), cause) {
			t.Errorf("guarded=%t: an error becomes %v; the host has failed with %v", on, passedOn, stopped.Err())
		}
	}
}
