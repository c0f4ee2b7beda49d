# Everything a newcomer needs: `make demo` and `make test`.  The environment is .venv, made on first use.
PYTHON ?= python3
BIN := .venv/bin
REPORTS := reports
STORE := replay-store

.PHONY: bench demo test test-slow lint types browser eval-chronicles verify-failures proxy-tables clean

# Installed again whenever the declared or the tested versions change.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "replay needs Python 3.11 or newer"'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable ".[proxy]"
	touch $@

# Debian's Chromium reads the reports in the tests; where it cannot be installed, those tests skip and say so.
browser:
	@sh tests/install_browser.sh

demo: .venv/installed
	$(BIN)/replay demo --store $(STORE) --reports $(REPORTS)

test: .venv/installed browser
	$(BIN)/pytest --numprocesses auto

test-slow: .venv/installed browser
	$(BIN)/pytest --numprocesses auto -m slow

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

# Raw chronicles against curated timelines; UPSTREAM is the folder that holds glm-130b/, bloom/ and opt-175b/.
UPSTREAM ?= ../shared/upstream
eval-chronicles: .venv/installed
	$(BIN)/python -m replay.chronicle_evaluation $(UPSTREAM)

# The proxy's catalogue of failures on fresh seeds; stopped, it goes on where it stopped.
verify-failures: .venv/installed
	$(BIN)/replay proxy failures verify --jobs 2 --docs docs/failures.md

# The proxy's other tables: learning rates, PaLM's choices, vital signs, parts of checkpoints, number formats.
proxy-tables: .venv/installed
	$(BIN)/replay proxy sweep --seeds 8 --jobs 2 --docs docs/proxy-learning-rates.md
	$(BIN)/replay proxy sweep --palm --seeds 8 --jobs 2 --docs docs/proxy-palm-switches.md
	$(BIN)/replay proxy failures show second-moment-lag --seed 5000 --docs docs/proxy-vital-signs.md
	$(BIN)/replay proxy checkpoints --seeds 8 --jobs 2 --docs docs/proxy-checkpoints.md
	$(BIN)/replay precision --docs docs/proxy-precision.md

# Speed and memory of ingestion beside other tools, into docs/performance.md; BENCH="--rows 100000" is a tenth of it.
# Speed of the proxy's step beside a plain loop, into docs/proxy-speed.md.
BENCH ?= --ten-million
bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python benchmarks/ingestion.py $(BENCH)
	$(BIN)/python benchmarks/proxy_step.py --docs docs/proxy-speed.md

clean:
	rm -rf .venv build dist $(STORE) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
