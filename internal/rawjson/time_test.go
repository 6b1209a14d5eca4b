package rawjson

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// checkTime compares with package time, which takes a comma for a point, and years and offsets that
// RFC 3339 does not have.
func checkTime(t *testing.T, s string) {
	t.Helper()
	got, ok := parseTime(s)
	want, err := time.Parse(time.RFC3339, s)
	if ok && (err != nil || got != want.UnixMilli()) {
		t.Errorf("parseTime(%q) = %d, want %d, %v", s, got, want.UnixMilli(), err)
	}
	lenient := strings.Contains(s, ",") || strings.HasSuffix(s, ":60") || strings.Contains(s, "+24:") || strings.Contains(s, "-24:")
	if strict := new(time.Time); !ok && !lenient && strict.UnmarshalText([]byte(s)) == nil {
		t.Errorf("parseTime(%q) fails, want %d", s, want.UnixMilli())
	}
}

func TestTimes(t *testing.T) {
	for year := range 10_000 {
		for _, day := range []string{"-01-01", "-02-28", "-02-29", "-03-01", "-12-31"} {
			checkTime(t, string([]byte{'0' + byte(year/1000), '0' + byte(year/100%10), '0' + byte(year/10%10), '0' + byte(year%10)})+day+
				"T23:59:59Z")
		}
	}
	const alphabet = "0123456789-:.TZ+tz, "
	r := rand.New(rand.NewPCG(7, 8))
	for range 50_000 {
		s := []byte("2026-07-31T12:34:56.789123+01:30")
		for range r.IntN(3) {
			s[r.IntN(len(s))] = alphabet[r.IntN(len(alphabet))]
		}
		checkTime(t, string(s[:len(s)-r.IntN(3)]))
	}
	for _, s := range []string{"", "2026-07-31", "2026-07-31T12:34:56", "2026-07-31T12:34:56.Z", "2026-07-31T24:00:00Z",
		"2026-07-31T23:59:60Z", "2026-04-31T00:00:00Z",
		"2026-07-31T00:00:00+24:00", "2026-07-31T00:00:00+00:60", "2026-07-31t00:00:00Z", "2026-07-31T00:00:00z", "2026-07-31T00:00:00,5Z",
		"10000-01-01T00:00:00Z"} {
		if got, ok := parseTime(s); ok {
			t.Errorf("parseTime(%q) = %d", s, got)
		}
	}
}
