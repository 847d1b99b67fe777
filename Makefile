# make         format, vet, unit tests: the loop while writing
# make test    all that CI runs
# make bench   the table of measured ratios against other libraries
# make fuzz    each fuzz target for FUZZTIME
# make lint    staticcheck and golangci-lint
# make cover   coverage, and the functions that lack some
# make api     write the golden files of the exported API anew
# make clean   remove built tools and logs
.PHONY: all fmt vet unit test bench fuzz lint cover api clean

FUZZTIME ?= 30s

all: fmt vet unit

fmt vet unit cover:
	@tools/run $@

test:
	@tools/test

bench:
	@cd bench && GOWORK=off go run ./cmd/ratios $(BENCHFLAGS)

fuzz:
	@tools/run fuzz $(FUZZTIME)

lint:
	@tools/run staticcheck
	@tools/run lint

api:
	@tools/run api -write

clean:
	@rm -rf .cache
