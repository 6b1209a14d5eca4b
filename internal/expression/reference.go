package expression

import (
	"slices"
	"strings"
)

// FunctionDoc is the documentation of a function.
type FunctionDoc struct {
	Call string // len(x)
	Doc  string
}

// OperatorDocs describes the operators, in ascending order of precedence.
var OperatorDocs = [][2]string{
	{"c ? a : b", "a if c is true, b if it is false"},
	{"??", "the right side if the left one is null"},
	{"or ||, and &&, not !", "of booleans; the right side is not evaluated when the left one decides"},
	{"== !=", "equal by value; values of different types differ"},
	{"< <= > >=", "of two numbers or two strings"},
	{"in", `x in [a, b], "name" in object, x in 1..9, "name" in headers`},
	{"contains, startsWith, endsWith", "of two strings"},
	{"matches",
		"a string and a regular expression (RE2) in quotes; it pays for the instructions of the pattern and the bytes of the string"},
	{"+ - * / % **",
		"of numbers; + also joins two strings. Integers that leave 64 bits, and division by zero, are errors; / and ** give a number " +
			"with a fraction"},
	{"x[i], x.name, x[a:b]",
		"an element or member, null if none exists; an index below 0 counts from the end; slices of strings count characters"},
	{"[a, b], {name: a}", "arrays and objects"},
}

var functionDocs = map[string]string{
	"len": "characters of a string, elements of an array, members of an object", "abs": "without its sign", "ceil": "rounded up",
	"floor": "rounded down",
	"round": "rounded to the nearest integer, halves away from zero",
	"int":   "a number without its fraction, or the integer that a string says",
	"float": "a number, or the one that a string says", "string": "a string as it is, anything else as JSON",
	"type": "null, boolean, number, string, array or object", "upper": "in upper case", "lower": "in lower case",
	"trim":       "without white space, or the characters of the second string, at both ends",
	"trimPrefix": "without the second string at the beginning", "trimSuffix": "without the second string at the end",
	"hasPrefix":   "whether it begins with the second string",
	"hasSuffix":   "whether it ends with the second string",
	"indexOf":     "the character at which the second string is first found, -1 for none",
	"lastIndexOf": "the character at which the second string is last found, -1 for none",
	"replace":     "every occurrence of the second string is the third",
	"split":       "an array of what is between the occurrences of the second string",
	"join":        "the strings of an array in one, with the second argument between",
	"min":         "the least of numbers, or of an array of numbers", "max": "the greatest of numbers, or of an array of numbers",
	"mean":  "the mean of an array of numbers",
	"first": "the first element, null if none exists", "last": "the last element, null if none exists",
	"keys":   "the names of the members of an object",
	"values": "the values of the members of an object", "all": "whether the predicate holds for all elements",
	"any":  "whether it holds for any",
	"none": "whether it holds for none", "one": "whether it holds for exactly one", "filter": "the elements for which it holds",
	"map": "what the predicate makes of each element", "count": "for how many elements it holds",
	"find": "the first element for which it holds, or null",
	"sum":  "the sum of what the predicate makes of the elements, or of the elements",
}

// Functions returns the documentation of all functions, ordered by name.
func Functions() (all []FunctionDoc) {
	for i := range functions {
		f := &functions[i]
		var args []string
		for j := range max(f.most, f.least) {
			name := map[byte]string{'s': "string", 'n': "number", 'a': "array", 'x': "x"}[f.takes[min(j, len(f.takes)-1)]]
			if j >= f.least {
				name = "[" + name + "]"
			}
			args = append(args, name)
		}
		if f.most < 0 {
			args = append(args, "...")
		}
		all = append(all, FunctionDoc{f.name + "(" + strings.Join(args, ", ") + ")", functionDocs[f.name]})
	}
	for _, name := range loops {
		all = append(all, FunctionDoc{name + "(array, {# > 0})", functionDocs[name]})
	}
	slices.SortFunc(all, func(a, b FunctionDoc) int { return strings.Compare(a.Call, b.Call) })
	return all
}
