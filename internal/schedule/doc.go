// Package schedule is the common part of the schedules of actions and workflows. A duty computes
// which ticks are due, because Apply must not use time zones, and proposes them with the state from
// which it computed them. Apply executes them if the schedule is still in that state, so each tick
// is decided exactly once. The machine defines what a tick does.
package schedule
