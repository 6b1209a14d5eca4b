package wait

import (
	"slices"
	"sync"
)

// Bounds of a Predictor. If there are too many causes, it deletes its predictions and learns them
// again.
const (
	maxCauses    = 4096
	maxPredicted = 4 // topics of a cause
	maxMisses    = 8 // commands of a cause in a row that produce nothing on a topic before it is deleted
)

// Predictor predicts the topics on which the follow-ups of a command will produce items. The
// command itself does not name them, so the prediction is the topics on which earlier commands of
// the same cause produced items. It only decides which claims are proposed, and a claim that finds
// nothing is parked again. So replicas may predict different topics. The zero value is ready for
// use.
type Predictor struct {
	mu     sync.Mutex // guards topics
	topics map[Topic][]predicted
}

// predicted is a topic on which commands of a cause produced items.
type predicted struct {
	topic  Topic
	credit int8 // commands of the cause that may produce nothing on it
}

// Note records the wake-ups of a command that has some causes.
func (p *Predictor) Note(causes []Topic, wakeups []Wakeup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics == nil || len(p.topics) > maxCauses {
		p.topics = make(map[Topic][]predicted)
	}
	for _, c := range causes {
		known := p.topics[c]
		for i := range known {
			known[i].credit--
		}
		known = slices.DeleteFunc(known, func(s predicted) bool { return s.credit <= 0 })
		for _, w := range wakeups {
			if w.N > 0 && !w.Within {
				known = moveToFront(known, w.Topic)
			}
		}
		p.topics[c] = known
	}
}

func moveToFront(known []predicted, t Topic) []predicted {
	known = slices.DeleteFunc(known, func(s predicted) bool { return s.topic == t })
	known = slices.Insert(known, 0, predicted{t, maxMisses})
	return known[:min(len(known), maxPredicted)]
}

// Topics returns the topics on which the next command of a cause may produce items, the latest
// first. known is false if no command of the cause has been noted.
func (p *Predictor) Topics(cause Topic) (topics []Topic, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known := p.topics[cause]
	topics = make([]Topic, len(all))
	for i, s := range all {
		topics[i] = s.topic
	}
	return topics, known
}
