package machinetest

import (
	"net"
	"os/exec"
	"sync"
	"testing"
)

// TestFreeAddrIsHeld takes more addresses than a block has, while one test that listens at none of
// them goes on.
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

// TestFreeAddrBesideChildren listens on free addresses while processes are started, which hold
// copies of all open files for a moment.
func TestFreeAddrBesideChildren(t *testing.T) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var children sync.WaitGroup
	for range 4 {
		children.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if err := exec.Command(program, "help", "c").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 3000 {
		t.Run("one", func(t *testing.T) {
			l, err := net.Listen("tcp", FreeAddr(t))
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		})
		if t.Failed() {
			break
		}
	}
	close(done)
	children.Wait()
}
