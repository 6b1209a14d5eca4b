package flow

import (
	"math"
	"testing"

	"github.com/floedb/floe/internal/document"
)

func TestPauses(t *testing.T) {
	for _, test := range []struct {
		b      Backoff
		random uint64
		want   []int64 // by attempt, from 1
	}{
		{Backoff{Initial: 100}, 7, []int64{100, 100, 100}},
		{Backoff{Kind: BackoffLinear, Initial: 100, Max: 250}, 7, []int64{100, 200, 250, 250}},
		{Backoff{Kind: BackoffExponential, Initial: 100, Max: 700}, 7, []int64{100, 200, 400, 700, 700}},
		{Backoff{Kind: BackoffExponential, Initial: 100}, 7, []int64{100, 200, 400, 800}},
		{Backoff{Kind: BackoffExponentialJitter, Initial: 100}, 0, []int64{100, 200, 400}},
		{Backoff{Kind: BackoffExponentialJitter, Initial: 100}, 50, []int64{50, 150, 350}},
		{Backoff{Kind: BackoffExponentialJitter, Initial: 100, Jitter: 30}, 0, []int64{70, 170, 370}},
		{Backoff{Kind: BackoffExponentialJitter, Initial: 100, Jitter: 30}, 60, []int64{130, 230, 430}},
		{Backoff{Kind: BackoffFixed, Initial: 10, Jitter: 30}, 0, []int64{0}},
		{Backoff{Kind: BackoffFixed, Initial: 10, Jitter: 30, Max: 20}, 60, []int64{20}},
		{Backoff{}, 5, []int64{0, 0}},
		{Backoff{Kind: BackoffExponentialJitter}, 5, []int64{0, 0}},
		{Backoff{Initial: -5}, 5, []int64{0}},
	} {
		for i, want := range test.want {
			if got := test.b.Pause(int64(i)+1, test.random); got != want {
				t.Errorf("%+v.Pause(%d, %d) = %d, want %d", test.b, i+1, test.random, got, want)
			}
		}
	}
}

func FuzzPause(f *testing.F) {
	f.Add(uint8(3), int64(100), int64(0), int64(7), int64(math.MaxInt64), uint64(math.MaxUint64))
	f.Add(uint8(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), uint64(1))
	f.Fuzz(func(t *testing.T, kind uint8, initial, most, jitter, attempt int64, random uint64) {
		b := Backoff{Kind: BackoffKind(kind % 4), Initial: initial, Max: most, Jitter: jitter}
		got := b.Pause(attempt, random)
		if got < 0 || got > document.MaxMillis || most > 0 && got > most {
			t.Errorf("%+v.Pause(%d, %d) = %d", b, attempt, random, got)
		}
	})
}
