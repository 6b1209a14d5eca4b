package transport

import (
	"os/exec"
	"sync"
	"testing"
)

// TestListenBesideChildren closes and opens a listener while processes are started, which briefly
// hold copies of it.
func TestListenBesideChildren(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	first, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, l := first.Addr().String(), first
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
	for range 2000 {
		l.Close()
		if l, err = Listen(addr); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	children.Wait()
	if l != nil {
		l.Close()
	}
}
