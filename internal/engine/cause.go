package engine

import (
	"slices"
	"sync"
)

// Bounds of what is known of causes: it is forgotten when there are too many, and learned anew.
const (
	maxCauses     = 4096
	maxForeseen   = 4 // topics of a cause
	foreseenFor   = 8 // commands with a cause that may make nothing on a topic before it is forgotten
	maxGuessTakes = 8 // takes that are appended when nothing is known of a cause
)

// foresight knows what came of commands with a cause (see Tx.Cause): what they make by the commands of other machines that they set going can not be
// told from them alone. It decides nothing but which takes are appended, and those that find nothing wait on: replicas may know different things.
type foresight struct {
	mu   sync.Mutex // guards made
	made map[Topic][]foreseen
}

// foreseen is a topic on which commands with a cause made something to take.
type foreseen struct {
	topic  Topic
	credit int8 // commands with the cause that may make nothing on it
}

// note notes what a command with some causes has made.
func (f *foresight) note(causes []Topic, wakes []wake) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made == nil || len(f.made) > maxCauses {
		f.made = make(map[Topic][]foreseen)
	}
	for _, c := range causes {
		known := f.made[c]
		for i := range known {
			known[i].credit--
		}
		known = slices.DeleteFunc(known, func(s foreseen) bool { return s.credit <= 0 })
		for _, w := range wakes {
			if w.n > 0 && !w.within {
				known = foresee(known, w.topic)
			}
		}
		f.made[c] = known
	}
}

// foresee puts a topic in front.
func foresee(known []foreseen, t Topic) []foreseen {
	known = slices.DeleteFunc(known, func(s foreseen) bool { return s.topic == t })
	known = slices.Insert(known, 0, foreseen{t, foreseenFor})
	return known[:min(len(known), maxForeseen)]
}

// of calls pull for what commands with a cause have made before. It reports whether anything is known of the cause.
func (f *foresight) of(cause Topic, pull func(Topic)) (known bool) {
	f.mu.Lock()
	all, known := f.made[cause]
	all = slices.Clone(all)
	f.mu.Unlock()
	for _, s := range all {
		pull(s.topic)
	}
	return known
}

// Cause says that what the present command makes to take with all its follow-ups comes of a cause, which has a name in the way of topics. Another
// command with that cause is expected to make the same, see Made.Cause.
func (tx *Tx) Cause(c Topic) {
	if !slices.Contains(tx.causes, c) {
		tx.causes = append(tx.causes, c)
	}
}

// pullCaused makes takes be under way for what a command with a cause may make.
func (x *Executor) pullCaused(m Made, limit int) (pulled []*Taking) {
	known := x.foresight.of(m.Cause, func(t Topic) {
		pulled = append(pulled, x.hub.pullFor(Made{Topic: t, N: m.N}, limit-len(pulled))...)
	})
	if !known {
		pulled = x.hub.pullFor(Made{Topic: m.Topic, N: 1, Within: true}, min(limit, maxGuessTakes))
	}
	return pulled
}

// Concluder is a Machine with commands that go on when their follow-ups have run.
type Concluder interface {
	// Conclude goes on with a command for which Apply has called Tx.Conclude, and has returned a result. What it returns is the command's result.
	// Like Apply it checks first and then changes; an error refuses the whole command.
	Conclude(tx *Tx, cmd Command, result []byte) ([]byte, error)
}

// Conclude makes the present command, which Apply is carrying out and which is not a follow-up, go on behind its follow-ups with the machine's Conclude.
func (tx *Tx) Conclude() { tx.goesOn = true }

// conclude is the part of run behind the follow-ups of a command that goes on.
func (tx *Tx) conclude(cmd Command, result []byte) ([]byte, error) {
	base := len(tx.follow)
	tx.Step()
	tx.enter(cmd.Machine)
	result, err := tx.x.machines[cmd.Machine].(Concluder).Conclude(tx, cmd, result)
	return result, tx.runFollowUps(base, err)
}
