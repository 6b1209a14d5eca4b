package check

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func put(key, value string, revision, version uint64) kv.Event {
	return kv.Event{Type: kv.EventPut, Key: key, Value: []byte(value), Revision: revision, Version: version}
}

func gone(key string, revision, version uint64) kv.Event {
	return kv.Event{Type: kv.EventDelete, Key: key, Revision: revision, Version: version}
}

func progress(revision uint64) kv.Event { return kv.Event{Type: kv.EventProgress, Revision: revision} }

// committed is the changes that the histories below are about.
var committed = []kv.Event{
	put("a", "1", 1, 1), put("b", "2", 2, 1), put("a", "3", 3, 2), gone("b", 4, 2), put("c", "5", 5, 1), put("a", "6", 6, 3), put("b", "7",
		7, 3),
}

func TestWatchAccepts(t *testing.T) {
	compacted := kv.Event{Type: kv.EventCompacted}
	for name, events := range map[string][]kv.Event{
		"all":                   append(committed[:7:7], progress(7)),
		"snapshot":              {put("a", "3", 3, 2), progress(4), committed[4], committed[5], committed[6], progress(7)},
		"snapshot of two pages": {put("a", "1", 1, 1), put("c", "5", 5, 1), committed[2], progress(5), committed[5], committed[6]},
		"snapshot of the end":   {put("a", "6", 6, 3), put("b", "7", 7, 3), put("c", "5", 5, 1), progress(7)},
		"another snapshot": {committed[0], progress(1), compacted, put("a", "3", 3, 2), progress(4), committed[4], committed[5],
			committed[6]},
	} {
		w := newWatchOf(committed)
		expect(t, name, tell(w.View(), events, 7), "")
		expect(t, name, w.Check(), "")
	}
}

func newWatchOf(events []kv.Event) *Watch {
	w := NewWatch()
	for _, e := range events {
		w.Committed(e)
	}
	return w
}

// tell feeds a watcher with events and returns the error of its Check.
func tell(v *Viewer, events []kv.Event, upTo uint64) error {
	for _, e := range events {
		if err := v.Event(e); err != nil {
			return err
		}
	}
	return v.Check(upTo)
}

func TestWatchRefuses(t *testing.T) {
	start := progress(0)
	without := func(i int) []kv.Event {
		return append(append([]kv.Event{start}, committed[:i]...), committed[i+1:]...)
	}
	compacted := kv.Event{Type: kv.EventCompacted}
	for name, c := range map[string]struct {
		events []kv.Event
		want   string
	}{
		"missing first":          {without(0), `not told of put of "a" at revision 1`},
		"missing in the middle":  {without(2), "not told what came between"},
		"missing delete":         {without(3), "not told what came between"},
		"missing last":           {without(6), `not told of put of "b" at revision 7`},
		"missing key":            {without(4), `not told of put of "c"`},
		"doubled":                {[]kv.Event{start, committed[0], committed[0]}, "behind"},
		"reordered":              {[]kv.Event{start, committed[2], committed[0]}, "behind"},
		"before the progress":    {[]kv.Event{progress(3), committed[1]}, "asked for what follows revision 3"},
		"snapshot without a key": {[]kv.Event{put("a", "6", 6, 3), put("c", "5", 5, 1), progress(7)}, `not told of put of "b"`},
		"snapshot of the past": {[]kv.Event{put("a", "3", 3, 2), put("b", "7", 7, 3), put("c", "5", 5, 1), progress(7)},
			`not told of put of "a" at revision 6`},
		"deleted key in it": {[]kv.Event{put("b", "2", 2, 1), put("a", "3", 3, 2), progress(4)}, "not told of delete"},
		"back after a snapshot": {[]kv.Event{start, committed[0], committed[1], committed[2], compacted, committed[0]},
			"knew of revision 3"},
	} {
		upTo := uint64(7)
		if name == "deleted key in it" {
			upTo = 4
		}
		expect(t, name, tell(newWatchOf(committed).View(), c.events, upTo), c.want)
	}
}

func TestWatchFromRevision(t *testing.T) {
	w := newWatchOf(committed)
	expect(t, "from 3", tell(w.ViewFrom(3), committed[3:], 7), "")
	expect(t, "one missing", tell(w.ViewFrom(3), append(committed[3:4:4], committed[5:]...), 7), `not told of put of "c"`)
	expect(t, "one too many", tell(w.ViewFrom(3), committed[2:], 7), "asked for what follows revision 3")

	v := w.ViewFrom(0)
	expect(t, "before the cut", tell(v, committed[:5], 5), "")
	v.Resume(3)
	expect(t, "skips", v.Event(committed[6]), "not told what came between")
	v.Resume(3)
	expect(t, "tells again", tell(v, committed[3:], 7), "")
	v.Resume(7)
	expect(t, "tells twice", v.Event(committed[6]), "asked for what follows revision 7")
}

func TestWatchOfWhatNobodyDid(t *testing.T) {
	for name, c := range map[string]struct {
		told []kv.Event
		want string
	}{
		"possible":           {[]kv.Event{put("a", "1", 1, 1), put("a", "x", 2, 2)}, ""},
		"possible twice":     {[]kv.Event{put("a", "1", 1, 1), put("a", "x", 2, 2), put("a", "x", 3, 3)}, "also happened at revision"},
		"expired":            {[]kv.Event{put("a", "1", 1, 1), {Type: kv.EventExpire, Key: "a", Revision: 2, Version: 2}}, ""},
		"refused":            {[]kv.Event{put("a", "y", 1, 1)}, "but the change was"},
		"of nobody":          {[]kv.Event{put("a", "1", 1, 1), put("a", "y", 2, 2)}, "which nobody did"},
		"delete of nobody":   {[]kv.Event{put("a", "1", 1, 1), gone("a", 2, 2)}, "which nobody did"},
		"key mixed up":       {[]kv.Event{put("b", "1", 1, 1)}, "but the change was"},
		"type mixed up":      {[]kv.Event{gone("a", 1, 1)}, "but the change was"},
		"possible elsewhere": {[]kv.Event{put("b", "x", 2, 2)}, "which nobody did"},
	} {
		w := newWatchOf(committed[:1])
		w.Possible(kv.Event{Type: kv.EventPut, Key: "a", Value: []byte("x")})
		w.Possible(kv.Event{Type: kv.EventExpire, Key: "a"})
		v := w.View()
		for _, e := range c.told {
			expect(t, name, v.Event(e), "")
		}
		expect(t, name, w.Check(), c.want)
	}
	w := NewWatch()
	expect(t, "first watcher", w.View().Event(put("a", "1", 1, 1)), "")
	expect(t, "second watcher", w.View().Event(put("a", "2", 1, 1)), "told of one revision")
}

// TestWatchOfANode checks a real watch while keys change, cut and resumed at every twentieth event.
func TestWatchOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := floe.Open(floe.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		store := node.KV("default")
		w := NewWatch()
		var last uint64
		writeAll(t, store, w, &last)
		snapshot, resumed := w.View(), w.ViewFrom(0)
		for _, v := range []*Viewer{snapshot, resumed} {
			var opts []kv.WatchOption
			if v == resumed {
				opts = append(opts, kv.FromRevision(0))
			}
			expect(t, "watch", follow(store, v, last, opts), "")
			expect(t, "watch", v.Check(last), "")
		}
		expect(t, "all told", w.Check(), "")
	})
}

func writeAll(t *testing.T, store *kv.Store, w *Watch, last *uint64) {
	t.Helper()
	for i := range 200 {
		key, value := fmt.Sprint("k", i%7), fmt.Sprint(i)
		if i%5 == 4 {
			written, err := store.Delete(t.Context(), key)
			if err == nil {
				w.Committed(kv.Event{Type: kv.EventDelete, Key: key, Revision: written.Revision})
				*last = written.Revision
			}
			continue
		}
		written, err := store.Put(t.Context(), key, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		w.Committed(kv.Event{Type: kv.EventPut, Key: key, Value: []byte(value), Revision: written.Revision})
		*last = written.Revision
	}
}

// follow feeds v with the events of a watch up to a revision. It cancels and resumes the watch
// several times.
func follow(store *kv.Store, v *Viewer, until uint64, opts []kv.WatchOption) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		n, at := 0, uint64(0)
		for e, err := range store.Watch(ctx, "k", append(opts, kv.Progress())...) {
			if err != nil {
				return errors.Join(err, v.Check(until))
			}
			if err := v.Event(e); err != nil {
				return err
			}
			n++
			if e.Type == kv.EventProgress && e.Revision >= until {
				return nil
			}
			if at = e.Revision; n == 20 && len(opts) > 0 {
				break
			}
		}
		v.Resume(at)
		opts = []kv.WatchOption{kv.FromRevision(at)}
	}
}
