# couchrelay: targets for users and maintainers. `make` alone lists them.
GO ?= go
PEER := adapters/integration
export POUCHDB_SERVER := $(CURDIR)/$(PEER)/node_modules/.bin/pouchdb-server

.PHONY: help run demo build test test-go integration lint fmt bench sim fuzz

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and serve on loopback, with the store under ./data and databases in memory to try it with
	$(GO) run ./cmd/couchrelay serve --store ./data --sandbox 5981

demo: ## show a service at work between two databases of its own, in memory
	$(GO) run ./cmd/couchrelay demo

build: ## build bin/couchrelay
	$(GO) build -o bin/ ./cmd/...

test: lint test-go integration ## all tests: lint, packages, servers that nobody here wrote

# Packages with goroutines run under the race detector; the core has none, which a test proves.
test-go:
	$(GO) test ./core/... ./fuzz/... ./sim/conformance/...
	$(GO) test -race ./sim/fakefdb/... $$($(GO) list ./adapters/... ./cmd/... | grep -v /integration)

integration: $(PEER)/node_modules/.package-lock.json
	$(GO) test -count=1 ./$(PEER)/

$(PEER)/node_modules/.package-lock.json: $(PEER)/package-lock.json
	cd $(PEER) && npm ci --omit=optional

lint: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

fmt: ## format all code
	gofmt -w $$(git ls-files '*.go')

bench: ## rates and memory, as ratios against a baseline in the same run
	$(GO) test -run '^$$' -bench 'BenchmarkReplication|BenchmarkHugeAttachment' -benchtime 3x ./cmd/couchrelay ./adapters/couch
	$(GO) test -run '^$$' -bench 'BenchmarkCommit|BenchmarkQueueHead' ./adapters/embedded

sim: ## the simulation tests that there are: machines and stores under every kind of trouble
	$(GO) test ./core/replication ./core/jobs ./core/node -rapid.checks=2000
	$(GO) test ./sim/...

FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME (10s)
	@for target in $$($(GO) test -list '^Fuzz' ./fuzz | grep ^Fuzz); do \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./fuzz || exit 1; done
