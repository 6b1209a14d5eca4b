package workload

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
)

// keysJob creates and revokes keys, and checks that all expected ones exist. It is for one client:
// keys belong to the node, so no other client may create any.
type keysJob struct {
	live    map[string]auth.Role
	revoked map[string]bool
	unsure  map[string]bool // the last request has an unknown outcome
}

func newKeysJob() Job {
	return &keysJob{live: make(map[string]auth.Role), revoked: make(map[string]bool), unsure: make(map[string]bool)}
}

// mostKeys is the number of keys of a client above which it revokes some.
const mostKeys = 12

func keysOf(w World) *auth.Gate {
	g := auth.NewGate(0)
	g.Attach(w.Router().Door(), w.Router().Door())
	return g
}

func (j *keysJob) Open(w World) bool {
	return insist(w, func() error {
		_, _, err := keysOf(w).Bootstrap(context.Background(), auth.Key{}, nil)
		if errors.Is(err, engine.ErrExists) {
			return nil
		}
		return err
	})
}

func (j *keysJob) Do(w World) {
	g := keysOf(w)
	for w.Working() {
		switch n := w.Rand().IntN(8); {
		case n < 2:
			j.list(w, g)
		case n < 6 && len(j.live) < mostKeys:
			j.create(w, g)
		default:
			j.revoke(w, g)
		}
	}
}

func (j *keysJob) create(w World, g *auth.Gate) {
	role := auth.Role(1 + w.Rand().IntN(int(auth.Admin)))
	k, _, err := g.Create(context.Background(), auth.Key{Role: role}, nil)
	if w.Note(err); err == nil {
		j.live[k.ID] = role
	} else {
		j.unsure[k.ID] = true
	}
}

func (j *keysJob) revoke(w World, g *auth.Gate) {
	ids := slices.Sorted(maps.Keys(j.live))
	if len(ids) == 0 {
		return
	}
	id := ids[w.Rand().IntN(len(ids))]
	delete(j.live, id)
	err := g.Revoke(context.Background(), id)
	switch w.Note(err); {
	case err == nil:
		j.revoked[id] = true
		return
	case errors.Is(err, engine.ErrNotFound) && !w.Lossy():
		w.Failf("key %s was made and is not there to be revoked", id)
	}
	j.unsure[id] = true
}

// list compares the existing keys with the expected ones.
func (j *keysJob) list(w World, g *auth.Gate) {
	keys, err := g.List(context.Background())
	if w.Note(err); err == nil {
		j.compare(w, keys)
	}
}

func (j *keysJob) compare(w World, keys []auth.Key) {
	if w.Lossy() {
		return
	}
	left := maps.Clone(j.live)
	strange := 0
	for _, k := range keys {
		role, live := left[k.ID]
		switch delete(left, k.ID); {
		case live && role != k.Role:
			w.Failf("key %s has the role %v, it was made with %v", k.ID, k.Role, role)
		case j.revoked[k.ID]:
			w.Failf("key %s was revoked and is there", k.ID)
		case !live && !j.unsure[k.ID]:
			strange++ // the first one, which Open has created
		}
	}
	if len(left) > 0 || strange != 1 {
		w.Failf("of the keys that were made %v are missing, and there are %d others, want the first", slices.Sorted(maps.Keys(left)),
			strange)
	}
}

func (j *keysJob) Audit(w World) {
	var keys []auth.Key
	if w.Lossy() || !insist(w, func() (err error) {
		keys, err = keysOf(w).List(context.Background())
		return err
	}) {
		return
	}
	j.compare(w, keys)
}
