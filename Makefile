# Everything needs Go, git, make and gcc (for the race detector), and nothing else that make does not fetch itself.

GO         ?= go
FUZZTIME   ?= 5s
LONG       ?= 5m
BENCH      ?=

# Tools have a module file of their own, so that their versions are pinned and summed like everything else and no program that embeds floe sees
# them. As package@version they would be looked for by path, which module proxies may refuse.
TOOLS       = internal/tools/go.mod
STATICCHECK = $(GO) tool -modfile=$(TOOLS) staticcheck

# All checks of staticcheck but these:
#   ST1000, ST1020-ST1022  comments of packages and exported names: internal/lint checks them, with groups understood
#   QF*                    quick fixes for editors: suggestions of taste
CHECKS = all,-ST1000,-ST1020,-ST1021,-ST1022,-QF*

.DEFAULT_GOAL = help
.PHONY: help build check test test-long bench bench-check bench-baseline profile fmt format vet staticcheck mod modules unit race suites fuzz

banner = @printf '\n== %s\n'

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the program, as ./floe: static, so that it runs anywhere
	CGO_ENABLED=0 $(GO) build -o floe ./cmd/floe

check: format vet staticcheck mod ## what must pass before every commit, in a minute or two
	$(banner) 'go test -short'
	$(GO) test -short ./...

test: modules format vet staticcheck mod unit race suites fuzz ## everything, as CI runs it

test-long: ## randomised suites in their long forms, races in full; for the night
	$(banner) 'simulations, long'
	$(GO) test -count=1 -timeout 180m ./internal/sim -run '^Test(Node|Cluster)$$' -seeds 20000
	$(GO) test -count=1 -timeout 180m ./internal/sim -run '^TestFive$$' -seeds 7000
	$(GO) test -count=1 -timeout 60m ./internal/sim -run '^TestReplay$$' -seeds 80
	$(GO) test -count=1 -timeout 60m -tags plant ./internal/sim -run '^TestPlanted$$'
	$(banner) 'crashes, failures and damage, long'
	$(GO) test -count=1 -timeout 180m ./internal/sim/faults -clone-acks 50000 -point-workloads 20 -point-step 1 -corrupt-cases 20000
	$(banner) 'models, long'
	$(GO) test -count=1 -timeout 180m -run '^TestModel$$' ./kv -runs 6000
	$(GO) test -count=1 -timeout 60m ./internal/ual ./internal/shard -long
	$(banner) 'kills, power cuts, histories, pauses, long'
	$(GO) test -count=1 -timeout 300m -run '^TestKill$$' ./internal/exercise -kills 10000
	$(GO) test -count=1 -timeout 300m -run '^TestPower$$' ./internal/exercise -cuts 5000
	$(GO) test -count=1 -timeout 120m -run '^TestLinear$$' ./internal/exercise -operations 5000000 -faults 2000
	$(GO) test -count=1 -timeout 120m -run '^TestPausedLeader$$' ./internal/exercise -pauses 5000
	$(GO) test -count=1 -timeout 60m -run '^TestReadsNeverGoBack$$' ./internal/exercise -writes 1000000
	$(GO) test -count=1 -timeout 120m -run '^TestProcesses$$' ./internal/exercise -failovers 200 -v
	$(GO) test -count=1 -timeout 120m -run '^TestAudit$$' ./internal/exercise -crashes 200 -v
	$(banner) 'ten million messages, ten thousand idle queues and groups'
	$(GO) test -count=1 -timeout 60m -run '^TestVolume$$' ./internal/exercise -volume 10000000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestIdle$$' ./internal/exercise -idle 10000 -v
	$(banner) 'go test -race'
	CGO_ENABLED=1 $(GO) test -count=1 -race -timeout 60m ./...
	@$(MAKE) --no-print-directory fuzz FUZZTIME=$(LONG)

bench: ## floe beside the limits of this machine, in an hour, with the README's table; or the rows that begin with BENCH, without
	$(GO) run ./internal/bench $(if $(BENCH),-only '$(BENCH)',-write README.md)

bench-check: ## a short bench, fails if floe has become slower than internal/bench/baseline.json
	$(GO) run ./internal/bench -short -baseline internal/bench/baseline.json -check

bench-baseline: ## measures the baseline of bench-check again
	$(GO) run ./internal/bench -short -baseline internal/bench/baseline.json

profile: ## CPU, allocs, block and mutex profiles of the main workloads, or of the rows that begin with BENCH, in ./profiles
	$(GO) run ./internal/bench -profile profiles $(if $(BENCH),-only '$(BENCH)',-short)

fmt: ## format all Go files
	gofmt -w .

format:
	$(banner) 'gofmt'
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run make fmt, these are not formatted:"; echo "$$unformatted"; exit 1; fi

vet:
	$(banner) 'go vet'
	$(GO) vet ./...

staticcheck:
	$(banner) 'staticcheck'
	$(STATICCHECK) -checks '$(CHECKS)' ./...

mod:
	$(banner) 'go.mod is tidy, modules are what go.sum says'
	$(GO) mod tidy -diff
	$(GO) mod verify

# A version that the cache of this machine still has may not be served any more: then the next fresh machine could not build.
modules:
	$(banner) 'every module can be downloaded'
	@cache=$$(mktemp -d); trap 'rm -rf "$$cache"' EXIT; export GOMODCACHE=$$cache GOFLAGS="$$GOFLAGS -modcacherw"; \
	$(GO) list -deps -test -tags plant ./... >/dev/null && $(GO) list -modfile=$(TOOLS) -deps tool >/dev/null

unit:
	$(banner) 'go test'
	$(GO) test ./...

race:
	$(banner) 'go test -race -short'
	CGO_ENABLED=1 $(GO) test -race -short ./...

# Go test ./... runs a part of what these do. Planted bugs are three of all, chosen at random.
suite-sim-node:     suite = ./internal/sim -run '^TestNode$$' -seeds 400
suite-sim-cluster:  suite = ./internal/sim -run '^TestCluster$$' -seeds 110
suite-sim-five:     suite = ./internal/sim -run '^TestFive$$' -seeds 40
suite-clones:       suite = ./internal/sim/faults -run '^TestAckClone$$' -clone-acks 2000
suite-points:       suite = ./internal/sim/faults -run 'AtEveryPoint$$' -point-step 1
suite-planted:      suite = -tags plant ./internal/sim -run '^TestPlanted$$' -plant-rotate 3 -v
suite-model:        suite = ./kv -run '^TestModel$$' -runs 300
suite-groups:       suite = ./stream -run '^TestGroupHistories$$' -group-runs 100
suite-ual:          suite = ./internal/ual -run '^Test(EveryBitFlip|CrashAtEveryIOPoint|Model|ManyLives)$$' -long
suite-space:        suite = ./internal/shard -run '^TestNoSpaceAtEveryOperation$$' -long
suite-kill:         suite = ./internal/exercise -run '^TestKill$$' -kills 108
suite-power:        suite = ./internal/exercise -run '^TestPower$$' -cuts 64
suite-linear:       suite = ./internal/exercise -run '^TestLinear$$' -operations 60000 -faults 150
suite-pause:        suite = ./internal/exercise -run '^TestPausedLeader$$' -pauses 200
suite-reads:        suite = ./internal/exercise -run '^TestReadsNeverGoBack$$' -writes 12000
suite-processes:    suite = ./internal/exercise -run '^TestProcesses$$' -failovers 5 -v
suite-audit:        suite = ./internal/exercise -run '^TestAudit$$' -crashes 6 -v
suite-chaos:        suite = ./internal/peer -run '^TestChaos$$' -chaos 30s -v

# Two of them run at a time: those in a simulator have one thread, and many others mostly wait.
SUITES = processes audit chaos sim-cluster linear model kill points sim-five sim-node planted power space pause groups ual reads clones

.PHONY: $(SUITES:%=suite-%)
$(SUITES:%=suite-%):
	$(GO) test -count=1 $(suite)

suites:
	$(banner) 'suites, as many of each as a change has to pass'
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(SUITES:%=suite-%)

# go test takes one fuzz target at a time, here two of them with a thread each. It sometimes reports the end of its own -fuzztime as a failure; a
# real one names its input.
fuzz: ## every fuzz target for FUZZTIME (5s)
	$(banner) 'fuzz, $(FUZZTIME) each'
	@grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's|/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*| \1|' | sort | \
	xargs -n 2 -P 2 sh -c '\
		out=$$(mktemp); trap "rm -f $$out" EXIT; \
		echo "$$0 $$1"; \
		$(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) -parallel 1 "$$0" </dev/null >"$$out" 2>&1 && exit 0; \
		grep -q "context deadline exceeded" "$$out" && ! grep -q "Failing input" "$$out" && exit 0; \
		cat "$$out"; exit 255'
