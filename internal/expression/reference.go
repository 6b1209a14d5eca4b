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
	{"or ||, and &&, not !", "of booleans; the right side is evaluated only if the left does not decide"},
	{"== !=", "equal by value; values of different types differ"},
	{"< <= > >=", "of two numbers or two strings"},
	{"in", `x in [a, b], "name" in object, x in 1..9, "name" in headers`},
	{"contains, startsWith, endsWith", "of two strings"},
	{"matches",
		"a string and a quoted regular expression (RE2); the cost depends on the pattern and the length of the string"},
	{"+ - * / % **",
		"of numbers; + also joins two strings. Integer overflow (64 bits) and division by zero are errors; the result of / and ** " +
			"is a float64"},
	{"x[i], x.name, x[a:b]",
		"an element or member, null if missing; an index below 0 counts from the end; slices of strings count characters"},
	{"[a, b], {name: a}", "arrays and objects"},
}

var functionDocs = map[string]string{
	"len": "characters of a string, elements of an array, members of an object", "abs": "absolute value", "ceil": "rounded up",
	"floor": "rounded down",
	"round": "rounded to the nearest integer, halves away from zero",
	"int":   "a number without its fraction, or a string parsed as an integer",
	"float": "a number, or a string parsed as a number", "string": "a string unchanged, any other value as JSON",
	"type": "null, boolean, number, string, array or object", "upper": "in upper case", "lower": "in lower case",
	"trim":       "without white space, or the characters of the second string, at both ends",
	"trimPrefix": "without the second string at the beginning", "trimSuffix": "without the second string at the end",
	"hasPrefix":   "whether it begins with the second string",
	"hasSuffix":   "whether it ends with the second string",
	"indexOf":     "index of the first occurrence of the second string, in characters; -1 if none",
	"lastIndexOf": "index of the last occurrence of the second string, in characters; -1 if none",
	"replace":     "with every occurrence of the second string replaced by the third",
	"split":       "an array of the parts between occurrences of the second string",
	"join":        "the strings of an array, joined by the second argument",
	"min":         "the least of numbers, or of an array of numbers", "max": "the greatest of numbers, or of an array of numbers",
	"mean":  "the mean of an array of numbers",
	"first": "the first element, null if empty", "last": "the last element, null if empty",
	"keys":   "the names of the members of an object",
	"values": "the values of the members of an object", "all": "whether the predicate is true for all elements",
	"any":  "whether the predicate is true for any element",
	"none": "whether the predicate is true for no element", "one": "whether the predicate is true for exactly one element",
	"filter": "the elements for which the predicate is true",
	"map":    "the result of the predicate for each element", "count": "number of elements for which the predicate is true",
	"find": "the first element for which the predicate is true, or null",
	"sum":  "sum of the elements, or of the results of the predicate",
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
