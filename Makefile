# The stable names of everyday work. Each is a thin call: logic lives in scripts/ and CMake.
MAKEFLAGS += --no-print-directory

.PHONY: help build demo test laws bench fleet conformance soak fuzz docs sanitize format clean

help:
	@echo "make build        set up, compile into build/release, install the package into .venv"
	@echo "make demo         a small run to look at"
	@echo "make test         every test but the long ones; ends in 'N passed, N failed'"
	@echo "make laws         the experiments behind the laws of the engine"
	@echo "make bench        benchmarks"
	@echo "make fleet        the wire between hosts, in network namespaces (root)"
	@echo "make conformance  torch's own suite against our back end"
	@echo "make soak         long runs with faults"
	@echo "make fuzz         the fuzz targets, a minute each"
	@echo "make sanitize     the C++ tests under asan+ubsan and under tsan"
	@echo "make docs         the generated pages under docs/"
	@echo "make format       clang-format on every C++ file"
	@echo "make clean        remove build trees (.venv stays)"

# $(call need,PATH): a target whose script is not written says so and fails.
define need
	@test -e $(1) || { echo "make $@: $(1) does not exist yet" >&2; exit 1; }
endef

build:
	@scripts/build.sh

test: build
	@python3 scripts/run_tests.py

demo:
	@scripts/build.sh mccl_torch all_reduce_example
	@scripts/demo.sh

laws:
	$(call need,scripts/laws.sh)
	@$(MAKE) build
	@scripts/laws.sh

bench:
	$(call need,scripts/bench.sh)
	@$(MAKE) build
	@scripts/bench.sh

fleet:
	$(call need,scripts/fleet.sh)
	@$(MAKE) build
	@scripts/fleet.sh

conformance:
	$(call need,scripts/conformance.sh)
	@$(MAKE) build
	@scripts/conformance.sh

soak:
	$(call need,scripts/soak.sh)
	@$(MAKE) build
	@scripts/soak.sh

fuzz:
	$(call need,test/fuzz/CMakeLists.txt)
	@scripts/fuzz.sh

docs: build
	@scripts/docs.sh

sanitize:
	@scripts/sanitize.sh asan-ubsan tsan

format:
	@scripts/format.sh

clean:
	rm -rf build dist
