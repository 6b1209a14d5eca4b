package rig

import "testing"

// TestFreeAddrIsHeld takes more addresses than a block has, while one test that listens at none of them goes on.
func TestFreeAddrIsHeld(t *testing.T) {
	held := FreeAddr(t)
	for range portBlock {
		t.Run("other", func(t *testing.T) {
			if addr := FreeAddr(t); addr == held {
				t.Fatalf("%s is given twice", addr)
			}
		})
	}
}
