package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// newFilledRig has two shards with namespaces, timers, and messages, both sent and delivered.
func newFilledRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2)
	ns := homeOf(t, 0, 2)
	r.apply(0, addTo("a", 50).In(ns))
	r.apply(0, toy.Command{Kind: toy.Later, Name: "later", Delta: 5, Delay: 1000}.In(ns))
	spread := func(c toy.Command) engine.Command {
		cmd := c.In("wide")
		cmd.Spread = true
		return cmd
	}
	r.apply(engine.HomeShard("wide", 2), engine.CreateNamespace("wide", true))
	for range 3 {
		r.apply(0, spread(addTo("x", 5)), spread(toy.Command{Kind: toy.Send, Name: "x", Delta: 2, Target: "away"}),
			spread(toy.Command{Kind: toy.Send, Name: "x", Delta: 1, Target: "away"}))
	}
	r.deliverOnly(0, engine.NameShard("wide", "away", 2))
	r.now += 10
	r.apply(0, toy.Command{Kind: toy.Send, Name: "a", Delta: 1, Target: "b"}.In(ns))
	return r
}

// homeOf returns the name of a namespace whose home is the shard.
func homeOf(t *testing.T, shard engine.ShardID, shards int) string {
	t.Helper()
	for _, name := range []string{"n", "m", "o", "p", "q", "r"} {
		if engine.HomeShard(name, shards) == shard {
			return name
		}
	}
	t.Fatal("no name has that home")
	return ""
}

// row returns the first row of shard 0 whose key has the prefix.
func (r *rig) row(prefix string) (k, value []byte) {
	r.t.Helper()
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix)})
	if err != nil {
		r.t.Fatal(err)
	}
	defer it.Close()
	if !it.First() || !bytes.HasPrefix(it.Key(), []byte(prefix)) {
		r.t.Fatalf("no row begins with %x", prefix)
	}
	return slices.Clone(it.Key()), slices.Clone(it.Value())
}

func (r *rig) set(k string, value []byte) {
	r.t.Helper()
	if err := r.db.Set([]byte(k), value, pebble.NoSync); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) delete(prefix string) {
	r.t.Helper()
	k, _ := r.row(prefix)
	if err := r.db.Delete(k, pebble.NoSync); err != nil {
		r.t.Fatal(err)
	}
}

const own = "\x00\x00\x00" // the engine's rows in shard 0

func TestVerifyReports(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(r *rig)
		want   string
	}{
		"applied missing":   {func(r *rig) { r.delete(own + "a") }, "the state has no row with its applied position"},
		"applied garbage":   {func(r *rig) { r.set(own+"a", []byte("x")) }, "applied row"},
		"applied differs":   {func(r *rig) { k, v := r.row(own + "a"); v[1]++; r.set(string(k), v) }, "memory at"},
		"namespace missing": {func(r *rig) { r.delete(own + "n") }, "1 namespaces before number 1 have no row"},
		"namespace far":     {func(r *rig) { r.set(own+"n\x7f\x00\x00\x00", nil) }, "numbers end at 99999"},
		"namespace garbage": {func(r *rig) { k, _ := r.row(own + "n"); r.set(string(k), []byte{1, 200}) }, "namespace 0: namespace row"},
		"namespace changed": {func(r *rig) { k, v := r.row(own + "n"); v[len(v)-1] += 2; r.set(string(k), v) },
			"memory differs from the row"},
		"namespace below zero": {func(r *rig) { k, v := r.row(own + "n"); v[len(v)-1] = 1; r.set(string(k), v) },
			"toy counter counters is -1"},
		"namespace twice": {func(r *rig) { _, v := r.row(own + "n"); r.set(own+"n\x00\x00\x00\x02", v) },
			"namespaces 0 and 2 are both"},
		"namespace elsewhere": {func(r *rig) { k, v := r.row(own + "n"); v[2] = homeOf(r.t, 1, 2)[0]; r.set(string(k), v) },
			"belongs to shard 1"},
		"namespace without a name": {func(r *rig) {
			k, v := r.row(own + "n")
			r.set(string(k), append([]byte{1, 0}, v[3:]...))
		}, "namespace name is empty"},
		"timer earlier than memory knows": {func(r *rig) {
			r.set(own+"t\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00x", nil)
		}, "the first timer is due at -9223372036854775808"},
		"timer with a value": {func(r *rig) { k, _ := r.row(own + "t"); r.set(string(k), []byte("x")) }, "holds 1 bytes"},
		"timer of a machine": {func(r *rig) { k, _ := r.row(own + "t"); k[12] = 9; r.set(string(k), nil) },
			"of machine 9, which is unknown to this program"},
		"timer of no namespace": {func(r *rig) { k, _ := r.row(own + "t"); k[16] = 2; r.set(string(k), nil) },
			"of namespace 2, but there are only 2"},
		"short timer":         {func(r *rig) { r.set(own+"t\x00", nil) }, "is of an unknown kind"},
		"message garbage":     {func(r *rig) { k, _ := r.row(own + "o"); r.set(string(k), []byte{1, 99}) }, "message"},
		"message of tomorrow": {func(r *rig) { k, v := r.row(own + "o"); k[19] = 1; r.set(string(k), v) }, "the shard's last LSN is"},
		"message of nobody":   {func(r *rig) { k, v := r.row(own + "o"); k[6] = 9; r.set(string(k), v) }, "it comes from machine 9"},
		"message of no namespace": {func(r *rig) { k, v := r.row(own + "o"); k[10] = 2; r.set(string(k), v) },
			"it comes from machine 15, namespace 2"},
		"message for nobody": {func(r *rig) { k, v := r.row(own + "o"); k[4], k[5] = 0, 7; r.set(string(k), v) },
			"for shard 7: there are 2 shards"},
		"message from afar": {func(r *rig) { k, v := r.row(own + "o"); v[0] = 99; r.set(string(k), v) },
			"was sent by entry 99, the last one is"},
		"message out of order": {func(r *rig) {
			k, v := r.row(own + "o" + string([]byte{0, byte(engine.NameShard("wide", "away", 2)), byte(engine.MachineTest), 0, 0, 0, 1}))
			v[0] = byte(r.execs[0].Applied().Index)
			r.set(string(k), v)
		}, "was sent by entry 4, the one before by entry 8"},
		"message astray": {func(r *rig) {
			k, _ := r.row(own + "o")
			k[4], k[5] = 0, 1
			r.set(string(k), addTo("a", 1).In(homeOf(r.t, 0, 2)).AppendTo([]byte{1, 0, 0}))
		}, "is in shard 0"},
		"message before memory begins": {func(r *rig) {
			k, v := r.row(own + "o")
			r.set(string(k[:19])+"\x00\x00\x00\x00\x00\x00\x00\x01", append([]byte{1}, v[1:]...))
		}, "waits, in memory"},
		"message lost":      {func(r *rig) { r.delete(own + "o") }, "messages wait in 1 lanes, memory has 2"},
		"receipt garbage":   {func(r *rig) { r.set(own+"s\x00\x01", []byte{0x80}) }, "row of deliveries of shard 1"},
		"receipt of nobody": {func(r *rig) { r.set(own+"s\x00\x05", []byte{1, 0}) }, "of shard 5: there are 2 shards"},
		"unknown kind":      {func(r *rig) { r.set(own+"zz", nil) }, "is of an unknown kind"},
		"unknown machine":   {func(r *rig) { r.set("\x00\x00\x03zz", nil) }, "1 rows of machine 3, which is unknown to this program"},
		"impossible number": {func(r *rig) { r.set("\x00\x00\x63zz", nil) }, "1 rows of machine 99, which cannot exist"},
		"short row":         {func(r *rig) { r.set("\x00\x00", nil) }, "row 0000 is too short"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			r.verify(r.execs[0], func(p string) { t.Errorf("before anything is changed: %s", p) })
			r.tampered = true
			c.tamper(r)
			var found []string
			r.verify(r.execs[0], func(p string) { found = append(found, p) })
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", strings.Join(found, "\n"), c.want)
			}
		})
	}
}

func TestVerifyPairs(t *testing.T) {
	var found []string
	report := func(p string) { found = append(found, p) }
	latest := newRig(t, 2)
	x, y := engine.RouteTo("wide", 0, 2), engine.RouteTo("wide", 1, 2)
	latest.apply(engine.HomeShard("wide", 2), engine.CreateNamespace("wide", true))
	for _, c := range []toy.Command{addTo(x, 1), {Kind: toy.Send, Name: x, Delta: 1, Target: y}} {
		cmd := c.In("wide")
		cmd.Spread = true
		latest.apply(0, cmd)
	}
	latest.deliverOnly(0, 1)
	if err := engine.VerifyPairs(latest.execs, report); err != nil || len(found) > 0 || latest.counter(1, "wide", y) != 1 {
		t.Fatalf("after the delivery of the latest message: %q, %v", found, err)
	}
	r := newFilledRig(t)
	if err := engine.VerifyPairs(r.execs, report); err != nil || len(found) > 0 {
		t.Fatalf("good shards: %q, %v", found, err)
	}
	r.tampered = true
	row := binary.AppendUvarint([]byte{1, 1, byte(engine.MachineTest), 0, 0}, 1000)
	r.set("\x00\x01\x00s\x00\x00", append(row, 0))
	if err := engine.VerifyPairs(r.execs, report); err != nil || len(found) != 1 ||
		!strings.Contains(found[0], "shard 1: has received message 1000 of shard 0") {
		t.Errorf("VerifyPairs reports %q, %v", found, err)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	r := newRig(t, 1)
	for range 300 {
		r.apply(0, addTo("a", 1).In("n"), toy.Command{Kind: toy.Later, Name: "b", Delta: 1, Delay: 1000}.In("n"),
			toy.Command{Kind: toy.Later, Name: "c", Delta: 1, Delay: 1000}.In("n"),
			toy.Command{Kind: toy.Later, Name: "d", Delta: 1, Delay: 1000}.In("n"),
			toy.Command{Kind: toy.Later, Name: "e", Delta: 1, Delay: 1000}.In("n"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.execs[0].Verify(ctx, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify: %v, want context.Canceled", err)
	}
}
