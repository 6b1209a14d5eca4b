package wait

import "slices"

// Look is the result of the engine's check of the state for a claim: the number of available items,
// or the topics to wait for.
type Look struct {
	N      int     // how much is available, Any if that is not known
	Most   int     // how much the claim takes at most
	Only   Slots   // the kinds of items that it accepts
	Topics []Topic // claims for the same items have the same first topic
	Parent Topic   // of the first topic, 0: none
	WakeAt int64   // time at which to look again, ms

	known map[Topic]bool // Topics, if there are more than fewTopics: a worker may have a thousand names
}

const fewTopics = 16

// WaitFor adds a topic, once.
func (l *Look) WaitFor(t Topic) {
	if l.known == nil && slices.Contains(l.Topics, t) || l.known[t] {
		return
	}
	l.Topics = append(l.Topics, t)
	switch {
	case l.known != nil:
		l.known[t] = true
	case len(l.Topics) > fewTopics:
		l.known = make(map[Topic]bool, 2*len(l.Topics))
		for _, t := range l.Topics {
			l.known[t] = true
		}
	}
}
