# Two commands: make test needs Go and git, and installs nothing outside the module cache. make prove is everything else, and says what it needs.

GO         ?= go
FUZZTIME   ?= 2s
LONG       ?= 5m
BENCH      ?=

# Tools have a module file of their own, so that their versions are pinned and summed like everything else and no program that embeds floe sees
# them. As package@version they would be looked for by path, which module proxies may refuse.
TOOLS       = internal/tools/go.mod
STATICCHECK = $(GO) tool -modfile=$(TOOLS) staticcheck
GOVULNCHECK = $(GO) tool -modfile=$(TOOLS) govulncheck

# All checks of staticcheck but these:
#   ST1000, ST1020-ST1022  comments of packages and exported names: internal/lint checks them, with groups understood
#   QF*                    quick fixes for editors: suggestions of taste
CHECKS = all,-ST1000,-ST1020,-ST1021,-ST1022,-QF*

# Without cgo, as the program is shipped: no C compiler is needed, and a cold build takes a fifth less. Only the race detector needs cgo.
CGO_ENABLED ?= 0
export CGO_ENABLED

# Programs that only run tests carry no debug information: linking them takes half the time.
LINK = -ldflags=-w

.DEFAULT_GOAL = help
.PHONY: help build release release-check console needs browser monitoring languages check test prove test-long mutants bench bench-check bench-baseline profile fmt format vet staticcheck vulnerabilities mod modules unit race suites fuzz

banner = @printf '\n== %s\n'

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the program, as ./floe: static, so that it runs anywhere
	$(GO) build -o floe ./cmd/floe

release: ## programs, SBOMs and checksums of VERSION=v0.1.0 in ./dist, from the commit that is checked out; needs GNU tar
	@internal/tools/release.sh '$(VERSION)' dist

# The second build is that of a user: from a clone in another directory, with an empty build cache.
release-check: release ## builds the release once more, elsewhere and from nothing: it has to be equal
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; git clone -q . "$$copy/floe" && \
	GOCACHE="$$copy/cache" $(MAKE) --no-print-directory -C "$$copy/floe" release VERSION='$(VERSION)' && \
	diff dist/SHA256SUMS "$$copy/floe/dist/SHA256SUMS" && echo 'both builds are equal'

# The console is built from TypeScript, and what was built is committed: only who changes it needs Node. npm ci removes what is there first, so it runs only
# when the lock file is newer.
NPM = cd dashboard/console && npm
CHROMIUM ?= $(or $(FLOE_CHROMIUM),$(shell command -v chromium))

NPM_CI = if ! [ dashboard/console/node_modules/.package-lock.json -nt dashboard/console/package-lock.json ]; then echo 'npm ci: the packages of the console are missing or old'; $(NPM) ci; fi

console: ## build the web console, dashboard/console/dist, from its sources; needs Node
	$(GO) generate ./dashboard
	@$(NPM_CI)
	$(NPM) run -s build

# What make prove needs and Go does not bring. Only continuous integration, where CI is set, has it installed: a fresh machine has no lists of packages either.
needs:
	@missing=; for c in npm:npm gcc:gcc python3:python3 promtool:prometheus prometheus:prometheus; do command -v $${c%:*} >/dev/null || missing="$$missing $${c#*:}"; done; \
	[ -n "$(CHROMIUM)" ] || missing="$$missing chromium"; \
	if [ -z "$$missing" ]; then :; \
	elif [ -n "$(CI)" ]; then echo "missing, and installed now:$$missing"; apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	else echo "make prove needs Node 20.19 or later with npm, gcc, Python 3, Chromium (or FLOE_CHROMIUM=path) and Prometheus."; echo "Missing here:$$missing. On Debian: apt-get install$$missing"; exit 1; fi
	@$(NPM_CI)

# The console is built again beside dist, never in it: other groups compile the package that embeds dist at the same time.
browser: needs ## the tests of the console: its parts, what it weighs, and all of it in a real browser, for a minute
	$(banner) 'console'
	$(NPM) run -s source && npx tsc --noEmit && npx vite build --logLevel warn --outDir node_modules/.dist --emptyOutDir
	@cd dashboard/console && diff -rq -x SOURCE dist node_modules/.dist || { echo "dist is not what its sources build: run make console and commit it"; exit 1; }
	$(NPM) run -s lint && npm run -s budget && npm test -s
	FLOE_CHROMIUM="$(or $(CHROMIUM),/usr/bin/chromium)" $(GO) test -v -count=1 -vet=off $(LINK) -tags console $(if $(FULL),-timeout 30m) -run '^TestBrowser$$' ./dashboard/console $(if $(FULL),-full)

monitoring: needs ## a real Prometheus scrapes a node, and the alerts of examples/monitoring are tested, in a few seconds
	$(banner) 'monitoring'
	$(GO) test -count=1 -vet=off $(LINK) -tags monitoring -run '^Test(Monitoring|Alerts)$$' ./cmd/internal/cli

languages: needs ## the examples in other languages, against a node in memory
	$(banner) 'languages'
	$(GO) test -count=1 -vet=off $(LINK) -tags languages ./examples/http

check: format vet staticcheck mod unit ## what must pass before every commit

# Packages wait for disks, clocks and processes much more than they compute, so go vet runs beside them.
test: format ## format, vet, all unit tests, every example and a short run of each suite: Go and git only, a few minutes
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; $(MAKE) --no-print-directory vet >"$$log" 2>&1 & vet=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; wait $$vet; vet=$$?; cat "$$log"; [ $$unit$$vet = 00 ]

# Each group prints its verdict and its time; those after a failed one run all the same. Groups that compute run beside those that mostly wait, and are nice
# about it: staticcheck beside the suites, the race detector and the fuzzer beside the browser. Each test binary is compiled once, with the bugs that are
# planted on purpose in it and switched off.
prove: needs ## everything else: staticcheck, known vulnerabilities, long suites, planted bugs, race detector, fuzzing, browser, Prometheus; at most 25 minutes on two cores
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; export bin; \
	group() { \
		start=$$(date +%s); if $$nice $(MAKE) --no-print-directory "$$1" BIN="$$bin" >"$$bin/$$1.out" 2>&1; then verdict=ok; else verdict=FAILED; cat "$$bin/$$1.out"; echo "$$1" >>"$$bin/failed"; fi; \
		printf '%-6s %-15s %4d s\n' "$$verdict" "$$1" $$(($$(date +%s) - start)); grep '^not checked' "$$bin/$$1.out" || true; \
	}; \
	group modules; group mod; group binaries; \
	{ nice=nice; group vet; group staticcheck; group vulnerabilities; } & beside=$$!; nice=; group suites; wait $$beside; \
	{ nice=nice; group race; group fuzz; } & beside=$$!; nice=; group browser; group monitoring; group languages; wait $$beside; \
	if [ -e "$$bin/failed" ]; then echo "make prove: failed groups:" $$(sort "$$bin/failed"); exit 1; fi

test-long: ## randomised suites in their long forms, races in full; for the night
	$(banner) 'simulations, long'
	$(GO) test -count=1 -timeout 180m ./internal/test/sim -run '^Test(Node|Cluster)$$' -seeds 20000
	$(GO) test -count=1 -timeout 180m ./internal/test/sim -run '^TestFive$$' -seeds 7000
	$(GO) test -count=1 -timeout 60m ./internal/test/sim -run '^Test(Replay|CrashBetweenSnapshotAndLog|TakesWaitThroughAChangeOfTheLeader)$$' -seeds 80
	$(PLANT)
	$(GO) test -count=1 -timeout 60m $(PLANTED) ./internal/test/sim ./internal/engine ./internal/shard ./internal/workloop ./internal/workers ./kv ./queue ./stream ./ts ./action ./workflow ./internal/flow ./internal/pipeline ./stream/processing ./internal/auth -run '^TestPlanted$$'
	$(banner) 'crashes, failures and damage, long'
	$(GO) test -count=1 -timeout 180m ./internal/test/sim/faults -clone-acks 50000 -point-workloads 20 -point-step 1 -corrupt-cases 20000
	$(banner) 'models, long'
	$(GO) test -count=1 -timeout 180m -run '^TestModel$$' ./kv -runs 6000
	$(GO) test -count=1 -timeout 60m -run '^TestModel$$' ./queue -runs 1600
	$(GO) test -count=1 -timeout 60m -run '^TestModel$$' ./stream -runs 1000
	$(GO) test -count=1 -timeout 60m -run '^TestModel$$' ./ts -runs 1000
	$(GO) test -count=1 -timeout 60m -run '^Test(Backfill|LateStorm)$$' ./ts -backfill 200 -storm 3000 -v
	$(GO) test -count=1 -timeout 60m ./internal/raftlog ./internal/shard -long
	$(banner) 'kills, power cuts, histories, pauses, long'
	$(GO) test -count=1 -timeout 300m -run '^TestKill$$' ./internal/test/e2e -kills 10000
	$(GO) test -count=1 -timeout 300m -run '^TestPower$$' ./internal/test/e2e -cuts 5000
	$(GO) test -count=1 -timeout 120m -run '^TestLinear$$' ./internal/test/e2e -operations 5000000 -faults 2000
	$(GO) test -count=1 -timeout 120m -run '^TestPausedLeader$$' ./internal/test/e2e -pauses 5000
	$(GO) test -count=1 -timeout 60m -run '^TestReadsNeverGoBack$$' ./internal/test/e2e -writes 1000000
	$(GO) test -count=1 -timeout 120m -run '^TestProcesses$$' ./internal/test/e2e -failovers 500 -v
	$(GO) test -count=1 -timeout 120m -run '^TestAudit$$' ./internal/test/e2e -crashes 200 -v
	$(GO) test -count=1 -timeout 120m -run '^TestWorks$$' ./internal/test/e2e -work-kills 300 -v
	$(GO) test -count=1 -timeout 120m -run '^Test(Pipes|Triggers)$$' ./internal/test/e2e -pipe-kills 200 -trigger-kills 200 -v
	$(GO) test -count=1 -timeout 120m -run '^TestWorkers$$' ./internal/test/e2e -worker-kills 300 -v
	$(GO) test -count=1 -timeout 120m -run '^TestFlows$$' ./internal/test/e2e -flow-runs 1000 -flow-kills 100 -v
	$(GO) test -count=1 -timeout 60m -run '^Test(Dispatch|Schedule)Model$$' ./action -for 5m -runs 400
	$(GO) test -count=1 -timeout 60m -run '^TestLongRun$$' ./workflow -run-steps 10000
	$(GO) test -count=1 -timeout 60m -run '^TestTakesBesideFullKeys$$' ./action -behind 1000000 -v
	$(GO) test -count=1 -timeout 60m -run '^Test((Spread)?TickAtEveryPoint|KilledWhileFiring|ManyKeys)$$' ./stream/processing -every 1 -every-spread 5 -windows 1000000 -keys 1000000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestProcess$$/^(capacity|memory|fairness)$$' ./cmd/internal/cli -overload 16s -v
	$(banner) 'ten million messages, a million series, a hundred million points, ten thousand idle queues and groups'
	$(GO) test -count=1 -timeout 60m -run '^TestVolume$$' ./internal/test/e2e -volume 10000000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestManySeries$$' ./internal/test/e2e -many-series 1000000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestManyPoints$$' ./internal/test/e2e -many-points 100000000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestIdle$$' ./internal/test/e2e -idle 10000 -v
	$(GO) test -count=1 -timeout 60m -run '^TestWaitingRuns$$' ./internal/test/e2e -waiting-runs 100000 -v
	@$(MAKE) --no-print-directory browser FULL=1
	$(banner) 'go test -race'
	CGO_ENABLED=1 $(GO) test -count=1 -race -timeout 60m ./...
	@$(MAKE) --no-print-directory fuzz FUZZTIME=$(LONG) INSTRUMENT='-fuzz=.'

MUTANTS ?= 200

mutants: ## plant MUTANTS random bugs (200), one at a time; at least 95 % must be noticed by the tests of their own package; takes an hour or two
	$(GO) run ./internal/test/mutants -n $(MUTANTS)

bench: ## floe beside the limits of this machine, in an hour, with the tables of docs/performance.md; or only the rows that begin with BENCH
	$(GO) run ./cmd/internal/bench $(if $(BENCH),-only '$(BENCH)',-write docs/performance.md)

bench-check: ## a short bench, fails if floe has become slower than cmd/internal/bench/baseline.json
	$(GO) run ./cmd/internal/bench -short -baseline cmd/internal/bench/baseline.json -check

bench-baseline: ## measures the baseline of bench-check again
	$(GO) run ./cmd/internal/bench -short -baseline cmd/internal/bench/baseline.json

profile: ## CPU, allocs, block and mutex profiles of the main workloads, or of the rows that begin with BENCH, in ./profiles
	$(GO) run ./cmd/internal/bench -profile profiles $(if $(BENCH),-only '$(BENCH)',-short)

fmt: ## format all Go files
	gofmt -w .

format:
	$(banner) 'gofmt'
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run make fmt, these are not formatted:"; echo "$$unformatted"; exit 1; fi

# Beside the binaries of make prove with their flags, so that packages are compiled once for both.
vet:
	$(banner) 'go vet'
	$(GO) vet $(if $(BIN),$(PLANTED)) ./...

staticcheck:
	$(banner) 'staticcheck'
	$(STATICCHECK) -tags plant -checks '$(CHECKS)' ./...

# The database of vulnerabilities is on the network only.
vulnerabilities:
	$(banner) 'govulncheck'
	@out=$$($(GOVULNCHECK) ./... 2>&1); code=$$?; echo "$$out"; case $$out in *'fetching vulnerabilities'*) echo 'not checked for known vulnerabilities: their database can not be reached';; *) exit $$code;; esac

mod:
	$(banner) 'go.mod is tidy, modules are what go.sum says'
	$(GO) mod tidy -diff
	$(GO) mod verify

# A version that the cache of this machine still has may not be served any more: then the next fresh machine could not build.
modules:
	$(banner) 'every module can be downloaded'
	@cache=$$(mktemp -d); trap 'rm -rf "$$cache"' EXIT; export GOMODCACHE=$$cache GOFLAGS="$$GOFLAGS -modcacherw"; \
	$(GO) list -deps -test -tags plant ./... >/dev/null && $(GO) list -modfile=$(TOOLS) -deps tool >/dev/null && \
	$(GO) list -C cmd/internal/bench/bbolt -deps ./... >/dev/null

# What the suites do many times is done a few times here: without -short go test ./... does more of it, and with no make at all. Results of packages that have
# not changed are taken from Go's cache; COUNT=1 runs them again. A machine has few cores, but most packages wait, so that eight of them run at a time.
COUNT ?=
unit:
	$(banner) 'go test -short'
	@$(GO) test -short -vet=off $(LINK) -p 8 $(if $(COUNT),-count=$(COUNT)) ./...

# The packages that start goroutines, without the tests that move megabytes or wait for processes: the race detector makes all of it ten to twenty times
# slower. Of the machines, which have no goroutines, the tests that use them from many. The simulators have one. make test-long leaves nothing out.
RACY     = ./internal/test/e2e ./internal/transport ./internal/auth ./internal/shard ./dashboard ./internal/workloop ./internal/workers ./internal/raftlog ./internal/codec .
BULKY    = ^Test(Suite|NodeAndClientAlike|AsyncLoses|CrashKeeps|FailedRead|DamagedSnapshot|OthersFill|HeadTorn|LostBlocks|ShortWrites|RandomCorruption|Entries$$|StatsEverywhere|NoQuorum|QuietShard|Verify|Torn|NoSpaceAtEvery|OpenOn|Quota|FullDisk|(KV)?ReplicasAreEqual|WorkloadThrough|EveryBitFlip|TruncatedFiles|.*AtEveryIOPoint|LargePayloads|Listings|ManyWaits|CutAtEachByte|LargeEntries|DeletesWithout|Read(Bytes|IsASeek)|Many(Due|Queues|Tombstones|Keys|Streams)|WatchFindsChangesInParts|Disk$$|StopHandsOver|ReadsNeverGoBack|Stops|Audit|Kill|Power|Processes|Works|Consumers|Workers|Flows|WaitingRuns|ActionsOnAFullDisk|Linear|PausedLeader|Volume|Idle|RollingRestart|DueTogether|LeavingWith|LeasesOf|DeletesBeyond|LargeDeletes|LargeAnswers|LargeValues|ExporterIsBounded|ManyChanges|ConsumeTenThousand|AtOnce|Many$$)
MACHINES = ./kv ./queue ./stream ./ts ./action ./internal/engine
SHARED   = ^Test(Progress|Callers|Spread|Lock|WithLock|Update|Watch|Wait|Pause|Many|Take|Read|Follow|Query|RowCache|Consume|Worker|Drain|CancelReaches|ScheduleReaches|SessionLost|OtherRuntime)

race:
	$(banner) 'go test -race -short'
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; export bin CGO_ENABLED=1; \
	$(GO) test -c -race -vet=off $(LINK) -o "$$bin/" $(RACY) $(MACHINES) && \
	{ for p in $(RACY); do echo "$$p ."; done; for p in $(MACHINES); do echo "$$p $(SHARED)"; done; } \
	| xargs -n 2 -P 4 sh -c '\
		name=$${1##*/}; [ "$$1" != . ] || name=floe; cd "$$1" || exit 255; \
		"$$bin/$$name.test" -test.short -test.timeout 10m -test.run "$$2" -test.skip "$$0" >"$$bin/$$name.log" 2>&1 || { echo "FAIL $$1"; cat "$$bin/$$name.log"; exit 1; }; \
		echo "ok $$1"' '$(BULKY)'

# A suite is a package and flags of its tests. Those that have a time (-for) are random: they take new seeds in each run, which they print, so that short
# runs add up, and go on until they have done the least of it (-least). Of the simulator's planted bugs one is chosen at random.
suite-sim-node:     suite = internal/test/sim -test.run '^TestNode$$' -for 6s -least 5
suite-sim-cluster:  suite = internal/test/sim -test.run '^TestCluster$$' -for 8s -least 1
suite-sim-five:     suite = internal/test/sim -test.run '^TestFive$$' -for 5s -least 1
suite-sim-rest:     suite = internal/test/sim -test.run '^Test(Replay|CrashBetweenSnapshotAndLog)$$' -seeds 2
suite-planted:      suite = internal/test/sim -test.run '^TestPlanted$$' -plant-rotate 1
suite-planted-rest: suite = internal/engine -test.run '^TestPlanted$$'
suite-planted-shard: suite = internal/shard -test.run '^TestPlanted$$'
suite-planted-kv:   suite = kv -test.run '^TestPlanted$$'
suite-planted-queue: suite = queue -test.run '^TestPlanted$$'
suite-planted-workers: suite = internal/workers -test.run '^TestPlanted$$'
suite-planted-groups: suite = stream -test.run '^TestPlanted$$'
suite-planted-ts:   suite = ts -test.run '^TestPlanted$$'
suite-planted-workloop: suite = internal/workloop -test.run '^TestPlanted$$'
suite-planted-action: suite = action -test.run '^TestPlanted$$'
suite-planted-workflow: suite = workflow -test.run '^TestPlanted$$'
suite-planted-flow: suite = internal/flow -test.run '^TestPlanted$$'
suite-planted-pipeline: suite = internal/pipeline -test.run '^TestPlanted$$'
suite-planted-auth: suite = internal/auth -test.run '^TestPlanted$$'
suite-planted-processing: suite = stream/processing -test.run '^TestPlanted$$'
suite-clones:       suite = internal/test/sim/faults -test.run '^TestAckClone$$' -clone-acks 200
suite-points:       suite = internal/test/sim/faults -test.run 'AtEveryPoint$$' -point-step 12
suite-corrupt:      suite = internal/test/sim/faults -test.run '^Test(Trio)?Corrupt$$' -corrupt-cases 200
suite-model:        suite = kv -test.run '^TestModel$$' -for 6s -least 5
suite-queue:        suite = queue -test.run '^TestModel$$' -for 5s -least 3
suite-ts:           suite = ts -test.run '^TestModel$$' -for 5s -least 2
suite-stream:       suite = stream -test.run '^TestModel$$' -for 5s -least 2
suite-dispatch:     suite = action -test.run '^TestDispatchModel$$' -for 3s -least 4
suite-ticks:        suite = stream/processing -test.run '^Test(Spread)?TickAtEveryPoint$$'
suite-groups:       suite = stream -test.run '^TestGroupHistories$$' -for 2s -least 3
suite-raftlog:      suite = internal/raftlog -test.run '^Test(EveryBitFlip|CrashAtEveryIOPoint|Model|ManyLives)$$'
suite-space:        suite = internal/shard -test.run '^TestNoSpaceAtEveryOperation$$'
suite-kill:         suite = internal/test/e2e -test.run '^TestKill$$' -kills 48
suite-power:        suite = internal/test/e2e -test.run '^TestPower$$' -cuts 24
suite-linear:       suite = internal/test/e2e -test.run '^TestLinear$$' -operations 20000 -faults 50
suite-pause:        suite = internal/test/e2e -test.run '^TestPausedLeader$$' -pauses 80
suite-reads:        suite = internal/test/e2e -test.run '^TestReadsNeverGoBack$$' -writes 8000
suite-processes:    suite = internal/test/e2e -test.run '^TestProcesses$$' -failovers 2
suite-audit:        suite = internal/test/e2e -test.run '^TestAudit$$' -crashes 2
suite-consumers:    suite = internal/test/e2e -test.run '^TestConsumers$$' -consumer-kills 10
suite-works:        suite = internal/test/e2e -test.run '^TestWorks$$' -work-kills 6
suite-pipes:        suite = internal/test/e2e -test.run '^Test(Pipes|Triggers)$$' -pipe-kills 6
suite-flows:        suite = internal/test/e2e -test.run '^TestFlows$$' -flow-runs 200 -flow-kills 8
suite-workers:      suite = internal/test/e2e -test.run '^TestWorkers$$' -worker-kills 8
suite-chaos:        suite = internal/transport -test.run '^TestChaos$$' -chaos 8s

# Two pools: suites that compute, and suites that mostly wait for clocks, disks and processes, run side by side, two of each at a time. The longest are
# first.
COMPUTING = sim-cluster sim-five points planted planted-rest planted-shard planted-kv planted-queue planted-workers planted-groups planted-ts planted-workloop planted-action planted-workflow planted-flow planted-pipeline planted-processing planted-auth sim-node model queue stream ts dispatch ticks groups clones corrupt raftlog space sim-rest
WAITING   = audit works flows pipes consumers workers processes kill pause linear chaos power reads

.PHONY: binaries $(COMPUTING:%=suite-%) $(WAITING:%=suite-%)

# BIN holds test binaries; without it, go test makes one.
$(COMPUTING:%=suite-%) $(WAITING:%=suite-%):
ifdef BIN
	@set -- $(suite); cd "$$1"; bin="$(BIN)/$${1##*/}.test"; echo "$$@"; shift; "$$bin" -test.timeout 20m -test.v "$$@" >"$(BIN)/$@.log" 2>&1 \
	|| { cat "$(BIN)/$@.log"; exit 1; }; grep -E '^ +[a-z0-9_]+\.go:[0-9]+: |^(PASS|ok)' "$(BIN)/$@.log" | grep -v ' largest ' || true
else
	$(PLANT)
	$(GO) test -count=1 -v $(PLANTED) ./$(suite)
endif

# Bugs are planted in an overlay of the sources, see internal/test/plant.
PLANT   = $(GO) run ./internal/test/plant/overlay -o .plant
PLANTED = -tags plant -overlay .plant/overlay.json

# What suites are made of.
BINARIES = ./kv ./queue ./stream ./ts ./action ./workflow ./internal/flow ./internal/pipeline ./stream/processing ./internal/auth ./internal/workloop ./internal/workers ./internal/test/sim ./internal/test/sim/faults ./internal/test/e2e ./internal/raftlog ./internal/shard ./internal/transport ./internal/engine

binaries:
	$(PLANT)
	$(GO) test -c -vet=off $(PLANTED) $(LINK) -o "$(BIN)/" $(BINARIES) $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u)

suites: ## the random and exhaustive suites, as many of each as a change has to pass; suite-<name> runs one
	$(banner) 'suites'
ifdef BIN
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $(COMPUTING:%=suite-%) & computing=$$!; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $(WAITING:%=suite-%); waiting=$$?; wait $$computing && exit $$waiting
else
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	$(MAKE) --no-print-directory binaries suites BIN="$$bin"
endif

# Go test ./... tries the corpora. In a short run new inputs are made without a look at what they reach, by the same binaries as the suites: to instrument all
# packages takes longer than to fuzz them. INSTRUMENT='-fuzz=.' has it done, for the night. Two targets at a time have a thread each. A fuzz target
# sometimes reports the end of its own time as a failure; a real one names its input.
fuzz: ## every fuzz target for FUZZTIME (2s)
	$(banner) 'fuzz, $(FUZZTIME) each'
ifdef BIN
	@cache=$$($(GO) env GOCACHE)/fuzz; \
	grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's|^\./(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort | \
	xargs -n 2 -P 2 sh -c '\
		out="$(BIN)/$$2.fuzz"; cd "$$1" || exit 255; \
		"$(BIN)/$${1##*/}.test" -test.run "^$$" -test.fuzz "^$$2\$$" -test.fuzztime $(FUZZTIME) -test.parallel 1 -test.fuzzcachedir "'"$$cache"'/github.com/floedb/floe/$$1" </dev/null >"$$out" 2>&1 \
		|| { grep -q "context deadline exceeded" "$$out" && ! grep -q "Failing input" "$$out"; } || { cat "$$out"; exit 1; }; \
		echo "$$1 $$2: $$(grep -o "execs: [0-9]*" "$$out" | tail -1)"' fuzz
else
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		$(GO) test -c $(INSTRUMENT) $(LINK) -o "$$bin/$${pkg##*/}.test" "$$pkg" || exit 1; done; \
	$(MAKE) --no-print-directory fuzz BIN="$$bin"
endif
