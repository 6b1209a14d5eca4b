package shard

import (
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// guarded makes the hosts of this process check and measure the effort of each command, as those of
// simulators do, and shortens the waits of duties. Only GuardHosts and SpeedUpDuties change it, for
// tests of whole nodes. It is not part of Config, and affects no outcome.
var guarded struct {
	mu          sync.Mutex // guards everything below
	on          bool
	dutySpeedup int64
	efforts     []engine.Effort // of closed hosts
}

// GuardHosts makes all hosts that this process opens from now on check and measure the effort of
// each command (see engine.Config.Strict). A command that exceeds its limits ends the process,
// because a node that merely stops might go unnoticed.
func GuardHosts() {
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	guarded.on = true
}

// SpeedUpDuties divides the waits of duties by a factor, in all hosts that this process opens from
// now on (see engine.Config.DutySpeedup). So a test of seconds covers minutes of work.
func SpeedUpDuties(by int64) {
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	guarded.dutySpeedup = by
}

func dutySpeedupSet() int64 {
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	return guarded.dutySpeedup
}

// GuardedEfforts returns the efforts of commands in guarded hosts that were closed.
func GuardedEfforts() []engine.Effort {
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	return guarded.efforts
}

func isGuarded() bool {
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	return guarded.on
}

// noteEfforts keeps the efforts of commands in a host that is being closed and applies no more
// entries.
func (h *Host) noteEfforts() {
	if !isGuarded() || h.cfg.manual {
		return
	}
	guarded.mu.Lock()
	defer guarded.mu.Unlock()
	for _, s := range h.shards {
		guarded.efforts = engine.MostEfforts(guarded.efforts, s.exec.Efforts())
	}
}
