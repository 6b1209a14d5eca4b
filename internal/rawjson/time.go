package rawjson

import "math"

// Times are limited to the years 1 to 9999, which RFC 3339 can express.
const (
	minTime = -62_135_596_800_000
	maxTime = 253_402_300_799_999
)

// Time returns the time in raw: a number of ms since the epoch, whose fraction is truncated, or an
// RFC 3339 string.
func Time(raw []byte) (ms int64, ok bool) {
	if n, ok := Number(raw); ok {
		if !(n >= minTime && n <= maxTime) {
			return 0, false
		}
		return int64(math.Trunc(n)), true
	}
	s, ok := Text(raw)
	if !ok {
		return 0, false
	}
	ms, ok = parseTime(s)
	return ms, ok && ms >= minTime && ms <= maxTime
}

// parseTime parses 2026-01-02T03:04:05.678+01:00 with T and Z in capital letters. It does not use
// package time, whose accepted forms have changed between versions, because replicas may run
// different builds.
func parseTime(s string) (ms int64, ok bool) {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) {
		return 0, false
	}
	for i := range len(form) {
		if form[i] == '0' && !isDigit(s[i]) || form[i] != '0' && form[i] != s[i] {
			return 0, false
		}
	}
	year, month, day := digits(s[:4]), digits(s[5:7]), digits(s[8:10])
	hour, minute, second := digits(s[11:13]), digits(s[14:16]), digits(s[17:19])
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	fraction, rest := fractionOf(s[len(form):])
	offset, ok := offsetOf(rest)
	seconds := daysTo(year, month, day)*86_400 + hour*3600 + minute*60 + second - offset
	return seconds*1000 + fraction, ok && fraction >= 0
}

func digits(s string) (n int64) {
	for i := range len(s) {
		n = n*10 + int64(s[i]-'0')
	}
	return n
}

// fractionOf parses .678 as ms, -1 if no digits follow the point.
func fractionOf(s string) (ms int64, rest string) {
	if s[0] != '.' {
		return 0, s
	}
	end := skipDigits([]byte(s), 1)
	if end == 1 {
		return -1, s
	}
	return digits((s[1:end] + "000")[:3]), s[end:]
}

// offsetOf parses Z or +01:00, in seconds.
func offsetOf(s string) (seconds int64, ok bool) {
	switch {
	case s == "Z":
		return 0, true
	case len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' || !isDigit(s[1]) || !isDigit(s[2]) || !isDigit(s[4]) || !isDigit(s[5]):
		return 0, false
	}
	hours, minutes := digits(s[1:3]), digits(s[4:6])
	if seconds = hours*3600 + minutes*60; s[0] == '-' {
		seconds = -seconds
	}
	return seconds, hours < 24 && minutes < 60
}

func isLeap(year int64) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int64) int64 {
	switch {
	case month == 2 && isLeap(year):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// daysTo returns the days from 1970-01-01 to a day. Years begin in March, so that a leap day is the
// last day of its year.
func daysTo(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + floorDiv(year, 4) - floorDiv(year, 100) + floorDiv(year, 400) + (153*(month-3)+2)/5 + day - 1 - 719_468
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((b - 1 - a) / b)
	}
	return a / b
}
