package shard

import (
	"time"

	"github.com/floedb/floe/internal/engine"
)

// flushState makes the state durable, so that the next Open replays nothing, unless there is no
// space for it.
func (h *Host) flushState() error {
	if h.space.flush.waiting.Load() > 0 {
		return nil
	}
	done, err := h.db.AsyncFlush()
	if err != nil {
		return err
	}
	poll := time.NewTicker(h.space.pause)
	defer poll.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-poll.C:
			if h.space.flush.waiting.Load() > 0 {
				return nil
			}
		}
	}
}

// closeState closes the state database. It gives up a flush that waits for space, and the end mark
// of Pebble's log, which is empty.
func (h *Host) closeState() error {
	h.space.close()
	defer time.AfterFunc(reservePatience*h.cfg.DiskInterval, h.space.abandon).Stop()
	return h.unlessFull("end mark of the state", h.db.Close())
}

// closeLog closes the log. Its end record is optional.
func (h *Host) closeLog() error { return h.unlessFull("end record of the log", h.ual.Close()) }

func (h *Host) unlessFull(what string, err error) error {
	if noSpace(err) {
		h.log.Warn("disk: no space to close properly", "missing", what, "error", err)
		return nil
	}
	return err
}

// boundClose ends a Close that would wait forever because Pebble delays writes until a flush finds
// space.
func (h *Host) boundClose() *time.Timer {
	return time.AfterFunc(drainTime, func() {
		if h.space.flush.waiting.Load() > 0 {
			h.fail(engine.Errorf(engine.ErrReadOnly, "no space on the disk to close the state; the log is complete"))
		}
	})
}
