# The commands of this project; each installs what it needs (as root, on Debian 12).
#
#   make run     build the package, boot a Debian container, install it there, start it, ask the model
#   make test    everything but the long proofs
#   make check   the quick part: lint, types, unit tests
#   make proof   the long proofs, resumable; results in docs/proofs/
#   make dev     .venv, with .venv/bin/vllm-serve running this tree
#   make deb     the package, in build/

SHELL := /bin/bash
.DELETE_ON_ERROR:
# The order of prerequisites matters: what shows a fault soonest comes first.
.NOTPARALLEL:
.PHONY: run test check proof dev deb lint types unit component contract system slice lock clean

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest

# What the package is built with, and what boots it.
BUILD_PACKAGES := build-essential debhelper dh-python git go-md2man lintian
BOOT_PACKAGES := curl mmdebstrap python3-pip systemd-container util-linux
# What the supervisor imports, which is the package's own Depends, and what the engine loads.
LIBRARIES := libnuma1 logrotate python3-aiohttp python3-cattr python3-click python3-jsonschema python3-psutil \
	python3-regex python3-rich \
	python3-sdnotify python3-systemd python3-tomli python3-venv
CHECK_PACKAGES := git shellcheck

# $(call need,PACKAGES): install those that are missing; say so when that can't be done.
define need
@missing=(); for package in $(1); do \
	dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed || missing+=($$package); \
done; \
if (( $${#missing[@]} )); then \
	[ $$(id -u) = 0 ] || { echo "missing packages, install them as root: apt-get install $${missing[*]}" >&2; exit 1; }; \
	echo "installing $${missing[*]}"; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $${missing[@]} >/dev/null; \
fi
endef

run:
	$(call need,$(BUILD_PACKAGES) $(BOOT_PACKAGES) $(LIBRARIES))
	@/usr/bin/python3 -m tests.system.demonstration

# In the order in which a fault shows soonest; `system` installs the engine that `contract` and `slice` use.
test: check component deb system contract slice
	@$(PYTHON) -m tests.system

check: lint types unit

dev: .venv/installed

.venv/installed: pyproject.toml Makefile
	$(call need,$(LIBRARIES) $(CHECK_PACKAGES))
	/usr/bin/python3 -m venv --clear --system-site-packages .venv
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' >.venv/dev.txt
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement .venv/dev.txt
	ln -sf ../../bin/vllm-serve .venv/bin/vllm-serve
	@touch $@

lint: dev
	.venv/bin/ruff check --quiet .
	.venv/bin/ruff format --quiet --check .
	shellcheck .ci/run debian/build debian/vllm-serve.postinst debian/vllm-serve.prerm debian/vllm-serve.postrm debian/tests/smoke

types: dev
	.venv/bin/mypy --no-error-summary

unit: dev
	$(PYTEST) -q -n 2 tests/unit appliance/core appliance/engine

component: dev
	$(PYTEST) -q -n 2 tests/component tests/fakes

contract: dev
	$(PYTEST) -q tests/contract

system: dev deb
	$(call need,$(BOOT_PACKAGES))
	$(PYTEST) -q tests/system

slice: dev
	$(PYTHON) -m tests.proof --slice

proof: dev deb
	$(PYTHON) -m tests.proof

deb:
	$(call need,$(BUILD_PACKAGES))
	@rm -rf build && mkdir build
	@debian/build build/tree build >build/log 2>&1 || { tail -40 build/log >&2; exit 1; }
	@lintian --pedantic -EI --fail-on error,warning build/*.deb
	@ls build/*.deb

# Pin the engine anew from appliance/engine/lock/*.in: every package, every hash, for Debian 12's Python.
# PIP_FIND_LINKS may name a folder with the +cpu build of torch.
LOCK := appliance/engine/lock
COMPILE := .venv/bin/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
	--python-version 3.11 --python-platform x86_64-manylinux_2_36 $(addprefix --find-links ,$(PIP_FIND_LINKS))
WITHOUT := $(addprefix --no-emit-package ,torchvision torchaudio torchcodec)

lock: dev
	$(PYTHON) -m pip install --quiet --disable-pip-version-check uv==0.13.9
	$(COMPILE) $(WITHOUT) --output-file $(LOCK)/cpu.txt $(LOCK)/cpu.in
	$(COMPILE) --output-file $(LOCK)/cuda.txt $(LOCK)/cuda.in

clean:
	rm -rf build .venv .mypy_cache .ruff_cache .hypothesis

# Write anew what the code says already: the sample, the JSON Schema, keys in the manual page, the shipped file.
.PHONY: generated
generated: dev
	$(PYTHON) -m tests.generated
