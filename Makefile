# make         format, vet, unit tests: the loop while writing
# make test    all that CI runs
# make bench   the table of measured ratios against other libraries
.PHONY: all fmt vet unit test bench fuzz lint cover api clean

FUZZTIME ?= 30s
export CGO_ENABLED ?= 1

all: fmt vet unit

fmt:
	@tools/run fmt

vet:
	@tools/run vet

unit:
	@tools/run unit

test:
	@tools/test

bench:
	@cd bench && go run ./cmd/ratios $(BENCHFLAGS)

fuzz:
	@tools/run fuzz $(FUZZTIME)

lint:
	@tools/run staticcheck
	@tools/run lint

cover:
	@tools/run cover

api:
	@tools/run api -write

clean:
	@rm -rf .cache
