package cron

import (
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, spec Spec) *Schedule {
	t.Helper()
	s, err := Parse(spec)
	if err != nil {
		t.Fatalf("Parse(%+v): %v", spec, err)
	}
	return s
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// TestNext: the ticks after a time, each written as clocks of the zone show it.
func TestNext(t *testing.T) {
	for _, test := range []struct {
		name, cron, zone, after, want string
	}{
		// Berlin: 2025-03-30 02:00 to 03:00, back on 2025-10-26 from 03:00 to 02:00.
		{"a time in a gap comes at its end", "30 2 * * *", "Europe/Berlin", "2025-03-29T03:00:00+01:00",
			"03-30T03:00+02:00 03-31T02:30+02:00"},
		{"times in a gap come together", "0,15,30 2 * * *", "Europe/Berlin", "2025-03-30T00:00:00+01:00",
			"03-30T03:00+02:00 03-31T02:00+02:00"},
		{"a time at the end of a gap comes once", "0 2,3 * * *", "Europe/Berlin", "2025-03-30T00:00:00+01:00",
			"03-30T03:00+02:00 03-31T02:00+02:00"},
		{"every second hour over a gap", "0 */2 * * *", "Europe/Berlin", "2025-03-29T23:00:00+01:00",
			"03-30T00:00+01:00 03-30T03:00+02:00 03-30T04:00+02:00"},
		{"a repeated time comes first", "30 2 * * *", "Europe/Berlin", "2025-10-25T03:00:00+02:00", "10-26T02:30+02:00 10-27T02:30+01:00"},
		{"a repeated hour runs once", "*/30 2 * * *", "Europe/Berlin", "2025-10-26T00:00:00+02:00",
			"10-26T02:00+02:00 10-26T02:30+02:00 10-27T02:00+01:00"},
		{"asked within the second pass", "30 2 * * *", "Europe/Berlin", "2025-10-26T02:10:00+01:00", "10-27T02:30+01:00"},
		{"quarters go on through a gap", "*/15 * * * *", "Europe/Berlin", "2025-03-30T01:30:00+01:00",
			"03-30T01:45+01:00 03-30T03:00+02:00 03-30T03:15+02:00"},
		{"quarters go on through a repeated hour", "*/15 * * * *", "Europe/Berlin", "2025-10-26T02:30:00+02:00",
			"10-26T02:45+02:00 10-26T02:00+01:00 10-26T02:15+01:00 10-26T02:30+01:00 10-26T02:45+01:00 10-26T03:00+01:00"},
		{"asked within the second pass, for its end", "0 3 * * *", "Europe/Berlin", "2025-10-26T02:10:00+01:00", "10-26T03:00+01:00"},
		{"both seconds of a later minute", "0,30 30 * * * *", "", "2025-01-01T00:10:05Z", "01-01T00:30Z 01-01T00:30:30Z 01-01T01:30Z"},
		{"both seconds of a later hour", "5,30 10,30 5 * * *", "", "2025-01-01T04:20:10Z",
			"01-01T05:10:05Z 01-01T05:10:30Z 01-01T05:30:05Z 01-01T05:30:30Z 01-02T05:10:05Z"},
		{"a later second, minute and hour", "5,30 10,30 5,6 * * *", "", "2025-01-01T05:30:30Z", "01-01T06:10:05Z"},
		{"a second before the first one", "5 10 5 * * *", "", "2025-01-01T05:10:04Z", "01-01T05:10:05Z 01-02T05:10:05Z"},
		{"@hourly", "@hourly", "Europe/Berlin", "2025-10-26T01:30:00+02:00", "10-26T02:00+02:00 10-26T02:00+01:00 10-26T03:00+01:00"},
		{"hours 0-23 are every hour", "0 0-23 * * *", "Europe/Berlin", "2025-10-26T01:30:00+02:00", "10-26T02:00+02:00 10-26T02:00+01:00"},
		{"seconds", "30 59 1,2 * * *", "Europe/Berlin", "2025-03-30T00:00:00+01:00",
			"03-30T01:59:30+01:00 03-30T03:00+02:00 03-31T01:59:30+02:00"},

		// Lord Howe: half an hour, 2025-10-05 02:00 to 02:30, back on 2025-04-06 from 02:00 to
		// 01:30.
		{"half an hour is skipped", "15 2 * * *", "Australia/Lord_Howe", "2025-10-04T12:00:00+10:30",
			"10-05T02:30+11:00 10-06T02:15+11:00"},
		{"after half an hour", "45 2 * * *", "Australia/Lord_Howe", "2025-10-04T12:00:00+10:30", "10-05T02:45+11:00 10-06T02:45+11:00"},
		{"half an hour is repeated", "45 1 * * *", "Australia/Lord_Howe", "2025-04-05T12:00:00+11:00",
			"04-06T01:45+11:00 04-07T01:45+10:30"},
		{"quarters of real time", "*/15 * * * *", "Australia/Lord_Howe", "2025-04-06T01:40:00+11:00",
			"04-06T01:45+11:00 04-06T01:30+10:30 04-06T01:45+10:30 04-06T02:00+10:30"},
		{"a minute that is skipped with its hour kept", "15 * * * *", "Australia/Lord_Howe", "2025-10-05T01:00:00+10:30",
			"10-05T01:15+10:30 10-05T03:15+11:00"},

		{"a zone off by quarters", "0 9 * * *", "Asia/Kathmandu", "2025-01-01T00:00:00Z", "01-01T09:00+05:45 01-02T09:00+05:45"},
		{"its hours are its own", "0 * * * *", "Asia/Kathmandu", "2025-01-01T00:00:00Z", "01-01T06:00+05:45 01-01T07:00+05:45"},
		{"half an hour that came in 1986", "10 0 1 1 *", "Asia/Kathmandu", "1985-06-01T00:00:00Z", "01-01T00:15+05:45 01-01T00:10+05:45"},

		// Apia had no 2011-12-30.
		{"a day that is missing", "0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00",
			"12-29T09:00-10:00 12-31T00:00+14:00 12-31T09:00+14:00"},
		{"only on that day", "0 9 30 12 *", "Pacific/Apia", "2011-06-01T00:00:00-11:00", "12-31T00:00+14:00 12-30T09:00+14:00"},
		{"the last day but one", "0 12 L-1 12 *", "Pacific/Apia", "2011-06-01T00:00:00-11:00", "12-31T00:00+14:00 12-30T12:00+14:00"},
		{"each hour of it", "0 * 30 12 *", "Pacific/Apia", "2011-06-01T00:00:00-11:00", "12-30T00:00+14:00 12-30T01:00+14:00"},

		// Sao Paulo: 2018-11-04 has no midnight, 2018-02-17 repeats its last hour.
		{"midnight is missing", "@daily", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "11-04T01:00-02:00 11-05T00:00-02:00"},
		{"the first of a month is not", "0 0 4 * *", "America/Sao_Paulo", "2018-10-10T00:00:00-03:00",
			"11-04T01:00-02:00 12-04T00:00-02:00"},
		{"the last hour of a day is repeated", "30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00-02:00",
			"02-17T23:30-02:00 02-18T23:30-03:00"},
		{"as each hour of that day", "30 * 17 2 *", "America/Sao_Paulo", "2018-02-17T23:00:00-02:00",
			"02-17T23:30-02:00 02-17T23:30-03:00 02-17T00:30-03:00"},

		// Calendars.
		{"leap days", "0 0 29 2 *", "", "2095-01-01T00:00:00Z", "02-29T00:00Z 02-29T00:00Z 02-29T00:00Z"},
		{"the last of February", "0 0 L 2 *", "", "2027-01-01T00:00:00Z", "02-28T00:00Z 02-29T00:00Z 02-28T00:00Z"},
		{"the last of each month", "0 12 L * *", "", "2025-01-01T00:00:00Z", "01-31T12:00Z 02-28T12:00Z 03-31T12:00Z 04-30T12:00Z"},
		{"the 31st", "0 0 31 * *", "", "2025-01-31T00:00:00Z", "03-31T00:00Z 05-31T00:00Z"},
		{"the end of a year", "59 59 23 31 12 *", "", "2025-12-31T23:59:58Z", "12-31T23:59:59Z 12-31T23:59:59Z"},
		{"the beginning of a year", "@yearly", "Europe/Berlin", "2025-12-31T22:59:59Z", "01-01T00:00+01:00 01-01T00:00+01:00"},
		{"the last day of a leap year, beyond tables", "0 */8 31 12 *", "Europe/Berlin", "2060-12-31T00:00:00+01:00",
			"12-31T08:00+01:00 12-31T16:00+01:00 12-31T00:00+01:00"},
		{"each minute of it", "* * 31 12 *", "America/New_York", "2060-12-31T23:58:30-05:00", "12-31T23:59-05:00 12-31T00:00-05:00"},
		{"summer, asked on that day", "0 * 1 7 *", "Europe/Berlin", "2060-12-31T12:00:00+01:00", "07-01T00:00+02:00 07-01T01:00+02:00"},
		{"weekdays", "0 9 * * MON-FRI", "", "2025-01-03T10:00:00Z", "01-06T09:00Z 01-07T09:00Z"},
		{"steps of weekdays", "0 9 * * 1-tue/1", "", "2025-01-03T10:00:00Z", "01-06T09:00Z 01-07T09:00Z 01-13T09:00Z"},
		{"one weekday", "0 9 * * TUE-2/1", "", "2025-01-03T10:00:00Z", "01-07T09:00Z 01-14T09:00Z"},
		{"weekdays over Sunday", "0 9 * * fri-mon", "", "2025-01-02T10:00:00Z",
			"01-03T09:00Z 01-04T09:00Z 01-05T09:00Z 01-06T09:00Z 01-10T09:00Z"},
		{"Sunday is 7 too", "0 9 * * 7", "", "2025-01-02T10:00:00Z", "01-05T09:00Z 01-12T09:00Z"},
		{"months by name, over the end of a year", "0 0 1 NOV-FEB *", "", "2025-10-01T00:00:00Z",
			"11-01T00:00Z 12-01T00:00Z 01-01T00:00Z 02-01T00:00Z 11-01T00:00Z"},
		{"both days: one is enough", "0 0 13 * FRI", "", "2025-06-01T00:00:00Z",
			"06-06T00:00Z 06-13T00:00Z 06-20T00:00Z 06-27T00:00Z 07-04T00:00Z 07-11T00:00Z 07-13T00:00Z"},
		{"one day and ?", "0 0 13 * ?", "", "2025-06-01T00:00:00Z", "06-13T00:00Z 07-13T00:00Z"},
		{"the second Monday", "0 0 * * MON#2", "", "2025-06-01T00:00:00Z", "06-09T00:00Z 07-14T00:00Z"},
		{"the fifth Monday", "0 0 * * 1#5", "", "2025-06-01T00:00:00Z", "06-30T00:00Z 09-29T00:00Z"},
		{"the last Friday", "0 0 * * FRI#L", "", "2025-02-01T00:00:00Z", "02-28T00:00Z 03-28T00:00Z"},
		{"from a number in steps", "5/20 * * * *", "", "2025-02-01T00:00:00Z", "02-01T00:05Z 02-01T00:25Z 02-01T00:45Z 02-01T01:05Z"},
		{"between milliseconds", "* * * * * *", "", "2025-02-01T00:00:00.001Z", "02-01T00:00:01Z 02-01T00:00:02Z"},
		{"@every", "@every 90s", "", "2025-02-01T00:00:00Z", "02-01T00:01:30Z 02-01T00:03Z"},
	} {
		s := mustParse(t, Spec{Cron: test.cron, Zone: test.zone})
		loc := time.UTC
		if test.zone != "" {
			loc = s.zone.loc
		}
		next := at(t, test.after)
		for _, want := range strings.Fields(test.want) {
			next = s.Next(next)
			layout := "01-02T15:04Z07:00"
			if next.Second() != 0 {
				layout = "01-02T15:04:05Z07:00"
			}
			if got := next.In(loc).Format(layout); got != want {
				t.Errorf("%s: %q in %q after %s: %s, want %s of %s", test.name, test.cron, test.zone, test.after, got, want, test.want)
				break
			}
		}
	}
}

func TestLeapDaysOver2100(t *testing.T) {
	s := mustParse(t, Spec{Cron: "0 0 29 2 *"})
	next := at(t, "2095-01-01T00:00:00Z")
	for _, year := range []int{2096, 2104, 2108} {
		if next = s.Next(next); next.Year() != year {
			t.Fatalf("a leap day in %d, want %d", next.Year(), year)
		}
	}
}

func TestEvery(t *testing.T) {
	for _, test := range []struct {
		every         time.Duration
		anchor, after string
		want          string
	}{
		{time.Hour, "", "2025-01-01T00:10:00Z", "2025-01-01T01:00:00Z"},
		{time.Hour, "", "2025-01-01T01:00:00Z", "2025-01-01T02:00:00Z"},
		{time.Hour, "2025-03-01T00:07:00Z", "2025-01-01T00:10:00Z", "2025-01-01T01:07:00Z"}, // before its anchor too
		{7 * time.Hour, "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-02T04:00:00Z"},
		{1500 * time.Millisecond, "2025-01-01T00:00:00.25Z", "2025-01-01T00:00:00.25Z", "2025-01-01T00:00:01.75Z"},
		{time.Hour, "", "1969-12-31T22:30:00Z", "1969-12-31T23:00:00Z"},
	} {
		spec := Spec{Every: test.every}
		if test.anchor != "" {
			spec.Anchor = at(t, test.anchor)
		}
		if got := mustParse(t, spec).Next(at(t, test.after)); !got.Equal(at(t, test.want)) {
			t.Errorf("every %v from %q after %s: %v, want %s", test.every, test.anchor, test.after, got, test.want)
		}
	}
}

func TestNoTickAfterTheYear9999(t *testing.T) {
	for _, spec := range []Spec{{Cron: "0 0 1 1 *"}, {Every: time.Hour}, {Cron: "@hourly", Zone: "Europe/Berlin"}} {
		s := mustParse(t, spec)
		if got := s.Next(at(t, "9999-12-31T23:00:00Z")); !got.IsZero() {
			t.Errorf("%+v: %v", spec, got)
		}
		if due := s.Due(at(t, "9999-12-31T23:00:00Z"), at(t, "9999-12-31T23:59:00Z"), CatchUpAll, 5); len(due.Run) != 0 ||
			due.Missed != 0 || !due.Next.IsZero() {
			t.Errorf("%+v: %+v", spec, due)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "neither a cron expression nor an interval"},
		{Spec{Cron: "@daily", Every: time.Hour}, "both a cron expression and an interval"},
		{Spec{Every: time.Millisecond}, "an interval of 1ms is below 1s"},
		{Spec{Every: -time.Hour}, "an interval of -1h0m0s is below 1s"},
		{Spec{Every: time.Second + 1}, "an interval of 1.000000001s is not whole milliseconds"},
		{Spec{Every: time.Hour, Zone: "Europe/Berlin"}, "a time zone needs a cron expression: intervals are the same everywhere"},
		{Spec{Every: time.Hour, Anchor: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, "an anchor in the year 12000"},
		{Spec{Cron: "@daily", Anchor: time.Unix(1, 0)}, "an anchor needs an interval: the times of a cron expression are its own"},
		{Spec{Cron: "@daily", Zone: "Local"}, "the time zone of a machine has no name"},
		{Spec{Cron: "@daily", Zone: "Berlin"}, `time zone "Berlin" is unknown: names are such as Europe/Berlin`},
		{Spec{Cron: "@daily", Zone: "../../etc/passwd"}, `time zone "../../etc/passwd" is unknown: names are such as Europe/Berlin`},
		{Spec{Cron: "TZ=Europe/Berlin 0 0 * * *"},
			`cron "TZ=Europe/Berlin 0 0 * * *": TZ= is not accepted: the time zone is a field of its own`},
		{Spec{Cron: "CRON_TZ=UTC @daily"}, `cron "CRON_TZ=UTC @daily": CRON_TZ= is not accepted: the time zone is a field of its own`},
		{Spec{Cron: "TZ="}, `cron "TZ=": TZ= is not accepted: the time zone is a field of its own`},
		{Spec{Cron: "@every 1ns"}, "an interval of 1ns is below 1s"},
		{Spec{Cron: "@every 0s"}, "an interval of 0s is below 1s"},
		{Spec{Cron: "@every soon"}, `cron "@every soon": "soon" is not a duration such as 90s or 1h30m`},
		{Spec{Cron: "@every"}, `cron "@every": unrecognized descriptor: "@every"`},
		{Spec{Cron: "@fortnightly"}, `cron "@fortnightly": unrecognized descriptor: "@fortnightly"`},
		{Spec{Cron: "@reboot"}, `cron "@reboot": unrecognized descriptor: "@reboot"`},
		{Spec{Cron: "0 0 30 2 *"}, `cron "0 0 30 2 *": there is no such day in any year`},
		{Spec{Cron: "0 0 31 4,6,9,11 *"}, `cron "0 0 31 4,6,9,11 *": there is no such day in any year`},
		{Spec{Cron: "0 0 L-29 2 *"}, `cron "0 0 L-29 2 *": there is no such day in any year`},
		{Spec{Cron: "* * * *"}, `cron "* * * *": expected 5 to 6 fields, found 4: [* * * *]`},
		{Spec{Cron: "* * * * * * *"}, `cron "* * * * * * *": expected 5 to 6 fields, found 7: [* * * * * * *]`},
		{Spec{Cron: "60 * * * *"}, `cron "60 * * * *": end of range (60) above maximum (59): "60"`},
		{Spec{Cron: "* 24 * * *"}, `cron "* 24 * * *": end of range (24) above maximum (23): "24"`},
		{Spec{Cron: "* * 0 * *"}, `cron "* * 0 * *": beginning of range (0) below minimum (1): "0"`},
		{Spec{Cron: "* * * 13 *"}, `cron "* * * 13 *": end of range (13) above maximum (12): "13"`},
		{Spec{Cron: "* * * * 8"}, `cron "* * * * 8": end of range (8) above maximum (7): "8"`},
		{Spec{Cron: "*/0 * * * *"}, `cron "*/0 * * * *": step of range must be a positive number: "*/0"`},
		{Spec{Cron: "*/60 * * * *"}, `cron "*/60 * * * *": step (60) must be less than range size (60): "*/60"`},
		{Spec{Cron: "*-5 * * * *"}, `cron "*-5 * * * *": "*-5" is none of *, n, n-m, with or without /step`},
		{Spec{Cron: "+5 * * * *"}, `cron "+5 * * * *": "+5" is none of *, n, n-m, with or without /step`},
		{Spec{Cron: "1,,2 * * * *"}, `cron "1,,2 * * * *": "1,,2" has an empty item`},
		{Spec{Cron: ", * * * *"}, `cron ", * * * *": "," has an empty item`},
		{Spec{Cron: "0 0 * * 5-1/2"}, `cron "0 0 * * 5-1/2": "5-1/2": steps need weekdays in order, from Sunday 0 to Sunday 7`},
		{Spec{Cron: "0 0 * * FRI-MON/2"}, `cron "0 0 * * FRI-MON/2": "FRI-MON/2": steps need weekdays in order, from Sunday 0 to Sunday 7`},
		{Spec{Cron: strings.Repeat("1,", 200) + "1 * * * *"}, "409 bytes are more than 256"},
	} {
		_, err := Parse(test.spec)
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("Parse(%+v): %v, want %s", test.spec, err, test.want)
		}
	}
}
