package machinetest

import (
	"net"
	"os/exec"
	"sync"
	"testing"
)

// TestFreeAddrIsHeld takes more addresses than a block has, while another test that uses none of
// them is still running.
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

// TestFreeAddrBesideChildren: free addresses can be listened on while processes are started, which
// briefly hold copies of all open files.
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
