// Package exercise holds the tests that use floe as its users do: whole nodes, real disks, killed processes, clusters.
package exercise

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		runChild(text)
		os.Exit(0)
	}
	if text := os.Getenv(memberEnv); text != "" {
		if err := runMember(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
