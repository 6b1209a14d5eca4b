package ts_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// recorder is a door that records the commands that users send.
type recorder struct {
	*machinetest.Rig
	commands []engine.Command
}

// Propose records the command and forwards it.
func (r *recorder) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	r.commands = append(r.commands, cmd)
	return r.Rig.Propose(ctx, shard, cmd)
}

// someCommands returns user commands of every kind, in an order in which they succeed.
func someCommands(tb testing.TB) []engine.Command {
	door := &recorder{Rig: newRig(tb, 1)}
	s := engine.StoreOf[ts.Store](engine.NewRouter(door), "n", 0)
	write(tb, s, point("a", 0, 1), point("b", 0, 2.5), point("a", second, -1e300))
	write(tb, s, point("a", 2*second, 3), point("c", -day, 4))
	must(0, s.SetRetention(tb.Context(), "cpu",
		ts.Retention{RawTTL: 72 * time.Hour, Downsample: []ts.Downsample{{Every: time.Minute, TTL: 96 * time.Hour}}}))
	must(0, s.SetSeriesLimit(tb.Context(), 10))
	must(s.Series("cpu").Delete(tb.Context(), map[string]string{"host": "b"}))
	must(s.DeleteRange(tb.Context(), "cpu", at(0), at(second), map[string]string{"host": "a"}))
	must(s.DeleteRange(tb.Context(), "cpu", at(-2*day), at(-day), nil))
	for _, op := range []engine.Operation{ts.WriteOp(point("d", 0, 1), point("a", second, 2)), ts.DeleteMeasurementOp("cpu")} {
		cmd := must(engine.OpOf(op).Limit(1 << 20))
		cmd.Namespace = "n"
		door.commands = append(door.commands, cmd)
	}
	return door.commands
}

// FuzzApplyCommand applies bodies that Admit accepts: each is refused or carried out, and all rows
// stay consistent. Nothing panics, neither then nor when the duty makes pages of them.
func FuzzApplyCommand(f *testing.F) {
	commands := someCommands(f)
	for _, cmd := range commands {
		f.Add(cmd.Kind, cmd.Body)
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		p := engine.TableOf[ts.Store]()
		c := p.Command(kind)
		if c == nil || c.From&engine.FromUsers == 0 {
			return
		}
		cmd := engine.Command{Machine: engine.MachineTS, Kind: kind, Namespace: "n", Body: body}
		if err := c.Admit(cmd, 1<<20); err != nil {
			if !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("Admit: %v, want ErrInvalid", err)
			}
			return
		}
		machinetest.SameInJSON(t, p, cmd)
		r := newRig(t, 1)
		for _, before := range commands[:2] {
			if out := r.Entry(0, before)[0]; out.Err != nil {
				t.Fatal(out.Err)
			}
		}
		if out := r.Entry(0, cmd)[0]; out.Err != nil && engineRefusal(out.Err) {
			t.Errorf("what Admit lets through is %v", out.Err)
		}
		r.Advance(6 * minute)
		r.Advance(2 * day)
		r.Verify()
	})
}

// engineRefusal reports whether the error means a malformed command.
func engineRefusal(err error) bool {
	return bytes.Contains([]byte(err.Error()), []byte("malformed"))
}

// FuzzRow decodes arbitrary rows; a row that decodes is encoded identically.
func FuzzRow(f *testing.F) {
	r := newRig(f, 1)
	for i, cmd := range someCommands(f) {
		r.Entry(0, cmd)
		if i%2 == 1 {
			r.Advance(6 * minute)
		}
		for _, row := range r.Rows(0) {
			if row.Machine == engine.MachineTS {
				f.Add(row.Key[0], row.Value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, row []byte) {
		if again, ok := ts.Recode(kind, row); ok && !bytes.Equal(again, row) {
			t.Errorf("row %q %x is read, and written as %x", kind, row, again)
		}
	})
}

// TestHostileWrites: writes that no function of this package makes are refused before they reach
// the log.
func TestHostileWrites(t *testing.T) {
	good := someCommands(t)[1]
	p := engine.TableOf[ts.Store]()
	admit := p.Command(good.Kind).Admit
	if err := admit(good, 1<<20); err != nil {
		t.Fatalf("Admit of a write of our own: %v", err)
	}
	refused := 0
	for i := range good.Body {
		for bit := range 8 {
			body := bytes.Clone(good.Body)
			body[i] ^= 1 << bit
			if err := admit(engine.Command{Machine: good.Machine, Kind: good.Kind, Namespace: "n", Body: body}, 1<<20); err != nil {
				refused++
			}
		}
		if err := admit(engine.Command{Machine: good.Machine, Kind: good.Kind, Namespace: "n", Body: good.Body[:i]}, 1<<20); err == nil {
			t.Errorf("Admit takes the first %d of %d bytes", i, len(good.Body))
		}
	}
	if refused < 4*len(good.Body) {
		t.Errorf("of %d bits that were turned round %d are noticed", 8*len(good.Body), refused)
	}
}
