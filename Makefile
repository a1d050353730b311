# Two commands do everything on a fresh Debian-like machine: `make serve` and `make test`.
# The work is CMake's; this file only strings the steps together.

BUILD   ?= build
PORT    ?= 8080
MODEL   ?=
JOBS    ?= $(shell nproc)
CMAKE_ARGS ?=

.PHONY: help serve test yardstick evidence stage-evidence build llama-server bench-families bench-replay results deps configure models quick bench clean

.DEFAULT_GOAL := help

help:
	@echo "make serve         build, fetch a small model, serve it and show a cached second answer"
	@echo "make test          build and run all tests"
	@echo "make yardstick     llama.cpp's own server tests against our server (a minute)"
	@echo "make evidence      certify a model of every family, write docs/evidence (a quarter of an hour)"
	@echo "make stage-evidence cut a model of every family into stages, write docs/evidence/stages.md (a quarter of an hour, 26 GB of disk)"
	@echo "make quick         the core, engine and simulator on the fake runtime (seconds)"
	@echo "make build         $(BUILD)/skippy only"
	@echo "make llama-server  the reference server of the same llama.cpp build: $(BUILD)/llama-server"
	@echo "make bench-families  the production table against llama-server: a model of every family (about an hour)"
	@echo "make bench-replay  hit rates against cache sizes (ten minutes)"
	@echo "make results       README, docs/evidence and docs/charts from the stored results"
	@echo "make bench         the microbenchmarks of the cache core"
	@echo "GPU builds: make build CMAKE_ARGS='-DGGML_CUDA=ON' (any ggml option passes through)"

deps:
	@tools/install_deps.sh

configure: deps
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_ARGS) > $(BUILD).configure.log 2>&1 \
	  || { tail -40 $(BUILD).configure.log; exit 1; }

build: configure
	cmake --build $(BUILD) -j $(JOBS) --target skippy

llama-server: configure
	cmake --build $(BUILD) -j $(JOBS) --target reference-server

models: deps
	@tools/fetch_models.py

serve: build
	@tools/demo_serve.sh $(BUILD)/skippy $(PORT) $(MODEL)

test: configure models
	cmake --build $(BUILD) -j $(JOBS)
	@tools/python_env.sh $(BUILD)/venv
	ctest --test-dir $(BUILD) --output-on-failure

yardstick: build
	@tools/python_env.sh $(BUILD)/venv
	$(BUILD)/venv/bin/python -B tests/yardstick/run.py --build $(BUILD) --verbose

evidence: build models
	@$(BUILD)/skippy fixtures --out $(BUILD)/fixtures
	@tools/evidence.py --skippy $(BUILD)/skippy --fixtures $(BUILD)/fixtures

stage-evidence: build models
	@$(BUILD)/skippy fixtures --out $(BUILD)/fixtures
	@tools/stage_evidence.py --skippy $(BUILD)/skippy --fixtures $(BUILD)/fixtures

quick: deps
	@cmake -S . -B $(BUILD)-quick -G Ninja -DSKIPPY_LLAMA=OFF > $(BUILD)-quick.configure.log 2>&1 \
	  || { tail -40 $(BUILD)-quick.configure.log; exit 1; }
	cmake --build $(BUILD)-quick -j $(JOBS)
	ctest --test-dir $(BUILD)-quick --output-on-failure

bench:
	@tools/install_deps.sh libbenchmark-dev
	cmake -S . -B $(BUILD)-bench -G Ninja -DSKIPPY_LLAMA=OFF -DSKIPPY_BENCH=ON -DSKIPPY_TESTS=OFF
	cmake --build $(BUILD)-bench -j $(JOBS) --target cache_bench
	$(BUILD)-bench/src/cache/cache_bench

bench-families: build llama-server models
	@tools/bench_families.py --skippy $(BUILD)/skippy --llama-server $(BUILD)/llama-server --fixtures $(BUILD)/fixtures-bench \
	  || [ $$? -eq 1 ]  # 1: measured, but a gate was missed

bench-replay: build
	@tools/bench_replay.py --skippy $(BUILD)/skippy

results: deps
	@tools/python_env.sh $(BUILD)/venv
	@$(BUILD)/venv/bin/python -B tools/render_results.py

clean:
	rm -rf $(BUILD) $(BUILD)-quick $(BUILD)-bench $(BUILD)*.configure.log
