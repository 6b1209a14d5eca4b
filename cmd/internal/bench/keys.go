package main

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// Sizes of stored keys and values.
const (
	keyBytes   = 16
	valueBytes = 256
)

// mix is a bijection that spreads neighbours, so that keys made of consecutive numbers are distinct
// and uniform.
func mix(x uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	x *= odd
	x ^= x >> 32
	x *= odd
	x ^= x >> 29
	return x
}

// appendKey appends the i-th key.
func appendKey(dst []byte, i uint64) []byte {
	var b [keyBytes / 2]byte
	binary.BigEndian.PutUint64(b[:], mix(i))
	return hex.AppendEncode(dst, b[:])
}

func keyOf(i uint64) string { return string(appendKey(nil, i)) }

// keys generates new keys: the numbers first, first+step, first+2*step ... It formats keysPerChunk
// of them at a time into one string. So a key costs floe and its limit a few nanoseconds and no
// allocation.
type keys struct {
	next, step uint64
	chunk      string
}

const keysPerChunk = 4096

func (k *keys) take() string {
	if k.chunk == "" {
		var b strings.Builder
		b.Grow(keysPerChunk * keyBytes)
		var key [keyBytes]byte
		for range keysPerChunk {
			b.Write(appendKey(key[:0], k.next))
			k.next += k.step
		}
		k.chunk = b.String()
	}
	key := k.chunk[:keyBytes]
	k.chunk = k.chunk[keyBytes:]
	return key
}

// values are random bytes from which values are cut: far more than a table block or a compressor's
// window holds.
type values []byte

func newValues(seed uint64) values {
	v := make(values, 4<<20)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < len(v); i += 8 {
		binary.LittleEndian.PutUint64(v[i:], rng.Uint64())
	}
	return v
}

func (v values) cut(rng *rand.Rand) []byte {
	at := rng.IntN(len(v) - valueBytes)
	return v[at : at+valueBytes : at+valueBytes]
}
