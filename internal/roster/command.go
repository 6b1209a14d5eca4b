package roster

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// joinCommand is the body of KindJoin.
type joinCommand struct{ list []joining }

type joining struct {
	worker   Worker
	life     uint64
	draining bool
}

func (j *joinCommand) code(c *codec.Coder) {
	codec.List(c, &j.list, func(c *codec.Coder, j *joining) {
		c.String(&j.worker.ID)
		j.worker.code(c)
		c.Uvarint(&j.life)
		c.Bool(&j.draining)
	})
}

// leaveCommand is the body of KindLeave. Who is not there, or has begun another life, is passed over unless the command names only one.
type leaveCommand struct {
	drain bool // they do not leave yet, but take nothing new
	list  []leaving
}

type leaving struct {
	id   string
	life uint64 // 0: whichever it is
}

func (l *leaveCommand) code(c *codec.Coder) {
	c.Bool(&l.drain)
	codec.List(c, &l.list, func(c *codec.Coder, l *leaving) {
		c.String(&l.id)
		c.Uvarint(&l.life)
	})
}

// noteCommand is the body of KindNote. What rests on a row that has changed is passed over.
type noteCommand struct {
	list []noting
	gone []going
}

// noting is what a worker's row is to say, if its life and when the worker was seen are still what they were.
type noting struct {
	id      string
	life    uint64
	was     int64 // when it was seen, ms
	silent  bool
	seen    int64
	load    int
	present tallies
}

// going is a silent worker that is to be forgotten, if it was seen when it was.
type going struct {
	id  string
	was int64
}

func (n *noteCommand) code(c *codec.Coder) {
	codec.List(c, &n.list, func(c *codec.Coder, n *noting) {
		c.String(&n.id)
		c.Uvarint(&n.life)
		c.Varint(&n.was)
		c.Bool(&n.silent)
		c.Varint(&n.seen)
		c.Int(&n.load)
		n.present.code(c)
	})
	codec.List(c, &n.gone, func(c *codec.Coder, g *going) {
		c.String(&g.id)
		c.Varint(&g.was)
	})
}

// Commands returns the kinds of commands of the roster, for the table of the machine.
func Commands() []engine.CommandType {
	return []engine.CommandType{
		{Kind: KindJoin, Name: "join", From: engine.FromUsers, Admit: admit},
		{Kind: KindLeave, Name: "leave", From: engine.FromUsers, Admit: admit, Shrinks: true},
		{Kind: KindNote, Name: "note workers", From: engine.FromLeaders, Shrinks: true},
	}
}

// Admit checks a command of a user in another process.
func Admit(cmd engine.Command) error {
	switch cmd.Kind {
	case KindJoin:
		j, err := decodeBody(cmd.Body, (*joinCommand).code)
		if err != nil {
			return err
		}
		for i := range j.list {
			if err := j.list[i].worker.Check(); err != nil {
				return err
			}
		}
		return j.check()
	case KindLeave:
		l, err := decodeBody(cmd.Body, (*leaveCommand).code)
		if err != nil {
			return err
		}
		return l.check()
	}
	return engine.Errorf(engine.ErrInvalid, "unknown command: machine %d kind %d", cmd.Machine, cmd.Kind)
}

func admit(cmd engine.Command, _ int) error { return Admit(cmd) }

func decodeBody[T any](b []byte, code func(*T, *codec.Coder)) (T, error) {
	v, err := decode(b, code)
	if err != nil {
		return v, engine.Errorf(engine.ErrMalformed, "worker: command: %v", err)
	}
	return v, nil
}

func (j *joinCommand) check() error {
	for i := range j.list {
		if err := j.list[i].worker.check(); err != nil {
			return err
		}
	}
	return checkBatch(len(j.list))
}

func (l *leaveCommand) check() error {
	for i := range l.list {
		if err := CheckID(l.list[i].id); err != nil {
			return err
		}
	}
	return checkBatch(len(l.list))
}

func checkBatch(n int) error {
	if n < 1 || n > maxBatch {
		return engine.Errorf(engine.ErrInvalid, "worker: a command for %d workers: 1-%d", n, maxBatch)
	}
	return nil
}

// command makes an operation for workers, id being one.
func command[T any](kind uint8, id string, body *T, code func(*T, *codec.Coder)) engine.Op {
	return engine.Op{Command: engine.Command{Machine: engine.MachineAction, Kind: kind, Body: encode(body, code)}, Route: id}
}
