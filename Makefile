# On a fresh machine with Python >= 3.11: `make demo`, `make test` and `make test-docs`.
PYTHON ?= python3
PIP = .venv/bin/pip --disable-pip-version-check --quiet
JOBS ?= auto
OF_PAGES = tests/pages tests/studies
# What is skipped, as a summary says, where a browser, npm, an engine or PyWavelets is missing.
OF_OPTIONAL = tests/campaign tests/cli/test_campaign_up.py tests/clients tests/plugins tests/randomizer/test_engines.py \
	tests/pages/site tests/studies/entropic/test_papers_figures.py tests/studies/rivals/test_image_baselines.py \
	tests/studies/test_recipes.py

# Images of containers often forbid it; then every process compiles the library and the tests again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-docs test-slow test-optional optional client lint bench docs docs-open dist-check release-notes clean

demo: .venv/maps  ## recover a map from noise; results in demo/
	.venv/bin/privot demo -o demo --force

test: .venv/dev  ## the library, but for what is marked slow
	.venv/bin/pytest -n $(JOBS) -m "not slow" tests src $(OF_PAGES:%=--ignore=%)

test-docs: .venv/dev  ## pages, their commands and examples; recipes and rivals of studies/
	.venv/bin/pytest -n $(JOBS) -m "not slow" $(OF_PAGES) docs studies

test-slow: .venv/dev  ## what takes minutes, of both; before an issue is resolved
	.venv/bin/pytest -n $(JOBS) -m slow --timeout 1800

test-optional: .venv/dev  ## the tests that optional packages, a browser or npm are for
	.venv/bin/pytest -n $(JOBS) -m "not slow" $(OF_OPTIONAL)

optional: .venv/dev  ## packages without which some tests are skipped, and say so
	-$(PIP) install -c constraints.txt -e '.[duckdb,ray,spark]' PyWavelets
	-$(PIP) install -c constraints.txt -e '.[sdv,opendp]'

client:  ## the device in JavaScript, and the campaigns' copy of it; needs Node >= 20 and npm
	cd clients/javascript && npm ci --no-audit --no-fund --loglevel error && npm run build --silent
	cp clients/javascript/dist/privot.js src/privot/campaign/web/privot.js

lint: .venv/dev  ## style and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

docs: .venv/docs  ## the site, in build/site; scripts of the gallery that changed run; a warning is an error
	.venv/bin/sphinx-build -q -W --keep-going -c site docs build/site

docs-open: docs  ## the site, in a browser
	.venv/bin/python -m webbrowser -t "file://$(CURDIR)/build/site/index.html"

bench: .venv/dev  ## the samplers and the solver; rivals where they are installed
	.venv/bin/python privot_benchmarks/noise.py
	.venv/bin/python privot_benchmarks/solver.py

dist-check: .venv/python  ## sdist and wheel: built, looked into, installed where nothing else is, and used
	.venv/bin/python scripts/check_distributions.py

release-notes:  ## what CHANGELOG.md says of a version: make release-notes VERSION=0.1.0
	@$(PYTHON) scripts/release_notes.py $(VERSION)

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/maps: .venv/python pyproject.toml constraints.txt
	$(PIP) install --no-compile -c constraints.txt -e '.[maps]'
	@touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch .venv/maps $@

.venv/docs: .venv/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch .venv/maps $@

clean:
	rm -rf .venv demo build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis clients/javascript/dist
