# edgespan: `make help` lists the targets. `make run` and `make test` install what they need
# on a fresh Debian machine with Go.

GO            ?= go
GOLANGCI_LINT := v2.15.0
GOFUMPT       := v0.12.0
PROTOC_GEN_GO := v1.36.12
GREMLINS      := v0.6.0
GOTESTSUM     := v1.13.0
FUZZTIME      ?= 10s
BENCHFLAGS    ?=
FLEET         ?= 10000
HISTORIES     ?= 1000
ETCD_HISTORIES ?= 30
PACKETS       ?= 1000000
PLANS         ?= 1000
SEED          ?= 1
NODES         ?= 10000
# What make vm runs: by default the tests that a kernel without VLANs, WireGuard and controllers of cgroup2 skips or
# weakens.
VM            ?=
VM_TESTS      := TestAVLAN|VLAN|TestATrunkOfAnApp|TestAProcessInAGroup|TestTheHelpersOfANetwork|TestTheKernelsWireGuard|TestATunnelLeaves|TestIPsecByTheKernel|TestACharonIsNotRoot|TestTheKeyOfAnEncrypted|TestAnEncryptedClusterTakes
# How long make soak runs beside its setting up, and more of its flags: '-nodes 3 -faults "flush rules"'.
SOAK          ?= 5m
SOAKFLAGS     ?=
# The pure cores that make mutate checks, the fastest first.
CORES         ?= config/layers/override config/stateloop netinst/netstate config/fleet/rollout appnet config/nodeconf/commitconfirm config/fleet/history netinst netinst/manager netinst/registry

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
TOOLS   := $(CURDIR)/.tools
# Packages that need no root: all but those of integration, and of these the laws, the mutants, and what soaks, simulates and boots.
UNIT     = $(filter-out edgespan/integration/%,$(shell $(GO) list ./...)) ./integration/arch ./integration/benchtable ./integration/mutate ./integration/simulation ./integration/soak/... ./integration/vm
# Packages where goroutines meet: make test runs these under the race detector, and only there; the longest first.
LONGEST  = edgespan/actors/node edgespan/actors/controller
RACED    = $(LONGEST) $(filter-out $(LONGEST),$(shell $(GO) list ./actors/... ./pubsub ./platform/store/... ./platform/nodelink ./platform/fake))

# vetted has run vet on everything; without symbol tables the hundred test binaries are linked in half the time.
TESTFLAGS := -vet=off -ldflags=-s
# Unit tests take some tenth less of the processor if they may have five times as much memory as they use (ADR 0092).
# Tests of real programs keep Go's own setting.
check vetted race unit: export GOGC ?= 400

# What make test and CI run tests with: a test that fails is run again, alone, and must pass then; a report names it
# (docs/adr/0084). More than eight failures, a data race, a panic or a timeout end the run at once.
TESTRUN = $(TOOLS)/gotestsum --format standard-quiet --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=8 \
	--rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report=$(TOOLS)/reruns-$@.txt

export CGO_ENABLED = 0

# Packages that need root: two at a time, the longest first, and four tests of each, since they mostly wait. The laws
# are part of UNIT.
ROOMS = ./integration/scenario $(filter-out %/arch %/benchtable %/mutate %/scenario %/simulation %/soak %/soak/field %/soak/guest %/soak/model %/soak/report %/vm,$(shell $(GO) list ./integration/...))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build run test check vetted race unit integration release-testdata replay-testdata bench bench-fleet bench-rollout histories verdicts simulate drill mutate soak vm fuzz fmt lint tools proto setup setup-tests clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## Build bin/edgespan and bin/edgespan-controller, static
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/edgespan ./cmd/edgespan-controller

run: setup build ## Show a node at work, in its own network namespaces (root)
	bin/edgespan demo

test: setup-tests $(TOOLS)/gotestsum vetted race unit integration ## Run all tests, after installing what they need (root; 18 min, 40 on a slow machine)

check: vetted ## Check format, vet, build, run short unit tests and the laws (no root, < 90 s)
	$(GO) test $(TESTFLAGS) -short -p 4 -timeout 5m $(UNIT)

vetted:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: run make fmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) build -ldflags=-s ./...

REPORT = ! grep -q . $(TOOLS)/reruns-$@.txt || { echo 'make $@: these tests failed at first and then passed; mend them:'; \
	cat $(TOOLS)/reruns-$@.txt; }

$(TOOLS)/gotestsum:
	GOBIN=$(TOOLS) $(GO) install gotest.tools/gotestsum@$(GOTESTSUM)

# Each test binary gets one processor: with two, goroutines of a synctest bubble that read their
# timers at the same time crash the detector (https://go.dev/issue/78156). It finds races by the
# happens-before order, not by real parallelism, so it sees the same. Packages run in parallel, and so
# do parallel tests: most of them wait.
race: $(TOOLS)/gotestsum ## Test actors, topics and stores under the race detector, with few random histories (no root; needs gcc)
	CGO_ENABLED=1 $(TESTRUN) --packages='$(RACED)' -- $(TESTFLAGS) -race -short -p 3 -parallel 4 -timeout 14m -exec 'env GOMAXPROCS=1'
	@$(REPORT)

# Many of them mostly wait, so more run at a time than there are processors.
unit: $(TOOLS)/gotestsum ## Run the other unit tests, with all crashes and random draws (no root)
	$(TESTRUN) --packages='$(filter-out $(RACED),$(UNIT))' -- $(TESTFLAGS) -p 3 -parallel 6 -timeout 14m
	@$(REPORT)

integration: $(TOOLS)/gotestsum ## Run the tests that need root and namespaces (root)
	@test "$$(id -u)" = 0 || { echo 'make integration: needs root, for network namespaces' >&2; exit 1; }
	$(TESTRUN) --packages='$(ROOMS)' -- $(TESTFLAGS) -count=1 -p 2 -parallel 4 -timeout 40m
	@$(REPORT)

histories: ## Run all random histories, power cuts and draws that make test shortens (HISTORIES=1000 ETCD_HISTORIES=30)
	$(GO) test -skip TestFaultyHistories -timeout 60m $(RACED)
	EDGESPAN_HISTORIES=$(HISTORIES) EDGESPAN_ETCD_HISTORIES=$(ETCD_HISTORIES) $(GO) test ./actors/controller -run 'TestFaultyHistories' -v -timeout 120m

simulate: ## Simulate nodes and fleets in random weather; a plan that fails is shortened and printed (PLANS=1000 SEED=1)
	$(GO) test ./integration/simulation -run InAnyWeather -v -timeout 600m -plans $(PLANS) -seed $(SEED)

verdicts: ## Compare a million packets over random rules with the answers about them (root; PACKETS=1000000 SEED=1)
	$(GO) test ./integration/netns -run TestVerdictsAre -v -timeout 60m -verdict-packets $(PACKETS) -verdict-seed $(SEED)

release-testdata: ## Record what this release leaves on a host, for later upgrade tests (root; RELEASE=0.2.0)
	@test -n "$(RELEASE)" || { echo 'make release-testdata: say RELEASE=0.2.0' >&2; exit 1; }
	$(GO) test ./integration/scenario -count=1 -run TestRecordARelease -record-release $(RELEASE)

replay-testdata: ## Record a node of this release, for replays by later ones (no root; RELEASE=0.2.0)
	@test -n "$(RELEASE)" || { echo 'make replay-testdata: say RELEASE=0.2.0' >&2; exit 1; }
	$(GO) test ./actors/node -count=1 -run TestARecordingIsKept -record-replay $(RELEASE)

bench: ## Run the benchmarks, print a table and fail if a bar is missed (root for all of it; < 20 min; BENCHFLAGS='-only Packets', -all for more)
	@test "$$(id -u)" != 0 || scripts/setup.sh
	$(GO) run ./integration/benchtable $(BENCHFLAGS)

bench-fleet: ## Measure a fleet of 10,000 simulated nodes against its lower bound (FLEET=10000)
	$(GO) test ./integration/fleet -run '^$$' -bench Fleet -benchtime 1x -timeout 60m -nodes $(FLEET)

bench-rollout: ## Measure a staged rollout to 10,000 nodes in 50 batches, against the nodes' own time (NODES=10000)
	$(GO) test ./actors/controller -run '^$$' -bench 'Rollout$$' -benchtime 1x -timeout 60m -nodes $(NODES)

drill: ## Kill, stop and disconnect each part of a working fleet (no root, 10 minutes)
	EDGESPAN_DRILL=1 $(GO) test ./integration/cluster -run 'Drill|BlackHole|MeshIsCut' -count=1 -timeout 30m -v

mutate: ## Mutate the pure cores, and count the mutants that their tests kill (no root, 40 minutes; CORES='appnet config/stateloop')
	@test -x $(TOOLS)/gremlins || GOBIN=$(TOOLS) $(GO) install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS)
	$(GO) run ./integration/mutate -gremlins $(TOOLS)/gremlins $(CORES)

soak: ## Soak a fleet of virtual machines in changes and faults, and report (root, Debian; SOAK=5m|2h|24h SEED=1, 0 for a new one)
	@scripts/setup.sh soak
	$(GO) run ./integration/soak -length $(SOAK) -seed $(SEED) $(SOAKFLAGS)

vm: ## Run tests on Debian's kernel in a virtual machine (root, Debian; VM='-run VLAN ./integration/netns')
	@scripts/setup.sh vm
	$(GO) run ./integration/vm $(if $(VM),$(VM),-run '$(VM_TESTS)' ./platform/proc ./integration/netns ./integration/scenario)

fuzz: ## Fuzz every parser for a short time each (FUZZTIME=10s)
	GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

fmt: ## Format all Go files (with gofumpt once make tools ran)
	@if [ -x $(TOOLS)/gofumpt ]; then $(TOOLS)/gofumpt -w $$(git ls-files '*.go'); else gofmt -w $$(git ls-files '*.go'); fi

lint: ## Run the linters of .golangci.yml (after make tools)
	@test -x $(TOOLS)/golangci-lint || { echo 'make lint: run make tools first' >&2; exit 1; }
	$(TOOLS)/golangci-lint config verify
	$(TOOLS)/golangci-lint run ./...

tools: ## Install the linters into .tools
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	GOBIN=$(TOOLS) $(GO) install mvdan.cc/gofumpt@$(GOFUMPT)

proto: ## Regenerate the node link's wire format (needs Debian's protobuf-compiler)
	@command -v protoc >/dev/null || { echo 'make proto: install protobuf-compiler first' >&2; exit 1; }
	GOBIN=$(TOOLS) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	cd platform/nodelink/linkpb && protoc --plugin=$(TOOLS)/protoc-gen-go --go_out=. --go_opt=paths=source_relative link.proto

setup: ## Install the OS packages whose commands are missing (root, Debian)
	@scripts/setup.sh

setup-tests: ## Install the same, and what only tests run: Hiera, Puppet and Prometheus
	@scripts/setup.sh tests

clean: ## Remove build output
	rm -rf bin
