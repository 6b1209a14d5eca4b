package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// baseline holds the figures of an earlier run: ratios, or the values of absolute rows. Only
// figures of the same form are compared: short rounds see fewer flushes and compactions than long
// ones.
type baseline struct {
	Form string             `json:"form"`
	Rows map[string]float64 `json:"rows"`
}

// tolerated is the share of the baseline to which a figure may fall. An absolute figure for which
// less is better may rise to the inverse.
const tolerated = 0.85

// slack is the additional tolerance of absolute figures, whatever the baseline: a background
// goroutine may happen to run.
const slack = 0.1

func readBaseline(name string) (baseline, error) {
	var base baseline
	text, err := os.ReadFile(name)
	if err != nil {
		return base, err
	}
	if err := json.Unmarshal(text, &base); err != nil {
		return base, fmt.Errorf("read baseline %s: %w", name, err)
	}
	return base, nil
}

// write replaces the measured rows in the file. Other rows stay if they are of the same form.
func (base baseline) write(name string, all []measured) error {
	if old, err := readBaseline(name); err == nil && old.Form == base.Form {
		base.Rows = old.Rows
	} else {
		base.Rows = make(map[string]float64)
	}
	for _, m := range all {
		base.Rows[m.name] = m.figure()
	}
	text, err := json.MarshalIndent(base, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// figure returns the figure to compare with the baseline, rounded to four significant digits.
func (m measured) figure() float64 {
	f := m.ratio
	if m.absolute {
		f = m.value
	}
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 4, 64), 64)
	return f
}

// check returns an error with the row and both figures if the row is slower than the baseline. It
// also returns an error if the baseline lacks the row.
func (base baseline) check(m measured) error {
	was, known := base.Rows[m.name]
	switch is := m.figure(); {
	case !known:
		return fmt.Errorf("%s: not in the baseline", m.name)
	case m.more && is < was*tolerated, m.absolute && !m.more && is > was/tolerated+slack:
		return fmt.Errorf("%s: %s %s, was %s in the baseline", m.name, number(is), m.unit, number(was))
	case !m.absolute && is < was*tolerated:
		return fmt.Errorf("%s: ratio %.3f to %s is below %.2f of the baseline's %.3f", m.name, is, m.against, tolerated, was)
	}
	return nil
}

// compare checks all rows. A slower row is measured once more, because the machine may have been
// busy.
func (base baseline) compare(all []measured, again func(m measured) (measured, error)) error {
	var slower []error
	for _, m := range all {
		if base.check(m) == nil {
			continue
		}
		m, err := again(m)
		if err != nil {
			return err
		}
		if err := base.check(m); err != nil {
			slower = append(slower, err)
		}
	}
	return errors.Join(slower...)
}
