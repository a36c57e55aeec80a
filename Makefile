# edgespan: `make help` says what there is. `make run` and `make test` do their own
# set-up on a fresh Debian machine with Go.

GO            ?= go
GOLANGCI_LINT := v2.15.0
GOFUMPT       := v0.12.0
PROTOC_GEN_GO := v1.36.12
GREMLINS      := v0.6.0
FUZZTIME      ?= 10s
BENCHTIME     ?= 1s
FLEET         ?= 10000
HISTORIES     ?= 1000
ETCD_HISTORIES ?= 30
NODES         ?= 10000
# The pure cores whose tests are held to the bars of make mutate, the quickest first.
CORES         ?= config/layers/override config/stateloop netinst/netstate config/fleet/rollout appnet config/nodeconf/commitconfirm config/fleet/history netinst netinst/manager netinst/registry

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
TOOLS   := $(CURDIR)/.tools
# What needs no root: everything but the rooms of integration, and of these the laws and the mutants.
UNIT     = $(filter-out edgespan/integration/%,$(shell $(GO) list ./...)) ./integration/arch ./integration/mutate
# Where goroutines meet: make test runs these with the race detector, and there alone.
RACED    = $(shell $(GO) list ./actors/... ./pubsub ./platform/store/... ./platform/nodelink ./platform/fake)

export CGO_ENABLED = 0

# What needs root: two rooms at a time, the longest first, and two tests of each, as they mostly wait. The laws are
# a part of UNIT, and bench measures: it is alone on the machine.
ROOMS = ./integration/scenario $(filter-out %/arch %/bench %/mutate %/scenario,$(shell $(GO) list ./integration/...))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build run test check vetted race unit integration release-testdata bench bench-fleet bench-rollout histories drill mutate fuzz fmt lint tools proto setup setup-tests clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## Build bin/edgespan and bin/edgespan-controller, static
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/edgespan ./cmd/edgespan-controller

run: setup build ## Show a node at work, in namespaces of its own (root)
	bin/edgespan demo

test: setup-tests vetted race unit integration ## All tests, set-up included (root, < 15 min)

check: vetted ## Format, vet, build, short unit tests and the laws (no root, < 90 s)
	$(GO) test -short -timeout 5m $(UNIT)

vetted:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: run make fmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) build ./...

# Each test binary has one processor: with two, goroutines of a synctest bubble that read their
# timers at once crash the detector (https://go.dev/issue/78156). It finds races by what happens
# before what, not by what runs beside what, so it sees the same; packages run side by side, and so
# do tests that say they may: most of them wait.
race: ## Actors, topics and stores under the race detector, with a few of their histories (no root; needs gcc)
	CGO_ENABLED=1 $(GO) test -race -short -parallel 4 -timeout 14m -exec 'env GOMAXPROCS=1' $(RACED)

# Many of them mostly wait: more run at a time than there are processors.
unit: ## The other unit tests with all their crashes and draws (no root)
	$(GO) test -p 3 -parallel 6 -timeout 14m $(filter-out $(RACED),$(UNIT))

integration: ## Tests that need root and namespaces (root)
	@test "$$(id -u)" = 0 || { echo 'make integration: needs root, for network namespaces' >&2; exit 1; }
	$(GO) test -count=1 -p 2 -parallel 2 -timeout 14m $(ROOMS)
	$(GO) test -count=1 -timeout 12m ./integration/bench

histories: ## Every history, cut and draw that make test shortens; with faults 1,000, and 30 on three etcd processes (HISTORIES=1000 ETCD_HISTORIES=30)
	$(GO) test -skip TestFaultyHistories -timeout 60m $(RACED)
	EDGESPAN_HISTORIES=$(HISTORIES) EDGESPAN_ETCD_HISTORIES=$(ETCD_HISTORIES) $(GO) test ./actors/controller -run 'TestFaultyHistories' -v -timeout 120m

release-testdata: ## Record what this release leaves on a host, for the upgrade tests of those to come (root; RELEASE=0.2.0)
	@test -n "$(RELEASE)" || { echo 'make release-testdata: say RELEASE=0.2.0' >&2; exit 1; }
	$(GO) test ./integration/scenario -count=1 -run TestRecordARelease -record-release $(RELEASE)

bench: ## Run every benchmark once (BENCHTIME=1s)
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-fleet: ## Measure a fleet of 10,000 simulated nodes beside its floor (FLEET=10000)
	$(GO) test ./integration/fleet -run '^$$' -bench Fleet -benchtime 1x -timeout 60m -nodes $(FLEET)

bench-rollout: ## Measure a staged rollout to 10,000 nodes in 50 batches, beside their own time (NODES=10000)
	$(GO) test ./actors/controller -run '^$$' -bench 'Rollout$$' -benchtime 1x -timeout 60m -nodes $(NODES)

drill: ## Kill, stop and cut off each part of a fleet at work (no root, 10 minutes)
	EDGESPAN_DRILL=1 $(GO) test ./integration/cluster -run 'Drill|BlackHole|MeshIsCut' -count=1 -timeout 30m -v

mutate: ## Change the pure cores one place at a time, and count what their tests notice (no root, 40 minutes; CORES='appnet config/stateloop')
	@test -x $(TOOLS)/gremlins || GOBIN=$(TOOLS) $(GO) install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS)
	$(GO) run ./integration/mutate -gremlins $(TOOLS)/gremlins $(CORES)

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

proto: ## Generate the node link's wire form anew (needs Debian's protobuf-compiler)
	@command -v protoc >/dev/null || { echo 'make proto: install protobuf-compiler first' >&2; exit 1; }
	GOBIN=$(TOOLS) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	cd platform/nodelink/linkpb && protoc --plugin=$(TOOLS)/protoc-gen-go --go_out=. --go_opt=paths=source_relative link.proto

setup: ## Install the OS packages whose commands are missing (root, Debian)
	@scripts/setup.sh

setup-tests: ## The same, and what only tests run: Hiera and Puppet
	@scripts/setup.sh tests

clean: ## Remove what was built
	rm -rf bin
