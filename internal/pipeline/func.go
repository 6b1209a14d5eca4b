package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/document"
)

// Func is a function of the host program that serves as an operator. It may keep and modify its
// arguments, but must not keep or modify its results. Only keys, values and headers of returned
// records are used; headers must be sorted by name.
type Func func(ctx context.Context, rec Record, tags []string) ([]Record, error)

// call is an operator that calls a Func.
type call struct {
	name string
	f    Func
}

func readFunc(r *reader, o *Operator, n *document.Node, at string) {
	var c call
	r.fields(o, n, at, document.Field{Names: "function", Read: r.Name(&c.name)})
	if r.needs(n, at, "function"); c.name != "" {
		o.private.spec = &c
	}
}

// Use sets the functions that the job's operators call. It fails if a function is missing.
func (j *Job) Use(funcs map[string]Func) error {
	for i := range j.Operators {
		c, ok := j.Operators[i].private.spec.(*call)
		if !ok {
			continue
		}
		if c.f = funcs[c.name]; c.f == nil {
			return fmt.Errorf("operator %q: function %q is not registered on this node", j.Operators[i].Name, c.name)
		}
	}
	return nil
}

// perHeader is the memory of a header besides its name and value, in bytes.
const perHeader = 32

func (c *call) apply(w *worker, i int, it *item) error {
	made, err := c.guarded(w.ctx, it.Record, w.program.job.tags)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		w.counts[i].Dropped++
	}
	for k := range made {
		one := *it
		one.Key, one.Value, one.Headers, one.json = made[k].Key, made[k].Value, made[k].Headers, jsonUnknown
		size := perItem + len(one.Key) + len(one.Value)
		for _, h := range one.Headers {
			size += perHeader + len(h.Name) + len(h.Value)
		}
		if err := w.grow(size); err != nil {
			return err
		}
		if w.next(i, &one); w.over != nil {
			return w.over
		}
	}
	return nil
}

var errExit = errors.New("it called runtime.Goexit")

// guarded calls the function in a separate goroutine. A panic is an error, and so is
// runtime.Goexit. The text of an error is also formatted there, because its methods are user code.
func (c *call) guarded(ctx context.Context, rec Record, tags []string) (made []Record, err error) {
	rec.Key, rec.Value, rec.Headers = slices.Clone(rec.Key), slices.Clone(rec.Value), slices.Clone(rec.Headers)
	err = errExit
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if recover() != nil { // from formatting the panic's value
				err = errors.New("panic")
			}
		}()
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			} else if v != nil {
				made, err = nil, nil
			}
		}()
		var failed error
		made, failed = c.f(ctx, rec, rec.Tags.In(tags))
		if err = nil; failed != nil {
			err = errors.New(failed.Error())
		}
	}()
	if <-done; err != nil {
		return nil, fmt.Errorf("function %q: %w", c.name, err)
	}
	return made, nil
}
