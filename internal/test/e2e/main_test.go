// Package e2e holds the tests that use floe as its users do: whole nodes, real disks, killed
// processes, clusters.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestMain makes all nodes, including those in other processes, check and measure the effort of
// their commands. Duties that normally take minutes (seal, merge and roll up) run within a second.
func TestMain(m *testing.M) {
	shard.GuardHosts()
	shard.SpeedUpDuties(1000)
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
	if text := os.Getenv(consumerEnv); text != "" {
		if err := runConsumer(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(workerEnv); text != "" {
		if err := runWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(flowWorkerEnv); text != "" {
		if err := runFlowWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	machinetest.AtOnce(6)
	goleak.VerifyTestMain(m, goleak.Cleanup(exit))
}

// exit prints the largest commands.
func exit(code int) {
	if testing.Verbose() {
		for _, e := range shard.GuardedEfforts() {
			fmt.Println("largest", e)
		}
	}
	os.Exit(code)
}
