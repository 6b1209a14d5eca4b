package line

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Tag is a tag of a series.
type Tag struct{ Key, Value string }

// ParseSeries parses the measurement and tags of a line and unescapes them; tags are sorted by key.
// An empty measurement, key or value is an error, and so is a duplicate key.
func ParseSeries(raw []byte) (measurement string, tags []Tag, err error) {
	end := partEnd(raw, ',')
	if end == 0 {
		return "", nil, errors.New("no measurement")
	}
	measurement = unescaped(raw[:end], false)
	for rest := raw[end:]; len(rest) > 0; {
		rest = rest[1:] // a comma
		end := partEnd(rest, ',')
		tag, err := parseTag(rest[:end])
		if err != nil {
			return "", nil, err
		}
		tags = append(tags, tag)
		rest = rest[end:]
	}
	slices.SortFunc(tags, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(tags); i++ {
		if tags[i].Key == tags[i-1].Key {
			return "", nil, fmt.Errorf("duplicate tag %.64q", tags[i].Key)
		}
	}
	return measurement, tags, nil
}

func parseTag(b []byte) (Tag, error) {
	end := partEnd(b, '=')
	switch {
	case len(b) == 0:
		return Tag{}, errors.New("missing tag after a comma")
	case end == 0:
		return Tag{}, fmt.Errorf("tag %.64q has no key", b)
	case end >= len(b)-1:
		return Tag{}, fmt.Errorf("tag %.64q has no value", b)
	}
	value := b[end+1:]
	if partEnd(value, '=') < len(value) {
		return Tag{}, fmt.Errorf("tag %.64q has an equals sign in its value without backslash", b)
	}
	return Tag{unescaped(b[:end], true), unescaped(value, true)}, nil
}

// partEnd returns the index of the first unescaped c, or len(b) if none exists.
func partEnd(b []byte, c byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i = skipEscaped(b, i)
		case c:
			return i
		}
	}
	return len(b)
}

func unescaped(b []byte, equals bool) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	return string(appendUnescaped(nil, b, equals))
}
