package action

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workers"
)

// openBody opens a session or changes the actions it takes.
type openBody struct {
	session uint64 // 0: a new one
	process string
	groups  []group
}

func (o *openBody) code(f *codec.Fields) {
	f.Uvarint("session", &o.session)
	f.Text("process", &o.process)
	codec.ListOf(f, "groups", &o.groups, (*group).fields, codec.Range{Max: maxGroups})
}

func (o *openBody) check() error {
	names := 0
	for i := range o.groups {
		if err := o.groups[i].check(); err != nil {
			return err
		}
		names += len(o.groups[i].names)
	}
	if names > maxNames {
		return engine.Errorf(ErrInvalid, "action: %d actions of a session exceed %d", names, maxNames)
	}
	return engine.CheckName("process", o.process)
}

// fields codes a group. Its binary form is that of the session's row.
func (g *group) fields(f *codec.Fields) {
	if c := f.Binary(); c != nil {
		g.code(c)
		return
	}
	if f.Checking() { // labels must be valid to have a JSON form; check does the rest
		f.Refuse(checkLabels([]byte(g.labels)))
		return
	}
	codec.OnCopy(f, &g.labels, func(s *string) {
		labels := []byte(*s)
		engine.CodePairs(f, "labels", &labels)
		*s = string(labels)
	})
	codec.ListOf(f, "actions", &g.names, codec.Text)
}

func (g *group) check() error {
	if len(g.names) == 0 {
		return engine.Errorf(ErrInvalid, "action: worker has no actions")
	}
	for _, name := range g.names {
		if err := checkAction(name); err != nil {
			return err
		}
	}
	return checkLabels([]byte(g.labels))
}

// codeCaller codes a session, or the ID of a worker without a session.
func codeCaller(f *codec.Fields, session *uint64, self *string) {
	c := f.Binary()
	if c != nil || f.Given("session", *session != 0) {
		f.Uvarint("session", session)
	}
	switch {
	case *session != 0:
	case f.Checking():
		f.Refuse(workers.CheckID(*self))
	default:
		f.Text("worker", self)
	}
}

// codeDelivery codes a trailing delivery number, omitted if 0.
func codeDelivery(f *codec.Fields, begun *int64) {
	c := f.Binary()
	if c == nil {
		f.Varint("delivery", begun)
		return
	}
	if c.More(*begun != 0) {
		if c.Varint(begun); *begun == 0 {
			c.Fail("delivery 0")
		}
	}
}

// touchBody extends the deadline of an attempt.
type touchBody struct {
	session uint64 // 0: that of self
	self    string
	ref     protocol.Ref
	attempt int64 // 0: the current one
	extend  int64 // ms
	begun   int64 // as that of an end
}

func (t *touchBody) code(f *codec.Fields) {
	codeCaller(f, &t.session, &t.self)
	codeRef(&t.ref, f)
	f.Varint("attempt", &t.attempt)
	f.SignedMillis("extension_ms", &t.extend, codec.Range{Min: 1, Max: maxMillis})
	codeDelivery(f, &t.begun)
}

// sessionBody ends a session and releases its runs. If the session is closed rather than expired,
// their attempts do not count.
type sessionBody struct {
	session uint64 // 0: that of self
	self    string
}

func (s *sessionBody) code(f *codec.Fields) { codeCaller(f, &s.session, &s.self) }
