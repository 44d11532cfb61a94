# Everything a person or a machine runs. Needs Go alone; the linter is built into bin/ when first asked for.
GO      ?= go
LINT    := bin/golangci-lint
KAFKA   := bin/kafka
LINT_V  := v2.10.1

.PHONY: build up test test-kafka kafka-up kafka-down kafka-program lint fmt fuzz bench

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/weir .

up: build
	bin/weir up

test:
	$(GO) test -race -count=1 -timeout 5m ./...

# The same scenarios on a real three-broker Kafka, which is fetched with Maven and started on free loopback ports. Needs
# Java 17 and mvn.
test-kafka: kafka-program
	exec $(KAFKA) run -- $(GO) test -race -count=1 -timeout 15m ./integration

kafka-up: kafka-program
	$(KAFKA) up

kafka-down: kafka-program
	$(KAFKA) down

kafka-program:
	$(GO) build -o $(KAFKA) ./integration/kafka

lint: $(LINT)
	$(LINT) run
	@! $(LINT) fmt --diff | grep . || { echo 'not formatted: make fmt'; exit 1; }
	$(GO) mod tidy -diff
	@! grep -rn --include='*.go' '"failed to' . || { echo 'say what was done, not that it failed: "reading x: %w"'; exit 1; }

fmt: $(LINT)
	$(LINT) fmt

fuzz:
	$(GO) test ./schemas -run '^$$' -fuzz FuzzUnmarshal -fuzztime 30s

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

$(LINT):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_V)
