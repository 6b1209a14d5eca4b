package kv

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// ReadValue implements protocol.ValueReader.
func (m *machine) ReadValue(v *engine.View, namespace string, k []byte, now int64) ([]byte, error) {
	ns, ok := v.Namespace(namespace)
	if !ok {
		return nil, nil
	}
	w, err := current(v, ns, k)
	if err != nil || !w.exists() || w.tombstone() || w.expiredAt(now) {
		return nil, err
	}
	if w.value == nil {
		return []byte{}, nil
	}
	return w.value, nil
}

// putMany applies puts of a machine, each with its own number. A put whose condition does not hold
// is skipped.
//
//	put (uvarint length, bytes) ...
func (m *machine) putMany(tx *engine.Tx, body []byte) ([]byte, error) {
	type keyed struct {
		key []byte
		putBody
	}
	var puts []keyed
	for r := codec.NewReader(body); r.Len() > 0; {
		b := r.Bytes()
		if err := r.Err(); err != nil {
			return nil, engine.Errorf(engine.ErrMalformed, "kv: command: %v", err)
		}
		k, body, err := put.Read(engine.Command{Kind: kindPut, Body: b})
		if err == nil {
			err = checkKey(string(k))
		}
		if err != nil {
			return nil, err
		}
		puts = append(puts, keyed{k, body})
	}
	for i := range puts {
		if i > 0 {
			tx.Step()
		}
		p := &puts[i]
		if m.open(tx, p.key); m.write.allows(&p.guard) == nil {
			m.write.set(p.value, p.ttl)
		}
	}
	return nil, nil
}
