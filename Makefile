# Everything a person or a machine runs. Needs Go alone; the linter is built into bin/ when first asked for.
GO      ?= go
LINT    := bin/golangci-lint
KAFKA   := bin/kafka
LINT_V  := v2.10.1
VULN    := bin/govulncheck
VULN_V  := v1.1.4
EXPORTER   := bin/node_exporter
EXPORTER_V := v1.9.1

.PHONY: build build-static build-sql up test test-full check test-browser test-sql test-kafka hostile hostile-kafka kafka-up kafka-down kafka-program lint vuln release man fmt fuzz fuzz-nightly fuzz-keep bench accuracy bench-archive bench-takeover bench-soak bench-agent bench-limits perturbation perturbation-program synchrony outside outside-spark test-containers test-slurm

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/weir .

# The same without GPUs, for hosts without glibc: bin/weir loads NVIDIA's library, and is linked dynamically for that.
build-static:
	CGO_ENABLED=0 $(GO) build -trimpath -tags static -ldflags '-s -w' -o bin/weir-static .

# The agent alone, for compute nodes: weir agent without the rest of weir.
.PHONY: build-agent
build-agent:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/weir-agent ./commands/agent/weir-agent

# weir-sql has DuckDB inside, and so needs cgo: gcc and g++. It is static all the same. The linker warns of names of users
# and hosts, which no query of the archive needs.
build-sql:
	cd sql && CGO_ENABLED=1 $(GO) build -trimpath -tags netgo,osusergo \
		-ldflags '-s -w -linkmode external -extldflags "-static"' -o ../bin/weir-sql .

# A month of a made-up machine with planted problems, below demo/, and the reports that lead to them: docs/tour.md goes
# through them. Needs no broker. Two cores take a minute and a half.
.PHONY: demo demo-pictures
demo: build
	integration/demo/run bin/weir demo

# The pictures of docs/tour.md, from what make demo made. Needs Chromium.
demo-pictures:
	integration/demo/pictures demo docs/tour

up: build
	bin/weir up

# What a person relies on, between two edits: every package, with few random cases, and without the scenarios that take
# long or wait. Packages that start no goroutine run without the race detector, which makes them eight times slower and
# finds nothing in them; the tag short gives them few cases too. Go remembers packages that passed, and runs them again
# once they or the files that they read change. It does not see the pages that tests of commands read from the root, so
# these run each time. A C compiler links the race detector: if go finds none, nothing watches for races, and make test
# says so.
PURE   := ./analysis/like ./balancer/assign ./config/sizing ./quantile ./report/page ./rules ./schemas ./selection \
	./selection/study ./sink/compact ./sink/totals $(addprefix ./topology/discovery/,discover network schedule simulated study)
RACE    = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
NO_RACE = $(if $(RACE),,echo 'NO RACE WAS LOOKED FOR: THERE IS NO C COMPILER (apt-get install gcc)' >&2)
RACED   = $(filter-out $(PURE),$(patsubst github.com/weirhpc/weir%,.%,$(shell $(GO) list ./...)))
test:
	@$(NO_RACE)
	$(GO) test $(RACE) -short -timeout 20m $(filter-out ./commands%,$(RACED))
	$(GO) test $(RACE) -short -count=1 -timeout 20m $(filter ./commands%,$(RACED))
	$(GO) test -short -tags short -timeout 20m $(PURE)
	@echo "$$(grep -rhF --include='*_test.go' 't.Skip("make test-full runs it")' . | wc -l) tests were left out, and others tried" \
		'few cases: make test-full runs all of them'
	@$(NO_RACE)

# All of them in full numbers. The race detector makes pure code eight times slower and finds nothing in it: few of its
# random cases run under it, and all of them without it. TestThinnedTestsRunInFull says which. A scenario takes its time
# from clocks: the short ones run under the detector, all of them without it, and once more under it in make test-kafka.
FOLDS := TestSimulated|TestJobTable|TestHonestOwners|TestAccountsClose|TestHostileInputs|TestLoadsFit|TestFinderSurvives
PLANS := TestRouteOfVery|TestTicksOfMany|TestAdmitRemembers|TestParseJobsRefuses
FILES := TestFlippedByte|Crashes$$|TestRowsAreAsSizeSays|TestFootersTakeLittleMemory
HOST  := TestOffsetIsWithin|TestNVMLAllocates
STUDY := TestStudyInShort
ASKED := TestWhoMayLook|TestOthersMakeNoDifference|TestTenThousandEnds
WIDE  := TestSelectionExample|TestMetricsDriftArchive|TestCompare$$
RUNS  := ./kafka ./processors/fold ./processors/find ./balancer ./balancer/scheduler ./sink ./producers ./producers/source \
	./commands/metrics ./commands/jobs ./notify ./selection/study ./topology/discovery/study
ALL   := ./topology/discovery/network ./schemas ./quantile ./rules ./sink/compact ./sink/findings ./sink/jobs ./sink/table ./sink/totals ./simulate
test-full:
	$(GO) test -race -count=1 -timeout 20m $$($(GO) list ./... | grep -v '/integration$$')
	$(GO) test -race -short -count=1 -timeout 10m ./integration
	$(GO) test -count=1 -timeout 20m ./integration
	$(GO) test -count=1 -timeout 10m -run '$(FOLDS)|$(PLANS)|$(FILES)|$(HOST)|$(WIDE)|$(STUDY)|$(ASKED)' $(RUNS)
	$(GO) test -count=1 -timeout 10m $(ALL)

# All that must pass before a change lands: half an hour on two cores. The script says what it needs.
check:
	.ci/run

# The Python modules by which TestOutsideReader reads what weir writes. Needs python3 (3.11) with pip or venv; where it is
# missing, that test says so and is skipped.
outside:
	integration/outside/install bin/outside

# Spark, for one program of docs/queries.md: 450 MB. Needs Java 17 too; without it that program is skipped, and says so.
outside-spark:
	integration/outside/install bin/outside-spark requirements-spark.txt

# The module of weir-sql. It is linked with DuckDB, which takes a minute at first.
test-sql:
	cd sql && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -count=1 -timeout 10m ./...

# Chromium looks at the HTML pages: light, dark, narrow, printed. Needs a Chromium, and says so in capitals without one.
test-browser:
	cd integration/browser && $(GO) test -count=1 -v -timeout 15m ./...

# The same scenarios on three Kafka brokers in containers, and weir's DEB on a minimal Debian: four minutes. It starts an
# engine of its own, makes the images from Debian's packages, and leaves no process behind. Needs root, Debian's docker.io
# and debootstrap, Java 17 and mvn. Without these it is skipped, and says so; with REQUIRE_CONTAINERS=1 it fails.
test-containers: kafka-program bin/nfpm
	cd integration/containers && $(GO) test -count=1 -v -timeout 20m ./...

# The same scenarios on a real three-broker Kafka, which is fetched with Maven and started on free loopback ports. Needs
# Java 17 and mvn. A broker that a test ends stays away for longer than the others wait for it. Before them, a broker is
# cut from its peers for a minute, while clients still reach it: two minutes.
test-kafka: kafka-program
	-$(MAKE) outside
	$(KAFKA) run --cut -- $(GO) test -count=1 -timeout 6m -v -run 'TestDeposedLeader$$' ./integration
	exec $(KAFKA) run --restart-after 15s -- $(GO) test -race -count=1 -timeout 25m ./integration

# Hostile input to a live installation, on the embedded broker, and one job, node or file that tries to spoil the others:
# four and a half minutes.
HOSTILE := $(GO) test -count=1 -timeout 15m -v -run 'TestHostile$$|TestTrust$$' ./integration -hostile.for=60s -trust
hostile:
	$(HOSTILE)

# The same on three Kafka brokers. Needs Java 17 and mvn: where they are missing, it says so and does nothing.
hostile-kafka:
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ echo "HOSTILE INPUT SKIPPED ON KAFKA: java or mvn is missing" >&2; exit 0; }; \
	$(MAKE) kafka-program && $(KAFKA) run -- $(HOSTILE)

# An application with a known bottleneck under weir up: the selection of metrics names it. A minute.
.PHONY: test-selection
test-selection:
	$(GO) test -count=1 -timeout 10m -v -run 'TestBottleneck$$' ./integration -bottleneck

# A cluster of 64 network namespaces at 8 bridges: weir topology measure finds the bridges. In one of 16 at 4, weir runs:
# its agents measure, and the balancer places jobs by the tree. Needs root and iproute2, and says so in capitals where
# they are missing. A quiet machine takes a minute and a half.
.PHONY: test-topology
test-topology:
	$(GO) test -count=1 -timeout 10m -v -run 'TestNamespaces$$|TestCircle$$' ./integration -namespaces

# The worked example of docs/selection.md, below selection-example/: observations of a made-up application, what weir
# selects, and what other methods select. Ten seconds.
.PHONY: selection-example
selection-example: build
	mkdir -p selection-example
	$(GO) run ./selection/study/example >selection-example/run.csv
	bin/weir metrics select --from selection-example/run.csv --response y --out selection-example/metrics.yaml \
		--report selection-example >/dev/null
	bin/weir metrics compare --from selection-example/run.csv --response y --model linear \
		--report selection-example >/dev/null
	sed '/^For coverage/,$$d' selection-example/report.txt
	sed '/^Figure/,$$d' selection-example/comparison.txt

# Jobs of a real Slurm, all of it on this machine. Needs root and Debian's slurmctld, slurmd, slurm-client and munge.
test-slurm:
	REQUIRE_SLURM=1 $(GO) test -count=1 -timeout 5m -v -run 'TestSlurm$$' ./integration
	$(GO) test -count=1 -v -run 'TestHostlistsAsScontrol$$' ./topology

kafka-up: kafka-program
	$(KAFKA) up

kafka-down: kafka-program
	$(KAFKA) down

kafka-program:
	$(GO) build -o $(KAFKA) ./integration/kafka

lint: $(LINT)
	$(LINT) run --allow-parallel-runners
	@! $(LINT) fmt --diff | grep . || { echo 'not formatted: make fmt'; exit 1; }
	$(GO) vet -tags static ./producers/source
	$(GO) mod tidy -diff
	cd integration/browser && $(GO) mod tidy -diff && $(GO) vet ./...
	cd integration/containers && $(GO) mod tidy -diff && $(GO) vet ./...
	@! grep -rn --include='*.go' '"failed to' . || { echo 'say what was done, not that it failed: "reading x: %w"'; exit 1; }

fmt: $(LINT)
	$(LINT) fmt

# Known holes in what weir calls. Needs https://vuln.go.dev, and govulncheck from the module proxy: where either cannot be
# reached, it says so and checks nothing.
vuln:
	@$(MAKE) -s $(VULN) || { echo "VULNERABILITIES NOT CHECKED: GOVULNCHECK CANNOT BE FETCHED" >&2; exit 0; }; \
	status=0; out=$$($(VULN) ./... 2>&1) || status=$$?; printf '%s\n' "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) \
		echo "VULNERABILITIES NOT CHECKED: THE DATABASE CANNOT BE REACHED" >&2; exit 0;; esac; exit $$status

# The manual pages in bin/man1; to read one: man -l bin/man1/weir-up.1
man:
	$(GO) run . man bin/man1

# DEB and RPM for both architectures, in dist/, from the tree as it is. make release has them too.
NFPM       := bin/nfpm
NFPM_V     := v2.45.2
SBOM       := bin/cyclonedx-gomod
SBOM_V     := v1.10.0
.PHONY: packages test-packages
packages: $(NFPM)
	mkdir -p dist
	deploy/packages/build dist $(NFPM)

# Packages for this machine's architecture are installed, upgraded and removed on a host that is thrown away. Needs root.
test-packages: $(NFPM)
	integration/host/packages $(NFPM)

# The commands of docs/deploy.md, "First installation", on such a host. Needs root, Java 17 and mvn.
.PHONY: test-install
test-install: $(NFPM) kafka-program
	$(KAFKA) run -- integration/host/install $(NFPM)

$(NFPM):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_V)

$(SBOM):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(SBOM_V)

# promtool checks the alerts, and tries them on made-up series. It takes minutes to build, so .ci/run leaves it out.
PROMTOOL   := bin/promtool
PROMTOOL_V := v0.316.0
.PHONY: test-alerts
test-alerts: $(PROMTOOL)
	$(PROMTOOL) check rules deploy/prometheus/weir.rules.yaml
	$(PROMTOOL) test rules deploy/prometheus/weir.test.yaml

$(PROMTOOL):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/prometheus/prometheus/cmd/promtool@$(PROMTOOL_V)

# What is published, in dist/: a binary for each architecture and its static variant, which reads no GPUs, the modules in
# them with their hashes, the manual pages, the packages, a software bill of materials, and checksums.
# The same commit and Go give the same bytes. A tree with changes is refused, since no commit would have these bytes.
release: $(NFPM)
	@test -z "$$(git status --porcelain)" || { echo 'commit first: a release is built from a commit' >&2; exit 1; }
	rm -rf dist && mkdir dist
	set -e; for arch in amd64 arm64; do for tag in '' static; do \
		binary=weir_linux_$$arch$${tag:+_$$tag}; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=true -tags "$$tag" -ldflags '-s -w -buildid=' \
			-o dist/$$binary .; \
		(cd dist && $(GO) version -m $$binary) >dist/$$binary.modules.txt; \
	done; done
	@grep -q vcs.revision dist/weir_linux_arm64.modules.txt || \
		{ echo 'the binaries do not name their commit: run this in a clone, not in a work tree of git' >&2; exit 1; }
	set -e; export TZ=UTC SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); \
		$(GO) run . man dist/man1; \
		tar -C dist --sort=name --mtime=@$$SOURCE_DATE_EPOCH --owner=0 --group=0 --numeric-owner \
			--mode='u=rwX,go=rX' -cf dist/weir_man.tar man1; \
		rm -r dist/man1
	cd dist && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) ../deploy/packages/build . ../$(NFPM) >/dev/null
	$(MAKE) -s $(SBOM) && $(SBOM) mod -licenses -json -output dist/weir_sbom.json || \
		{ echo "NO LIST OF MODULES: CYCLONEDX-GOMOD CANNOT BE FETCHED" >&2; exit 1; }
	cd dist && sha256sum weir_* weir-* >SHA256SUMS

# Every fuzz test there is, for this long each. What fails is kept in testdata by itself; fuzz-keep adds some of what
# widened the coverage.
FUZZTIME ?= 30s
fuzz:
	@integration/fuzz/run $(FUZZTIME)

# Two hours each are more than a night for all of them on one machine: make fuzz-nightly FUZZTIME=10m takes seven hours.
fuzz-nightly: FUZZTIME = 2h
fuzz-nightly: fuzz

fuzz-keep:
	@integration/fuzz/run keep

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Measures what docs/accuracy.md states and writes its tables and its picture anew, then runs the other properties on their
# full number of cases. Ends with an error where a goal does not hold.
accuracy:
	$(GO) test -count=1 -timeout 20m ./quantile -args -full -seed 1

# Measures the goals of metric selection on made-up and on recorded data, and writes the table of docs/selection.md anew.
# Ends with an error where a goal does not hold.
.PHONY: selection-study
selection-study:
	$(GO) test -c -o bin/selection-study.test ./selection/study
	cd selection/study && $(CURDIR)/bin/selection-study.test -test.run 'TestStudy$$' -test.v -test.timeout 40m -full

# Measures the goals of topology discovery on the thesis's tables and on made-up networks, with fixed seeds, and writes the
# tables of docs/topology.md anew. Ends with an error where a goal does not hold.
.PHONY: topology-study
topology-study:
	$(GO) test -c -o bin/topology-study.test ./topology/discovery/study
	cd topology/discovery/study && $(CURDIR)/bin/topology-study.test -test.run 'TestStudy$$' -test.v -test.timeout 60m -full

# How the cost of an interval grows, five minutes on a quiet machine. It writes the tables of docs/performance.md and
# config/sizing/growth.json, from which weir size computes. Ends with an error where a goal does not hold.
.PHONY: bench-growth
bench-growth:
	$(GO) test -count=1 -timeout 30m -v -run 'TestGrowth$$' ./processors/fold -growth
	$(GO) test -count=1 -run 'TestSizePage$$' ./commands/admin -update

# The table of docs/queries.md: a made-up year, of 2 GB, and DuckDB on it. A quiet machine, please.
bench-archive: build outside
	PYTHONPATH=bin/outside python3 integration/outside/bench.py bin/weir
	$(GO) test -run '^$$' -bench BenchmarkSeries ./analysis/archive

# The tables of docs/operations.md. A quiet machine, please. Each is run on the embedded broker and on three of Kafka's.
bench-takeover: kafka-program
	status=0; \
	$(GO) test -count=1 -timeout 20m -v -run 'TestTakeover$$' ./integration -takeover || status=1; \
	$(KAFKA) run -- $(GO) test -count=1 -timeout 20m -v -run 'TestTakeover$$' ./integration -takeover || status=1; \
	exit $$status

# The tables of docs/synchrony.md: two minutes each on the embedded broker and, where Java and Maven are, on three of
# Kafka's. A quiet machine, please.
SYNCHRONY := $(GO) test -count=1 -timeout 10m -v -run 'TestSynchrony$$' ./integration -synchrony
synchrony:
	$(SYNCHRONY)
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ echo "SYNCHRONY NOT MEASURED ON KAFKA: java or mvn is missing" >&2; exit 0; }; \
	$(MAKE) kafka-program && $(KAFKA) run -- $(SYNCHRONY)

# The tables of docs/performance.md: an interval of SuperMUC from the first record to the last summary, on the embedded
# broker, and where Java and Maven are, on one and on three of Kafka's. A quiet machine, please: 20 minutes.
.PHONY: bench-interval
INTERVAL := $(GO) test -count=1 -timeout 20m -v -run 'TestInterval$$' ./integration -interval \
	-interval.json $(CURDIR)/integration/testdata/interval.jsonl
bench-interval:
	rm -f integration/testdata/interval.jsonl
	$(INTERVAL)
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ echo "INTERVAL NOT MEASURED ON KAFKA: java or mvn is missing" >&2; exit 0; }; \
	$(MAKE) kafka-program && $(KAFKA) run --measure --brokers 1 -- $(INTERVAL) -interval.warm 60s && \
	$(KAFKA) run --measure -- $(INTERVAL) -interval.warm 60s
	$(GO) test -count=1 -run 'TestIntervalTables$$' ./integration -interval.write

# One, two and four collect processes on the same backlog, for docs/performance.md: six minutes on a quiet machine.
.PHONY: bench-scaleout
SCALEOUT := $(GO) test -count=1 -timeout 10m -v -run 'TestScaleOut$$' ./integration -scaleout
bench-scaleout:
	$(SCALEOUT)
	@command -v java >/dev/null && command -v mvn >/dev/null || \
		{ echo "SCALE-OUT NOT MEASURED ON KAFKA: java or mvn is missing" >&2; exit 0; }; \
	$(MAKE) kafka-program && $(KAFKA) run --measure -- $(SCALEOUT)

# On the embedded broker; with bin/kafka run -- make bench-soak on Kafka.
SOAK    ?= 30m
bench-soak:
	$(GO) test -count=1 -timeout 0 -v -run 'TestSoak$$' ./integration -soak.for=$(SOAK)

# What docs/overhead.md states. A quiet machine, please: other programs are noise. The first takes ten minutes, with
# PERTURBATION=-quick 90 seconds; the second 70 seconds; the third, which needs root and cgroup v1, six minutes.
# make bench-agent measures bin/weir-agent, and with AGENT= bin/weir. LIST=metrics.yaml measures one agent with that list; without it, one that measures what is in use alone.
PERTURBATION ?=
LIST ?=
AGENT ?= bin/weir-agent
perturbation: build perturbation-program
	bin/perturbation perturb -exporter $(EXPORTER) $(PERTURBATION)

bench-agent: build build-agent perturbation-program
	bin/perturbation cost -exporter $(EXPORTER) -list '$(LIST)' -agent '$(AGENT)' $(PERTURBATION)

bench-limits: perturbation-program
	bin/perturbation limits $(PERTURBATION)

# node_exporter is measured beside. Where the module proxy does not have it, the program says so and leaves it out.
perturbation-program:
	$(GO) build -o bin/perturbation ./integration/perturbation
	@test -x $(EXPORTER) || GOBIN=$(CURDIR)/bin $(GO) install github.com/prometheus/node_exporter@$(EXPORTER_V) || true

$(VULN):
	GOBIN=$(CURDIR)/bin $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULN_V)

$(LINT):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_V)
