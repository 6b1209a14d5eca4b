package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// baseline is what the rows measured when it was written: ratios, or the values of absolute rows.
// It is compared with figures of the same form only: short rounds see less of flushes and
// compactions than long ones.
type baseline struct {
	Form string             `json:"form"`
	Rows map[string]float64 `json:"rows"`
}

// tolerated is the share of the baseline that a figure may fall to; an absolute one may rise to the
// inverse of it.
const tolerated = 0.85

// slack is what absolute figures that count something may grow by whatever the baseline is: a
// background goroutine that happens to run.
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

// write replaces the rows of the file that were measured; others stay if they are of the same form.
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

// figure is what is compared with the baseline, rounded to what is worth keeping.
func (m measured) figure() float64 {
	f := m.ratio
	if m.absolute {
		f = m.value
	}
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 4, 64), 64)
	return f
}

// check returns an error that names the row and both figures if the row has become slower, or the
// baseline lacks it.
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

// compare checks all rows. One that has become slower is measured once more, because the machine
// may have been busy.
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
