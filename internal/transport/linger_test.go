package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/queue"
)

// gateFS is a file system whose fsyncs block while the gate is shut.
type gateFS struct {
	vfs.FS
	gate atomic.Pointer[chan struct{}] // closed when the gate opens; nil: it was never shut
}

// shut shuts the gate until open is called.
func (g *gateFS) shut() (open func()) {
	gate := make(chan struct{})
	g.gate.Store(&gate)
	return func() { close(gate) }
}

func (g *gateFS) wait() {
	if gate := g.gate.Load(); gate != nil {
		<-*gate
	}
}

func (g *gateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	return &gateFile{f, g}, err
}

func (g *gateFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(oldname, newname, c)
	return &gateFile{f, g}, err
}

type gateFile struct {
	vfs.File
	fs *gateFS
}

func (f *gateFile) Sync() error {
	f.fs.wait()
	return f.File.Sync()
}

func (f *gateFile) SyncData() error {
	f.fs.wait()
	return f.File.SyncData()
}

// TestConsumeGivesBackWhatItTakes: a Consume may have taken messages in the log and not received
// them when its ctx ends. They used to stay leased, and the delivery counted as an attempt.
func TestConsumeGivesBackWhatItTakes(t *testing.T) {
	for _, from := range []string{"node", "client"} {
		for name, c := range map[string]lastTake{
			"at once": {disk: time.Second, first: true, want: time.Second}, "that waits": {disk: time.Second, then: true,
				want: time.Second},
			"stuck": {disk: 10 * time.Second, first: true, want: engine.LingerTime}, "idle": {disk: time.Second},
		} {
			t.Run(from+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.test(t, from) })
			})
		}
	}
}

// lastTake describes how a Consume ends.
type lastTake struct {
	disk        time.Duration // duration of the take's write
	first, then bool          // a message exists before Consume begins, or arrives while it waits
	want        time.Duration // expected duration of the end
}

func (c lastTake) test(t *testing.T, from string) {
	network, fsys := newPipes(), &gateFS{FS: vfs.NewMem()}
	primitives := []engine.Primitive{engine.TableOf[queue.Store]()}
	host, err := shard.Open(shard.Config{Dir: "node", FS: fsys, Shards: 2, MaxValue: 64 << 10, Primitives: primitives})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Identify(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, host: host, fs: fsys}
	r.peer = New(Config{Node: 1, Wire: engine.NewWire(primitives), Members: testMembers[:1], Secret: testSecret})
	r.peer.Attach(host, func(context.Context) ([]byte, error) { return []byte("{}"), nil })
	r.peer.Serve(network.listen("node:1"))
	defer r.close()
	door := r.peer.Door()
	if from == "client" {
		c, err := Dial(t.Context(), Config{Wire: engine.NewWire(primitives), dial: network.dial}, []string{"node:1"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		door = c
	}
	jobs := engine.StoreOf[queue.Store](engine.NewRouter(door), "default", 0)
	others := engine.StoreOf[queue.Store](engine.NewRouter(r.peer.Door()), "default", 0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	consume := func() {
		go func() {
			ended <- jobs.Consume(ctx, "q", func(context.Context, queue.Message) error {
				t.Error("a message was handled")
				return nil
			}, queue.Lease(time.Hour))
		}()
		synctest.Wait()
	}
	enqueue := func() {
		if _, err := others.Enqueue(t.Context(), "q", nil, queue.MaxAttempts(1)); err != nil {
			t.Error(err)
		}
	}
	if c.first {
		enqueue()
	} else {
		consume()
	}
	synctest.Wait()
	open := fsys.shut()
	if c.first {
		consume()
	} else if c.then {
		go enqueue()
	}
	synctest.Wait() // the take, if there is a message for it, is being written to the disk
	began := time.Now()
	cancel()
	time.AfterFunc(c.disk, open)
	if err := <-ended; err != nil {
		t.Errorf("Consume = %v", err)
	}
	if took := time.Since(began); took < c.want || took > c.want+100*time.Millisecond {
		t.Errorf("the end took %v, want %v", took, c.want)
	}
	fsys.wait()
	if c.want < c.disk { // nothing was taken, or the outcome is unknown
		return
	}
	s, err := others.Get(t.Context(), "q")
	if err != nil || s.Inflight != 0 || s.Ready != 1 {
		t.Errorf("Stats = %+v, %v; want the message to be ready", s, err)
	}
	for m, err := range others.Messages("q").All(t.Context()) {
		if err != nil || m.Attempts != 0 {
			t.Errorf("%+v, %v; want a message that was never delivered", m, err)
		}
	}
}
