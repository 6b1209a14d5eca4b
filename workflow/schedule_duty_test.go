package workflow

import "testing"

// TestDamagedScheduleIndex checks that a row with a too short key is an error of the duty and does
// not stop the process.
func TestDamagedScheduleIndex(t *testing.T) {
	for _, rest := range [][]byte{nil, make([]byte, 7), make([]byte, 9)} {
		if _, _, err := readDue(nil, rest); err == nil {
			t.Errorf("%x is read as a schedule", rest)
		}
	}
}
