package floql

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a pattern, so that matching a value takes at most a few ms.
const (
	maxAlternatives = 1024     // number of combinations of its braces: {a,b}{c,d} are 4
	maxGlobBytes    = 64 << 10 // of all alternatives
	maxStarBytes    = 8 << 10  // of those with a *, which may scan a value once for each of their bytes
)

// parseGlob checks a glob and returns its alternatives, without braces. * matches any characters, ?
// any one, [a-z] one in a set, [!a-z] one not in it, {a,b} one of several globs. A backslash before
// any of them makes it literal.
func parseGlob(pattern string) ([]string, error) {
	if strings.ContainsAny(pattern, "^$|") {
		return nil, errors.New("patterns are globs, not regular expressions: *, ?, [a-z], {a,b}")
	}
	globs, err := expandBraces(pattern)
	if err != nil {
		return nil, err
	}
	stars := 0
	for _, g := range globs {
		if err := checkGlob(g); err != nil {
			return nil, err
		}
		if strings.Contains(g, "*") {
			stars += len(g)
		}
	}
	if stars > maxStarBytes {
		return nil, fmt.Errorf("the alternatives with * have %d bytes in all, expected no more than %d", stars, maxStarBytes)
	}
	return globs, nil
}

// expandBraces replaces the first braces with each of their alternatives, and expands the results
// in turn.
func expandBraces(pattern string) ([]string, error) {
	done, todo, bytes := []string(nil), []string{pattern}, len(pattern)
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, alternatives, end, err := braces(p)
		if err != nil {
			return nil, err
		}
		if open < 0 {
			done = append(done, p)
			continue
		}
		if n := len(done) + len(todo) + len(alternatives); n > maxAlternatives {
			return nil, fmt.Errorf("pattern with %d alternatives or more, expected no more than %d", n, maxAlternatives)
		}
		bytes -= len(p)
		for _, a := range alternatives {
			bytes += open + len(a) + len(p) - end
		}
		if bytes > maxGlobBytes {
			return nil, fmt.Errorf("the alternatives of the pattern have %d bytes in all or more, expected no more than %d", bytes,
				maxGlobBytes)
		}
		for i := len(alternatives) - 1; i >= 0; i-- {
			todo = append(todo, p[:open]+alternatives[i]+p[end:])
		}
	}
	return done, nil
}

// braces finds the first braces of a pattern and their alternatives between commas. open is -1 if
// there are none.
func braces(p string) (open int, alternatives []string, end int, err error) {
	open = -1
	depth, from := 0, 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case c == '[':
			if close := setEnd(p, i); close > 0 {
				i = close - 1
			}
		case c == '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case c == ',' && depth == 1:
			alternatives = append(alternatives, p[from:i])
			from = i + 1
		case c == '}' && depth == 1:
			return open, append(alternatives, p[from:i]), i + 1, nil
		case c == '}' && depth == 0:
			return 0, nil, 0, errors.New("pattern with } but no {")
		case c == '}':
			depth--
		}
	}
	if depth > 0 {
		return 0, nil, 0, errors.New("pattern with { but no }")
	}
	return -1, nil, 0, nil
}

// checkGlob rejects unterminated sets, and a backslash at the end.
func checkGlob(g string) error {
	for i := 0; i < len(g); i++ {
		switch g[i] {
		case '\\':
			if i++; i == len(g) {
				return errors.New("pattern that ends with a backslash")
			}
		case '[':
			end := setEnd(g, i)
			if end < 0 {
				return errors.New("pattern with [ but no ]")
			}
			i = end - 1
		}
	}
	return nil
}

// setEnd returns the index after the ] of the set that starts at i, -1 if none exists. A ] at the
// start belongs to the set.
func setEnd(g string, i int) int {
	i++
	if i < len(g) && g[i] == '!' {
		i++
	}
	for first := true; i < len(g); first = false {
		switch {
		case g[i] == '\\':
			i++
		case g[i] == ']' && !first:
			return i + 1
		}
		i++
	}
	return -1
}

// matchGlob reports whether a glob without braces matches the whole of s. It backtracks only to the
// latest star, so it takes at most len(g) * len(s) steps.
func matchGlob(g, s string) bool {
	star, rest := -1, 0 // after the latest star, and the first end of its match not yet tried
	i, j := 0, 0
	for {
		if i < len(g) && g[i] == '*' {
			i++
			star, rest = i, j
			continue
		}
		if i == len(g) && j == len(s) {
			return true
		}
		if i < len(g) && j < len(s) {
			if next, width, ok := matchOne(g[i:], s[j:]); ok {
				i, j = i+next, j+width
				continue
			}
		}
		if star < 0 || rest == len(s) {
			return false
		}
		_, width := utf8.DecodeRuneInString(s[rest:])
		rest += width
		i, j = star, rest
	}
}

// matchOne matches the first character of s, and returns the widths of the pattern part and of the
// character.
func matchOne(g, s string) (next, width int, ok bool) {
	c, width := utf8.DecodeRuneInString(s)
	switch g[0] {
	case '?':
		return 1, width, true
	case '[':
		end := setEnd(g, 0)
		return end, width, inSet(g[1:end-1], c)
	case '\\':
		g = g[1:]
		r, n := utf8.DecodeRuneInString(g)
		return n + 1, width, r == c && g[:n] == s[:width]
	}
	_, n := utf8.DecodeRuneInString(g)
	return n, width, n == width && g[:n] == s[:width]
}

// inSet reports whether a set, given without its brackets, contains a character.
func inSet(set string, c rune) bool {
	set, not := strings.CutPrefix(set, "!")
	for set != "" {
		var from, to rune
		from, set = setRune(set)
		to = from
		if len(set) > 1 && set[0] == '-' {
			to, set = setRune(set[1:])
		}
		if from <= c && c <= to {
			return !not
		}
	}
	return not
}

func setRune(set string) (rune, string) {
	if set[0] == '\\' && len(set) > 1 {
		set = set[1:]
	}
	r, n := utf8.DecodeRuneInString(set)
	return r, set[n:]
}

// globPrefix returns the common prefix of all globs before their first wildcards.
func globPrefix(globs []string) string {
	prefix := literal(globs[0])
	for _, g := range globs[1:] {
		l := literal(g)
		n := 0
		for n < len(l) && n < len(prefix) && l[n] == prefix[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return prefix
}

// literal returns the part of a glob before its first wildcard.
func literal(g string) string {
	var b strings.Builder
	for i := 0; i < len(g); i++ {
		switch g[i] {
		case '*', '?', '[':
			return b.String()
		case '\\':
			i++
		}
		b.WriteByte(g[i])
	}
	return b.String()
}
