package shard

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// watched is a machine whose restores are observed.
type watched struct {
	engine.Machine
	restore func(*engine.View) error
}

func (m watched) Restore(v *engine.View) error { return m.restore(v) }

func watchedConfig(fsys vfs.FS, restore func(*engine.View) error) Config {
	p := toy.Primitive()
	own := p.New
	p.New = func() engine.Machine { return watched{own(), restore} }
	return Config{Dir: "node", Shards: 3 * maxRestores, FS: fsys, Primitives: []engine.Primitive{p}}
}

// TestShardsAreRestoredSeveralAtATime: exactly the allowed number of restores runs at once.
func TestShardsAreRestoredSeveralAtATime(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	h, err := Open(watchedConfig(vfs.NewMem(), func(*engine.View) error {
		mu.Lock()
		running++
		if most = max(most, running); most == maxRestores && running == most {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		select {
		case <-full: // none proceeds before all that may run do
		case <-time.After(time.Minute):
			return errors.New("nobody else is restored meanwhile")
		}
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	closeHost(t, h)
	if most != maxRestores {
		t.Errorf("%d shards were restored at once, want %d", most, maxRestores)
	}
}

// TestShardThatCanNotBeRestored: if several shards cannot be restored, the error names the first,
// as if they were restored in sequence. A panic is such an error, and the directory is released.
func TestShardThatCanNotBeRestored(t *testing.T) {
	fsys := vfs.NewMem()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("bad row") },
		"panic": func() error { panic("bad row") },
	} {
		_, err := Open(watchedConfig(fsys, func(v *engine.View) error {
			if id := v.Shard(); id == 5 || id == 9 || id == 10 {
				return fail()
			}
			return nil
		}))
		if err == nil || !strings.HasPrefix(err.Error(), "shard 5: restore: ") || !strings.Contains(err.Error(), "bad row") {
			t.Errorf("%s: Open = %v, want it to name shard 5 and what is bad", name, err)
		}
	}
	h, err := Open(watchedConfig(fsys, func(*engine.View) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	closeHost(t, h)
}
