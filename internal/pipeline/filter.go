package pipeline

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// filter keeps records for which a condition holds.
type filter struct{ keeps condition }

func readFilter(r *reader, o *Operator, n *document.Node, at string) {
	var f filter
	r.fields(o, n, at, document.Field{Names: "condition", Read: r.condition(&f.keeps)})
	if r.needs(n, at, "condition"); f.keeps != nil {
		o.private.spec = &f
	}
}

func (f *filter) apply(w *worker, i int, it *item) error {
	yes, err := f.keeps(it, &w.meter)
	if yes && err == nil {
		w.next(i, it)
	}
	return err
}

// passthrough does nothing.
type passthrough struct{}

func readPassthrough(r *reader, o *Operator, n *document.Node, at string) {
	r.fields(o, n, at)
	o.private.spec = passthrough{}
}

func (passthrough) apply(w *worker, i int, it *item) error {
	w.next(i, it)
	return nil
}

// keyBy sets the key. A record without a value for the new key keeps its old key.
type keyBy struct {
	key  *valueExpr
	text string
}

func readKeyBy(r *reader, o *Operator, n *document.Node, at string) {
	var k keyBy
	r.fields(o, n, at, document.Field{Names: "key_expression key", Read: func(n *document.Node, at string) {
		r.keyExpression(&k.key)(n, at)
		k.text = n.Text
	}})
	if r.needs(n, at, "key_expression key"); k.key != nil {
		o.private.spec = &k
	}
}

func (k *keyBy) apply(w *worker, i int, it *item) error {
	key, ok, err := k.key.text(it, &w.meter)
	if err != nil {
		return err
	}
	if ok {
		it.Key = bytesOf(key)
	}
	w.next(i, it)
	return nil
}

// classifier adds tags to records.
type classifier struct {
	rules []rule
	other TagSet
}

// rule adds a tag to records that match a condition.
type rule struct {
	holds condition
	tag   TagSet
}

func readClassify(r *reader, o *Operator, n *document.Node, at string) {
	var c classifier
	r.fields(o, n, at,
		document.Field{Names: "rules", Read: r.Each(maxRules, func(n *document.Node, at string) {
			var one rule
			r.Table(n, at, document.Field{Names: "condition", Read: r.condition(&one.holds)},
				document.Field{Names: "tag", Read: r.given(&one.tag)})
			if r.needs(n, at, "condition", "tag"); one.holds != nil {
				c.rules = append(c.rules, one)
			}
		})},
		document.Field{Names: "default_tag", Read: r.given(&c.other)},
	)
	r.needs(n, at, "rules")
	o.private.spec = &c
}

// given reads the name of a tag that an operator adds.
func (r *reader) given(v *TagSet) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		tag := ""
		if r.Text(&tag)(n, at); n.Kind == document.Text {
			*v = r.gives(tag, n.Line, at)
		}
	}
}

// apply adds the tags of all matching rules, or the default if none matches. A rule that fails does
// not match, so no record is dropped. Rules that exceed the cost limit of the record do not match
// either, and count as one failure of the record.
func (c *classifier) apply(w *worker, i int, it *item) error {
	held := false
	var dear error
	for j := range c.rules {
		switch yes, err := c.rules[j].holds(it, &w.meter); {
		case errors.Is(err, expression.ErrCost) && dear == nil:
			dear = fmt.Errorf("rule %d: %w", j+1, err)
		case yes && err == nil:
			it.Tags |= c.rules[j].tag
			held = true
		}
	}
	if !held {
		it.Tags |= c.other
	}
	if dear != nil {
		w.fails(i, dear, it)
	}
	w.next(i, it)
	return nil
}
