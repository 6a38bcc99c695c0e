# couchrelay: targets for users and maintainers. `make` alone lists them.
GO ?= go
PEER := adapters/integration
export POUCHDB_SERVER := $(CURDIR)/$(PEER)/node_modules/.bin/pouchdb-server

.PHONY: help run demo build build-fdb test test-go test-fdb test-fdb-real fdb-diff bench-fdb integration record-couchdb dist test-dist lint fmt bench bench-compare traces sim played part campaign sweep marks mutants mutants-quick mutants-verify fuzz mutation mutation-core arm64

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and serve on loopback, with the store under ./data and databases in memory to try it with
	$(GO) run ./cmd/couchrelay serve --store ./data --sandbox 5981

demo: ## show a service at work between two databases of its own, in memory
	$(GO) run ./cmd/couchrelay demo

build: ## build bin/couchrelay
	$(GO) build -o bin/ ./cmd/...

build-fdb: ## build bin/couchrelay with FoundationDB support; needs FoundationDB's client package, 7.3 or newer
	$(GO) build -tags fdb -o bin/ ./cmd/...

test: export GOFLAGS := $(GOFLAGS) -vet=off # lint has vetted everything, with each set of tags
test: ## all tests: lint, packages, simulations, servers that nobody here wrote, installation
	$(MAKE) -j2 -Otarget lint integration # what waits beside what computes
	$(MAKE) test-go sim
	$(MAKE) -j2 -Otarget test-fdb test-dist

# What computes much has memory to spare: the garbage collector took a quarter of its time.
SPARE := GOGC=400 GOMEMLIMIT=3GiB

# Packages with goroutines run under the race detector; the core has none, which a test proves. Tests of the command
# mostly wait, so more of them run at once than there are cores.
test-go:
	$(SPARE) $(GO) test ./core/... ./fuzz/... ./sim/conformance/...
	$(SPARE) $(GO) test -race -timeout 20m -parallel 4 $$($(GO) list ./cmd/... ./adapters/... ./sim/fakefdb/... | grep -v /integration) # the longest first

# The FoundationDB adapter with the real Go bindings over a test double of the C client: its header, and an archive
# without contents where the linker looks for the library. Variables of cgo would have all packages that use it, and
# all that import these, compiled again.
FDBC := $(CURDIR)/adapters/fdb/fdbctest
FDBC_LIB := $(CURDIR)/bin/fdbctest
FDBC_ENV := C_INCLUDE_PATH=$(FDBC)/include LIBRARY_PATH=$(FDBC_LIB)

test-fdb: $(FDBC_LIB)/libfdb_c.a ## the FoundationDB adapter over a test double; also on a real cluster when FDB_CLUSTER_FILE names one
	$(FDBC_ENV) $(GO) test -race -tags fdb,fdbctest ./adapters/fdb/...
	$(FDBC_ENV) $(GO) test -tags fdb,fdbctest -parallel 6 ./cmd/couchrelay
	$(FDBC_ENV) $(GO) test -tags fdb,fdbctest ./core/jobs -rapid.checks=30
	$(BUGGIFY) $(FDBC_ENV) $(GO) test -tags fdb,fdbctest -skip '$(EXACT)' ./core/jobs
	@if [ -n "$$FDB_CLUSTER_FILE" ]; then $(MAKE) test-fdb-real; else \
		echo "SKIPPED: no tests on a real FoundationDB cluster; set FDB_CLUSTER_FILE (and CGO_CFLAGS, CGO_LDFLAGS where the client is not installed)"; fi

# A client library brings faults of its own: these make it slow, conflict and lose answers. The client chooses once
# which of its places inject any: below 100 % of them a whole run may be without a fault.
BUGGIFY := FDB_NETWORK_OPTION_CLIENT_BUGGIFY_ENABLE= FDB_NETWORK_OPTION_CLIENT_BUGGIFY_SECTION_ACTIVATED_PROBABILITY=100 \
	FDB_NETWORK_OPTION_CLIENT_BUGGIFY_SECTION_FIRED_PROBABILITY=10

# These tests of core/jobs know what each operation answers; repeated after an unknown result, it answers otherwise.
EXACT := ^(TestModel|TestTally|TestMovesWithout)$$

FDB_REAL := $(GO) test -count=1 -timeout 20m -tags fdb ./adapters/fdb/... ./cmd/couchrelay ./core/jobs

test-fdb-real: ## the same on the cluster of FDB_CLUSTER_FILE, then again with the client's fault injection
	$(FDB_REAL)
	$(BUGGIFY) $(FDB_REAL) -skip '$(EXACT)'

# On the real cluster where there is one; then the environment says where its client is.
FDB_ANY = $(if $(FDB_CLUSTER_FILE),,$(FDBC_ENV)) $(GO) test -count=1 -timeout 60m -tags $(if $(FDB_CLUSTER_FILE),fdb,fdb$(comma)fdbctest)
comma := ,

PROGRAMS ?= 20000
fdb-diff: $(FDBC_LIB)/libfdb_c.a ## compare the stores on PROGRAMS (20000) random programs of transactions
	$(FDB_ANY) ./adapters/fdb -run TestPrograms -v -rapid.checks=$(PROGRAMS)

bench-fdb: $(FDBC_LIB)/libfdb_c.a ## documents and jobs per second, conflicts per accept, commits per second on FoundationDB
	$(FDB_ANY) ./adapters/fdb -run '^$$' -bench . -benchtime 1000x

$(FDBC_LIB)/libfdb_c.a:
	mkdir -p $(FDBC_LIB) && ar rc $@

integration: $(PEER)/node_modules/.package-lock.json
	$(GO) test -count=1 -parallel 4 ./$(PEER)/ $(RECORD) # they mostly wait

record-couchdb: ## record the answers of the CouchDB of COUCHDB_URL, which couchrelay's are compared with
	@test -n "$$COUCHDB_URL" || { echo "COUCHDB_URL must be http://ADMIN:PASSWORD@HOST:5984 of a CouchDB"; exit 1; }
	$(GO) test -count=1 -timeout 20m -v -run TestAsCouchDB ./$(PEER) -record

$(PEER)/node_modules/.package-lock.json: $(PEER)/package-lock.json
	cd $(PEER) && npm ci --omit=optional

dist: ## what is published: archives for Linux and macOS, Debian and RPM packages, checksums
	packaging/dist.sh

test-dist: ## install the Debian package on a copy of this system that is thrown away; needs root, or is skipped
	$(GO) test -count=1 -v ./packaging

# The sets of build tags that each select other files; internal/lint knows when one is missing here.
TAGS := fdb fdb,fdbctest
TAGGED = $(sort $(addprefix ./,$(dir $(shell git grep -l '^//go:build.*fdb' -- '*.go')))) # all others are as without tags

lint: $(FDBC_LIB)/libfdb_c.a ## formatting, vet and staticcheck with every set of build tags, and the rules of internal/lint
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./... && cd $(PEER)/kivik && $(GO) vet ./... && cd ../prometheus && $(GO) vet ./...
	$(SPARE) $(GO) tool staticcheck ./...
	@for tags in $(TAGS); do echo "vet and staticcheck with -tags $$tags" && \
		$(FDBC_ENV) $(GO) vet -tags $$tags $(TAGGED) && $(SPARE) $(FDBC_ENV) $(GO) tool staticcheck -tags $$tags $(TAGGED) || exit 1; done
	$(GO) test -count=1 ./internal/lint

fmt: ## format all code
	gofmt -w $$(git ls-files '*.go')

bench: ## rates and memory, as ratios against a baseline in the same run
	$(GO) test -run '^$$' -bench 'BenchmarkReplication|BenchmarkAttached|BenchmarkHugeAttachment' -benchtime 3x ./cmd/couchrelay ./adapters/couch
	$(GO) test -run '^$$' -bench 'BenchmarkDistance|BenchmarkSlowLine|BenchmarkShortRun' -benchtime 1x ./cmd/couchrelay
	$(GO) test -run '^$$' -bench 'BenchmarkCommit|BenchmarkQueueHead|BenchmarkJobs' ./adapters/embedded
	$(GO) test -run '^$$' -bench 'BenchmarkBackup' -benchtime 3x ./adapters/archive
	$(GO) test -run '^$$' -bench 'BenchmarkCheck' -benchtime 1x ./adapters/embedded
	$(GO) test -run '^$$' -bench 'BenchmarkSealed' -benchtime 10x ./adapters/seal
	$(GO) test -run '^$$' -bench 'BenchmarkVerify' -benchtime 2x ./adapters/verify
	$(GO) test -run '^$$' -bench 'BenchmarkLists|BenchmarkAdds|BenchmarkSteps' -benchtime 20x ./adapters/embedded
	$(GO) test -run '^$$' -bench 'BenchmarkScrape' -benchtime 100x ./adapters/web/relay -jobs 1000000
	$(GO) test -run '^$$' -bench 'BenchmarkCrowd' -benchtime 20x ./core/node
	$(GO) test -run '^$$' -bench 'BenchmarkBulk' -benchtime 100x ./core/kv/resolver
	$(GO) test -run '^$$' -bench 'BenchmarkMetered' -benchtime 20x ./adapters/metrics
	$(GO) test -run '^$$' -bench 'BenchmarkDeletion' -benchtime 1x ./adapters/embedded -jobs 100000
	GOGC=600 $(GO) test -run '^$$' -bench . -benchtime 1x ./sim/campaign ./sim/lab

COUNT ?= 6
BENCH ?= BenchmarkReplication|BenchmarkAttached|BenchmarkDistance|BenchmarkSlowLine|BenchmarkShortRun|BenchmarkHugeAttachment
bench-compare: ## what became slower since OLD (HEAD~1), a commit: COUNT (6) turns of BENCH, with 95 % intervals
	internal/bench/compare.sh "$(OLD)" "$(COUNT)" '$(BENCH)'

traces: ## draw what a run's window does at its start, a jump of latency, 429, and beside another run, into bin/traces
	$(GO) run ./internal/traces core/replication/testdata/traces bin/traces

SIMTIME ?= 60s
sim: ## simulations: the simulator's tests, all scenarios, new worlds for SIMTIME (60s), each of them twice
	$(SPARE) $(GO) test -timeout 20m ./sim/... ./scenarios/... ./cmd/couchsim/...
	$(GO) run ./cmd/couchsim run --seed 50 --seeds 1000 --duration $(SIMTIME) --twice # the first fifty are in scenarios

played: ## record how the first fifty seeds are played, after a change that was meant to alter it
	$(GO) test ./scenarios -run TestPlayed -update

OLD ?= HEAD~1
SEED ?= 1
part: ## the first event of SEED (1) that is not as in OLD (HEAD~1), a commit
	rm -rf bin/part && mkdir -p bin/part && git archive $(OLD) | tar -x -C bin/part
	cd bin/part && $(GO) build -buildvcs=false -o ../couchsim-part ./cmd/couchsim && rm -rf ../part
	$(GO) run ./cmd/couchsim determinism --seed $(SEED) --seeds 1 --with bin/couchsim-part

EXPERIMENT ?= scenarios/research/quick.ini
sweep: ## play EXPERIMENT (scenarios/research/quick.ini), and compute its results once more; needs them to have the same bytes
	$(GO) build -o bin/ ./cmd/couchsim
	mkdir -p bin/sweep
	bin/couchsim sweep $(EXPERIMENT) --restart -o bin/sweep/results.jsonl
	bin/couchsim reproduce bin/sweep/results.jsonl

campaign: ## 100,000 worlds of the small profile, and which faults came up and mattered in 1,000 of them
	$(GO) run ./cmd/couchsim run --seeds 100000 --stop 20
	$(GO) run ./cmd/couchsim faults --report --seeds 1000

SEEDS ?= 10000
marks: ## play SEEDS (10000) seeds and tell which rare places of the core they reached; fails when one was not
	rm -rf bin/marks && mkdir -p bin/marks
	$(GO) build -cover -covermode=count -coverpkg=./core/...,./cmd/couchsim -o bin/couchsim-marks ./cmd/couchsim
	GOCOVERDIR=bin/marks bin/couchsim-marks run --seeds $(SEEDS) --stop 0
	$(GO) tool covdata textfmt -i bin/marks -o bin/marks.txt
	$(GO) run ./cmd/couchsim marks bin/marks.txt

# Bugs that are planted one at a time in a copy of couchsim: MUTANTS names some, MUTANT_SEEDS bounds the seeds for each.
MUTANT_SEEDS ?= 10000
mutants: ## the seeds that the simulator needs to find each of the bugs in sim/mutants, into its table; takes half an hour
	$(GO) run ./cmd/couchsim mutants --seeds $(MUTANT_SEEDS) --table sim/mutants/caught.txt $(MUTANTS)

mutants-quick: ## the same with 25 seeds for each; exit status 1, since some need more
	$(GO) run ./cmd/couchsim mutants --seeds 25 $(MUTANTS)

mutants-verify: ## whether the seeds that the table names still find the bugs; others are played where they do not
	$(GO) run ./cmd/couchsim mutants --seeds $(MUTANT_SEEDS) --verify $(MUTANTS)

ARM64_SEEDS ?= 30
arm64: ## whether seeds end alike on amd64 and on arm64, which needs qemu-aarch64
	GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o bin/couchsim-arm64 ./cmd/couchsim
	qemu-aarch64 bin/couchsim-arm64 run --seeds $(ARM64_SEEDS) --hashes bin/arm64.hashes
	$(GO) run ./cmd/couchsim run --seeds $(ARM64_SEEDS) --hashes bin/amd64.hashes
	cmp bin/amd64.hashes bin/arm64.hashes

FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME (10s)
	@for target in $$($(GO) test -list '^Fuzz' ./fuzz | grep ^Fuzz); do \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s ./fuzz || exit 1; done
	$(GO) test -run '^$$' -fuzz '^FuzzOpen$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 2s ./adapters/seal
	$(GO) test -run '^$$' -fuzz '^FuzzDocument$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 2s ./core/follow

# Some mutants append for ever: the limit ends them before the machine's memory does.
mutation: ## how much deliberate damage to the pure packages their tests notice
	ulimit -v 4000000; $(GO) run ./fuzz/mutation core/repid core/backoff core/checkpoint core/kv/tuple

SAMPLE ?= 300
mutation-core: ## how much damage to SAMPLE (300) random places of the core tests and simulator notice; goes on where it was ended
	$(GO) run ./fuzz/mutagen -sample $(SAMPLE) -seed $(SEED) $(MUTAGEN)
