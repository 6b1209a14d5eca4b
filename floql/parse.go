package floql

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/floedb/floe/internal/agg"
)

// Limits of a query's text. They are far beyond any real query, and small enough for fast parsing.
const (
	maxText   = 64 << 10
	maxStages = 100
	maxNested = 1000 // stages of a query including its nested queries
	maxDepth  = 8    // of queries in joins
)

// Query is a parsed query. It is immutable and safe for concurrent use.
type Query struct {
	text        string
	measurement string
	filters     []Filter
	timeRange   *timeRange // nil if it gives none
	stages      []*stage
	plan        *steps
}

// Parse parses a query.
//
// Errors: *Error, with the position.
func Parse(text string) (*Query, error) {
	p := reader{lexer: lexer{text: text}}
	switch i := invalidUTF8(text); {
	case len(text) > maxText:
		p.fail(0, "query of %d bytes, expected no more than %d", len(text), maxText)
	case i >= 0:
		p.fail(i, "found a byte that is not UTF-8")
	}
	q := p.query()
	if p.err == nil && p.next() != 0 {
		p.fail(p.pos, "found %s, expected \"|\" or the end of the query", p.found())
	}
	if p.err != nil {
		return nil, p.err
	}
	q.text = text
	return q, nil
}

// ParseFilters parses the filters in the braces of a query, without the braces: `host=~web-*,
// region!=eu`. An empty text has no filters.
//
// Errors: *Error, with the position.
func ParseFilters(text string) (all []Filter, err error) {
	p := reader{lexer: lexer{text: text}}
	if i := invalidUTF8(text); len(text) > maxText {
		p.fail(0, "filters of %d bytes, expected no more than %d", len(text), maxText)
	} else if i >= 0 {
		p.fail(i, "found a byte that is not UTF-8")
	}
	for p.err == nil && p.next() != 0 {
		if len(all) > 0 && !p.eat(",") {
			p.fail(p.pos, "found %s, expected \",\" or the end of the filters", p.found())
			break
		}
		all = append(all, p.filter())
	}
	if p.err != nil {
		return nil, p.err
	}
	return all, nil
}

// parsePointWise parses a single point-wise stage.
func parsePointWise(text string) (*stage, error) {
	p := reader{lexer: lexer{text: text}}
	if i := invalidUTF8(text); len(text) > maxText || i >= 0 {
		p.fail(max(i, 0), "stage of %d bytes, expected up to %d of UTF-8", len(text), maxText)
	}
	s := p.stage()
	if p.err == nil && p.next() != 0 {
		p.fail(p.pos, "found %s, expected the end of the stage", p.found())
	}
	if p.err == nil && s.role != pointWise {
		p.fail(s.offset, "found %s, expected a stage for points", s.name)
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

func invalidUTF8(text string) int {
	for i, c := range text {
		if c == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

type reader struct {
	lexer
	depth int
	// Of all queries so far:
	stages   int
	patterns int64 // instructions
}

func (p *reader) query() *Query {
	start := p.pos
	q := &Query{measurement: p.name("a measurement")}
	if p.eat("{") {
		q.filters = p.filters()
	}
	if p.eat("[") {
		r := p.timeRange()
		if q.timeRange = &r; p.err == nil {
			p.expect("]", "and the stages")
		}
	}
	for p.err == nil && p.eat("|") {
		if p.space(); len(q.stages) == maxStages {
			p.fail(p.pos, "found more than %d stages", maxStages)
		}
		if p.stages++; p.stages > maxNested {
			p.fail(p.pos, "found more than %d stages, nested queries included", maxNested)
		}
		q.stages = append(q.stages, p.stage())
	}
	if p.err == nil {
		q.text = p.text[start:p.pos]
		q.plan = p.compile(q)
	}
	return q
}

func (p *reader) filters() (all []Filter) {
	if p.eat("}") {
		return nil
	}
	for p.err == nil {
		all = append(all, p.filter())
		if p.eat("}") {
			return all
		}
		if p.err == nil && !p.eat(",") {
			p.fail(p.pos, "found %s, expected \",\" or \"}\"", p.found())
		}
	}
	return all
}

func (p *reader) filter() Filter {
	tag := p.name("the name of a tag")
	op := p.operator()
	if p.space(); p.err != nil {
		return Filter{}
	}
	at := p.pos
	v := p.value(op == Match || op == NotMatch)
	f, err := NewFilter(tag, op, v)
	if err != nil {
		p.fail(at, "%v", err)
	}
	return f
}

func (p *reader) operator() Op {
	switch {
	case p.eat("=~"):
		return Match
	case p.eat("!~"):
		return NotMatch
	case p.eat("!="):
		return NotEqual
	case p.eat("="):
		return Equal
	}
	p.fail(p.pos, "found %s, expected =, !=, =~ or !~", p.found())
	return Equal
}

func (p *reader) stage() *stage {
	p.space()
	s := &stage{text: p.text, offset: p.pos}
	found := p.found()
	id := p.identifier()
	if id == "" {
		p.fail(s.offset, "found %s, expected a stage", found)
		return nil
	}
	if s.spec = stageNamed(id); s.spec == nil {
		p.fail(s.offset, "unknown stage %q%s", id, suggest(id, stageNames()))
		return nil
	}
	if p.expect("(", "after "+id); p.err == nil {
		p.arguments(s)
	}
	return s
}

// arguments reads arguments up to the closing parenthesis.
func (p *reader) arguments(s *stage) {
	s.args = make([]arg, len(s.params))
	for i := 0; p.err == nil; i++ {
		if p.next() == ')' {
			break
		}
		p.argument(s, &i)
		if p.err == nil && !p.eat(",") && p.next() != ')' {
			p.fail(p.pos, "found %s, expected \",\" or \")\" in %s", p.found(), s.signature())
		}
	}
	if p.err == nil {
		p.complete(s)
		p.eat(")")
	}
}

// argument reads argument i, or one given by name.
func (p *reader) argument(s *stage, i *int) {
	at := p.pos
	n := *i
	if name := p.argumentName(s); name != "" {
		if n = slices.IndexFunc(s.params, func(q param) bool { return q.name == name }); n < 0 {
			p.fail(at, "unknown argument %q of %s%s", name, s.signature(), suggest(name, paramNames(s.spec)))
			return
		}
		*i--
	} else {
		for n < len(s.params) && s.params[n].named {
			n++
		}
		if n >= len(s.params) {
			p.fail(at, "found %s, expected no more arguments of %s", p.found(), s.signature())
			return
		}
	}
	if s.args[n].given {
		p.fail(at, "argument %q of %s is given twice", s.params[n].name, s.signature())
		return
	}
	p.space()
	s.args[n] = arg{given: true, offset: p.pos}
	p.read(&s.params[n], &s.args[n])
}

func paramNames(s *spec) (all []string) {
	for _, p := range s.params {
		all = append(all, p.name)
	}
	return all
}

// argumentName reads "name=". Parameters of type expression or list cannot have a name.
func (p *reader) argumentName(s *stage) string {
	if len(s.params) == 0 || s.params[0].kind >= names && s.params[0].kind <= aCondition {
		return ""
	}
	at := p.pos
	if name := p.identifier(); name != "" && p.next() == '=' {
		p.pos++
		return name
	}
	p.pos = at
	return ""
}

// complete checks the combination of arguments.
func (p *reader) complete(s *stage) {
	for i := range s.params {
		if !s.params[i].optional && !s.args[i].given {
			p.fail(p.pos, "found %s, expected %s in %s", p.found(), s.params[i].expected(), s.signature())
			return
		}
	}
	switch s.name {
	case "window":
		p.checkWindow(s)
	case "clamp":
		if s.args[0].number > s.args[1].number {
			p.fail(s.args[0].offset, "clamp from %s to %s: expected the lower bound first", printNumber(s.args[0].number),
				printNumber(s.args[1].number))
		}
	}
}

func (p *reader) checkWindow(s *stage) {
	size, every := s.args[0].step, s.args[1].step
	if !s.args[1].given {
		return
	}
	if length(every) > length(size) {
		p.fail(s.args[1].offset, "windows of %s every %s leave points out, expected an interval of at most their size", printSpan(size),
			printSpan(every))
	}
}

// length returns the approximate length of a step in ms.
func length(s agg.Step) int64 {
	const month = 30 * 24 * 60 * 60 * 1000
	return s.Months*month + s.Millis
}

// expected describes an argument, for errors.
func (p *param) expected() string {
	switch p.kind {
	case aDuration:
		return "a duration like 5m"
	case aWindow:
		return "a duration like 5m or 1mo"
	case aNumber:
		return "a number"
	case aWhole:
		return "a whole number"
	case aWord, anOperator:
		return p.choices()
	case aWordOrNumber:
		return p.choices() + " or a number"
	case aZone:
		return "a time zone like Europe/Berlin"
	case names:
		return "names of fields"
	case tagNames:
		return "names of tags or *"
	case anExpression, aCondition:
		return "an expression"
	case aQuery:
		return "a query"
	}
	return "a name"
}

func (p *param) choices() string {
	n := len(p.words) - 1
	return strings.Join(p.words[:n], ", ") + " or " + p.words[n]
}

// read reads an argument.
func (p *reader) read(q *param, a *arg) {
	switch q.kind {
	case aDuration, aWindow:
		a.step = p.span(q.kind == aWindow)
		if p.err == nil && a.step == (agg.Step{}) {
			p.fail(a.offset, "duration is 0")
		}
	case aNumber, aWhole:
		p.readNumber(q, a)
	case aWord:
		p.readWord(q, a)
	case aWordOrNumber:
		if c := p.next(); c == '-' || c == '+' || c == '.' || isDigit(c) {
			a.number = p.number()
		} else {
			p.readWord(q, a)
		}
	case aZone:
		p.readZone(a)
	case aText:
		a.text = p.name("a name")
	case names, tagNames:
		p.readNames(q, a)
	case anExpression, aCondition:
		p.readExpression(q, a)
	case anOperator:
		p.readOperator(q, a)
	case aQuery:
		p.readQuery(a)
	}
}

func (p *reader) readNumber(q *param, a *arg) {
	a.number = p.number()
	switch {
	case p.err != nil:
	case q.least != q.most && !(a.number >= q.least && a.number <= q.most):
		p.fail(a.offset, "%s is %s, expected %s to %s", q.name, printNumber(a.number), printNumber(q.least), printNumber(q.most))
	case q.kind == aWhole && a.number != float64(int64(a.number)):
		p.fail(a.offset, "%s is %s, expected a whole number", q.name, printNumber(a.number))
	}
}

func (p *reader) readWord(q *param, a *arg) {
	found := p.found()
	a.text = p.identifier()
	if !slices.Contains(q.words, a.text) {
		p.fail(a.offset, "found %s, expected %s%s", found, q.expected(), suggest(a.text, q.words))
	}
}

func (p *reader) readZone(a *arg) {
	if a.text = p.name("a time zone"); p.err != nil {
		return
	}
	var err error
	if a.zone, err = agg.Zone(a.text); err != nil {
		p.fail(a.offset, "unknown time zone %q, expected one like Europe/Berlin", a.text)
	}
}

func (p *reader) readNames(q *param, a *arg) {
	if q.kind == tagNames && p.eat("*") {
		a.text = "*"
		return
	}
	for p.err == nil {
		p.space()
		at := p.pos
		n := p.name(strings.TrimSuffix(strings.TrimPrefix(q.expected(), "names of "), " or *"))
		if slices.Contains(a.list, n) {
			p.fail(at, "duplicate %q", n)
		}
		if a.list = append(a.list, n); !p.eat(",") {
			return
		}
	}
}

func (p *reader) readExpression(q *param, a *arg) {
	start := p.pos
	text := p.raw()
	if p.err != nil {
		return
	}
	a.offset = start + len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	if a.text = strings.TrimSpace(text); a.text == "" {
		p.fail(start, "found %s, expected an expression", p.found())
		return
	}
	var err error
	if a.expr, err = compileExpression(a.text, q.kind == aCondition, &p.patterns); err != nil {
		at := 0
		if e, ok := errors.AsType[*expressionError](err); ok {
			at = e.offset
		}
		p.fail(a.offset+at, "%v", err)
	}
}

func (p *reader) readOperator(q *param, a *arg) {
	for _, op := range q.words {
		if p.eat(op) {
			a.text = op
			return
		}
	}
	p.fail(a.offset, "found %s, expected %s", p.found(), q.expected())
}

// readQuery reads a query, with or without its own parentheses.
func (p *reader) readQuery(a *arg) {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.pos, "found nested queries, expected no more than %d levels", maxDepth)
	}
	enclosed := p.eat("(")
	if a.query = p.query(); enclosed && p.err == nil {
		p.expect(")", "or \"|\"")
	}
	p.depth--
}
