package floql

import (
	"fmt"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
)

// Costs of point-wise stages. They are known before the stages run, so that a query checks its
// context often enough and no single point takes too long. The unit is a step of about 10 ns: an
// instruction of a pattern at a byte, or a byte copied or compared.
const (
	maxPointSteps = 2_000_000 // of all stages for one point: about 20 ms
	chunkSteps    = 500_000   // between two checks of ctx
	nodeSteps     = 4         // of an operation in an expression
	plainSteps    = 2         // of a stage that is a few instructions
	exactSteps    = 20        // of a stage that rounds decimals, or adds exactly
)

// linear is a number that grows with the string lengths of a series: fixed + perByte * the length
// of the longest string.
type linear struct{ fixed, perByte int64 }

func (l linear) plus(o linear) linear {
	return linear{sum(l.fixed, o.fixed), sum(l.perByte, o.perByte)}
}

func (l linear) times(n int64) linear {
	return linear{product(l.fixed, n), product(l.perByte, n)}
}

func (l linear) most(o linear) linear {
	return linear{max(l.fixed, o.fixed), max(l.perByte, o.perByte)}
}

func (l linear) at(bytes int64) int64 { return sum(l.fixed, product(l.perByte, bytes)) }

// measure returns the maximum number of steps of an expression, and the length of its value if it
// is a string.
func measure(n ast.Node) (steps, size linear) {
	steps.fixed = nodeSteps
	operand := func(o ast.Node) (size linear) {
		s, size := measure(o)
		steps = steps.plus(s)
		return size
	}
	switch n := n.(type) {
	case *ast.StringNode:
		size.fixed = int64(len(n.Value))
	case *ast.IdentifierNode:
		size.perByte = 1
	case *ast.UnaryNode:
		operand(n.Node)
	case *ast.ChainNode:
		size = operand(n.Node)
	case *ast.MemberNode:
		operand(n.Node)
		steps = steps.plus(operand(n.Property))
		size.perByte = 1
	case *ast.BinaryNode:
		return measureBinary(n)
	case *ast.ConditionalNode:
		operand(n.Cond)
		size = operand(n.Exp1).most(operand(n.Exp2))
	case *ast.BuiltinNode:
		for _, a := range n.Arguments {
			steps = steps.plus(operand(a))
		}
	case *ast.CallNode:
		for _, a := range n.Arguments {
			steps = steps.plus(operand(a))
		}
	}
	return steps, size
}

func measureBinary(n *ast.BinaryNode) (steps, size linear) {
	steps, left := measure(n.Left)
	steps.fixed += nodeSteps
	others := []ast.Node{n.Right}
	if list, ok := n.Right.(*ast.ArrayNode); ok {
		others = list.Nodes
	}
	if text, ok := n.Right.(*ast.StringNode); ok && n.Operator == "matches" {
		return steps.plus(left.plus(linear{1, 0}).times(patternSize(text.Value))), size
	}
	for _, o := range others {
		s, right := measure(o)
		steps = steps.plus(s).plus(left).plus(right)
		if n.Operator == "+" {
			size = left.plus(right)
		}
		if n.Operator == "??" {
			size = left.most(right)
		}
	}
	return steps, size
}

// patternSize returns the approximate number of instructions of a regular expression. Invalid
// patterns are rejected elsewhere.
func patternSize(pattern string) int64 {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	return instructions(re)
}

func instructions(re *syntax.Regexp) int64 {
	n := int64(1 + len(re.Rune))
	for _, s := range re.Sub {
		n = sum(n, instructions(s))
	}
	if re.Op == syntax.OpRepeat {
		n = product(n, int64(max(re.Min+1, re.Max, 1)))
	}
	return n
}

// cost returns the number of steps of a point-wise stage for a point of a series.
func (s *stage) cost(series *Series) int64 {
	if e := s.expression(); e != nil {
		return e.steps.at(series.longest())
	}
	switch s.name {
	case "round", "cumsum", "moving_avg":
		return exactSteps
	}
	return plainSteps
}

// longest returns the length of the longest string of a series.
func (s *Series) longest() int64 {
	n := len(s.Field)
	for _, t := range s.Tags {
		n = max(n, len(t.Key), len(t.Value))
	}
	return int64(n)
}

// bytes returns the memory of a series' strings.
func (s *Series) bytes() int64 {
	n := len(s.Field)
	for _, t := range s.Tags {
		n += len(t.Key) + len(t.Value) + 32
	}
	return int64(n)
}

// atOnce returns how many points can pass stages of the given cost per point between two checks of
// ctx.
func atOnce(steps int64) int {
	steps = max(steps, 1)
	return int(max(min(chunkSteps/steps, chunk), 1))
}

// checkCost returns an error if a point of a series takes too many steps.
func checkCost(steps int64, series *Series) error {
	if steps <= maxPointSteps {
		return nil
	}
	return fmt.Errorf("the stages up to here take up to %d steps for a point of a series with strings of up to %d bytes, expected no "+
		"more than %d",
		steps, series.longest(), maxPointSteps)
}
