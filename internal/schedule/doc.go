// Package schedule is what the schedules of actions and workflows have in common: a duty finds out
// which ticks are due, since time zones are none of Apply's business, and proposes them with the
// state that it computed them from. Apply carries them out if the schedule is still in that state,
// so each tick is decided exactly once. What a tick does is up to the machine.
package schedule
