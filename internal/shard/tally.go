package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// tallyInterval is the interval of writing this node's counts of answered calls. A node that is
// killed loses the counts since the last write.
const tallyInterval = 5 * time.Minute

// tallies is the content of the file COUNTS, which ends with its checksum (CRC-32C, u32): the
// counts of each shard of this node, see engine.Tallying. It is optional: a node whose file is
// missing or damaged counts from zero.
type tallies struct {
	shards []shardTallies
	totals totals
}

// totals are the counts of a whole node.
type totals struct{ calls, received, sent int64 }

type shardTallies struct {
	shard engine.ShardID
	all   []engine.Tally
}

func (t *tallies) code(c *codec.Coder) {
	version := byte(1)
	if c.Byte(&version); version != 1 {
		c.Fail(fmt.Sprintf("version %d", version))
	}
	codec.List(c, &t.shards, func(c *codec.Coder, s *shardTallies) {
		c.Uint16((*uint16)(&s.shard))
		codec.List(c, &s.all, func(c *codec.Coder, t *engine.Tally) {
			c.Byte((*byte)(&t.Machine))
			c.Uvarint(&t.Of)
			c.Varint(&t.N)
		})
	})
	if c.More(t.totals != totals{}) {
		c.Varint(&t.totals.calls)
		c.Varint(&t.totals.received)
		c.Varint(&t.totals.sent)
	}
}

const talliesName = "COUNTS"

// keepTallies writes the counts if there is space.
func (h *Host) keepTallies() {
	port := h.port()
	t := tallies{totals: totals{h.earlier + h.calls(), port.BytesReceived, port.BytesSent}}
	sum := t.totals.sum()
	for _, s := range h.shards {
		all := s.exec.Tallies()
		for i := range all {
			sum += all[i].N
		}
		t.shards = append(t.shards, shardTallies{s.id, all})
	}
	if sum == h.tallied || h.space.readOnly() {
		return
	}
	b := codec.Encode(nil, &t, (*tallies).code)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := replaceFile(h.cfg.FS, h.cfg.Dir, talliesName, b); err != nil {
		h.log.Warn("the counts of reads are not kept", "error", err)
		return
	}
	h.tallied = sum
}

func (t totals) sum() int64 { return t.calls + t.received + t.sent }

// port returns all traffic of the node: that of its port, that of other ports (AddTraffic), and
// that before the last start.
func (h *Host) port() Traffic {
	t := h.portAlone()
	t.BytesReceived += h.others.received.Load()
	t.BytesSent += h.others.sent.Load()
	return t
}

// portAlone returns the traffic of the port since the start.
func (h *Host) portAlone() (t Traffic) {
	if h.cfg.Traffic != nil {
		t = h.cfg.Traffic()
	}
	return t
}

// AddTraffic counts bytes of a port other than the host's.
func (h *Host) AddTraffic(received, sent int64) {
	h.others.received.Add(received)
	h.others.sent.Add(sent)
}

// readTallies resumes from the counts written last.
func (h *Host) readTallies() {
	name := h.fs.PathJoin(h.cfg.Dir, talliesName)
	b, err := readFile(h.cfg.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var t tallies
	if err == nil {
		t, err = decodeTallies(b)
	}
	if err != nil {
		h.log.Warn("the counts of reads begin at zero", "file", name, "error", err)
		return
	}
	h.earlier, h.tallied = t.totals.calls, t.totals.sum()
	h.AddTraffic(t.totals.received, t.totals.sent)
	for _, part := range t.shards {
		if int(part.shard) >= len(h.shards) {
			continue
		}
		h.shards[part.shard].exec.AddTallies(part.all)
		for _, t := range part.all {
			h.tallied += t.N
		}
	}
}

func decodeTallies(b []byte) (tallies, error) {
	at := len(b) - 4
	if at < 0 || binary.LittleEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoli) {
		return tallies{}, errors.New("wrong checksum")
	}
	return codec.Decode(b[:at], (*tallies).code)
}
