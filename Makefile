# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
#   make experiments   set up what is missing, run the experiments, write the report
#   make test          set up what is missing, run all tests
#   make check-clients curl, ssh and a browser over an asymmetric path, 1000 connections, 200 loads: each controller, as root
#   make fuzz          the controllers on input that coverage guides, FUZZ_SECONDS long; SEED=... repeats, REPLAY=FILE one failure
#   make explore       COUNT random paths of SEED, with all that must hold in each; what breaks is made small
#   make fuzz-loader   what asymcc reads: objects, answers by netlink, state files; FUZZ_SECONDS in all, and how many inputs that were
#   make faults        each command of asymcc with a fault at each of its system calls, as root; FAULTS="--part 1/4" a part
#   make fuzz-scenarios scenario files at random, SCENARIOS=100000 of them: one line, or a job that fits together
#   make attack        peers that misbehave, toward each controller at length, as root, and how far each got
#   make soak          10^7 ACKs and 10,000 connections of each controller, 10,000 loads (SOAK_ACKS, ...), as root: is anything left?
#   make check-kernels each controller on Linux 6.1, 6.12, the newest packaged and (as root) this one, as KTAP; FRESH=1 repeats runs;
#                      NAMES="fast fusion" and KERNELS="6.1 6.12" of them only
#   make build         controllers and loader only
#   make install       what is built, under PREFIX=/usr/local (and DESTDIR); `make uninstall` takes it away
#   make deb           a Debian package, build/asymcc_VERSION_ARCH.deb; `make check-package` tries it on clean systems

B := build
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
Q := $(if $(V),,@)

KERNEL ?= 6.12
SUITE ?=
JOBS ?=
FUZZ_SECONDS ?= 300
SCENARIOS ?= 100000
SEED ?=
FRESH ?=
NAMES ?=
KERNELS ?=
REPLAY ?=
COUNT ?= 100
FAULTS ?=
SOAK_ACKS ?= 10000000
SOAK_CONNECTIONS ?= 10000
SOAK_LOADS ?= 10000
DESTDIR ?=
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DEBS ?= $(B)

PACKAGES := clang llvm gcc make libc6-dev libbpf-dev bpftool iproute2 iperf3 ethtool nftables \
	qemu-system-x86 qemu-utils kmod zstd lz4 xz-utils python3 python3-venv util-linux procps
FUZZ_PACKAGES := libclang-rt-dev
TEST_PACKAGES := chromium chromium-driver strace $(FUZZ_PACKAGES)
DEB_PACKAGES := dpkg-dev
CHECK_PACKAGES := mmdebstrap genext2fs lintian
CLIENT_PACKAGES := nginx openssh-server openssh-client curl

BPF_CFLAGS := -g -O2 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -target bpf -mcpu=v3 \
	-D__TARGET_ARCH_x86 -Ibpf -Iloader -idirafter /usr/include/$(shell uname -m)-linux-gnu -ffile-prefix-map=$(CURDIR)=.
# The prefix map: what is built does not know where, so that any clone gives the same guest.
CFLAGS ?= -O2 -g
override CFLAGS += -Wall -Wextra -D_GNU_SOURCE -Iloader -ffile-prefix-map=$(CURDIR)=.

OBJECTS := $(patsubst %.bpf.c,$(B)/%.bpf.o,$(notdir $(wildcard bpf/*.bpf.c bpf/rivals/*.bpf.c)))
LOADER := $(filter-out %.bpf.c,$(wildcard loader/*.c loader/commands/*.c))
ASYMLAB := $(B)/venv/bin/asymlab
IMAGE := $(B)/image/$(KERNEL)/manifest.json
TEST_KERNELS := 6.1 6.12
GUEST := $(wildcard experiments/asymlab/guest/*.py) $(addprefix experiments/asymlab/machine/,build.py cpio.py kernel.py qemu.py)

.PHONY: all build deps image experiments test test-images check-kernels fuzz explore lock clean install uninstall deb check-package check-clients fuzz-loader faults fuzz-scenarios attack soak
.DELETE_ON_ERROR:

all: build

# --- what must be installed: as root through apt, else the line to run --------------------
deps: $(B)/.deps

$(B)/.deps: WANTED := $(PACKAGES)
$(B)/.deps-test: WANTED := $(TEST_PACKAGES)
$(B)/.deps-fuzz: WANTED := $(FUZZ_PACKAGES)
$(B)/.deps-deb: WANTED := $(DEB_PACKAGES)
$(B)/.deps-check: WANTED := $(CHECK_PACKAGES)
$(B)/.deps-programs: WANTED := $(CLIENT_PACKAGES)
$(B)/.deps $(B)/.deps-test $(B)/.deps-fuzz $(B)/.deps-deb $(B)/.deps-check $(B)/.deps-programs: Makefile
	$(Q)mkdir -p $(B); missing=""; for p in $(WANTED); do \
		dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
		line="apt-get install -y --no-install-recommends$$missing"; \
		if [ "$$(id -u)" = 0 ]; then \
			echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$line >$(B)/apt.log 2>&1 \
				|| { tail -n 5 $(B)/apt.log; echo "installing failed: $(B)/apt.log"; exit 1; }; \
		else echo "missing packages; run: sudo apt-get update && sudo $$line"; exit 1; fi; \
	fi; touch $@

# apt serves one at a time: with `make -j` the others wait for the first.
$(B)/.deps-test $(B)/.deps-deb $(B)/.deps-check $(B)/.deps-programs: | $(B)/.deps

# nginx and sshd shall not serve this machine because of a test: those that are new are stopped, and not started again.
$(B)/.deps-clients: Makefile | $(B)/.deps
	$(Q)new=""; for s in nginx:nginx openssh-server:ssh; do \
		dpkg-query -W -f '$${Status}' $${s%:*} 2>/dev/null | grep -q 'ok installed' || new="$$new $${s#*:}"; done; \
	failed=""; $(MAKE) --no-print-directory $(B)/.deps-programs || failed=1; \
	for s in $$new; do systemctl -q disable $$s; systemctl -q disable $$s.socket; service $$s stop; done >/dev/null 2>&1 || true; \
	[ -z "$$failed" ]; touch $@

# --- controllers and loader ---------------------------------------------------------------
build: $(OBJECTS) $(B)/trace.bpf.o $(B)/use.bpf.o $(B)/asymcc

vpath %.bpf.c bpf bpf/rivals loader

$(B)/%.bpf.o: %.bpf.c $(wildcard bpf/*.h bpf/*/*.h) loader/trace.h Makefile | $(B)/.deps
	$(Q)clang $(BPF_CFLAGS) -c $< -o $@ && llvm-strip -g $@

$(B)/asymcc: $(LOADER) $(wildcard loader/*.h) Makefile | $(B)/.deps
	$(Q)$(CC) $(CFLAGS) -o $@ $(LOADER) -lbpf

# What the verifier shall refuse, tests/verifier: for tests alone.
REFUSED := $(patsubst tests/verifier/%.bpf.c,$(B)/verifier/%.bpf.o,$(wildcard tests/verifier/*.bpf.c))

$(B)/verifier/%.bpf.o: tests/verifier/%.bpf.c tests/verifier/refused.h $(wildcard bpf/*.h) Makefile | $(B)/.deps
	$(Q)mkdir -p $(@D) && clang $(BPF_CFLAGS) -Itests/verifier -c $< -o $@ && llvm-strip -g $@

# --- installation -------------------------------------------------------------------------
INSTALLED := $(OBJECTS) $(patsubst loader/%.bpf.c,$(B)/%.bpf.o,$(wildcard loader/*.bpf.c))
IN = $(DESTDIR)$(PREFIX)

# Builds nothing: what root installs is what the user built.
install:
	$(Q)$(MAKE) --no-print-directory -q build 2>/dev/null || { echo "not built, or older than its sources; run: make build"; exit 1; }
	$(Q)install -Dm 755 $(B)/asymcc $(IN)/sbin/asymcc
	$(Q)install -Dm 644 -t $(IN)/lib/asymcc $(INSTALLED)
	$(Q)install -d $(IN)/share/man/man8 $(IN)/share/bash-completion/completions $(IN)/lib/systemd/system
	$(Q)$(B)/asymcc manual | install -m 644 /dev/stdin $(IN)/share/man/man8/asymcc.8
	$(Q)$(B)/asymcc completion | install -m 644 /dev/stdin $(IN)/share/bash-completion/completions/asymcc
	$(Q)sed 's,@PREFIX@,$(PREFIX),g; s,@SYSCONFDIR@,$(SYSCONFDIR),g' packaging/asymcc@.service \
		| install -m 644 /dev/stdin $(IN)/lib/systemd/system/asymcc@.service
	$(Q)install -Dm 644 -t $(DESTDIR)$(SYSCONFDIR)/asymcc packaging/NAME.conf.example

uninstall:
	$(Q)rm -f $(IN)/sbin/asymcc $(IN)/share/man/man8/asymcc.8 $(IN)/share/bash-completion/completions/asymcc \
		$(IN)/lib/systemd/system/asymcc@.service $(DESTDIR)$(SYSCONFDIR)/asymcc/NAME.conf.example
	$(Q)rm -rf $(IN)/lib/asymcc
	$(Q)rmdir $(DESTDIR)$(SYSCONFDIR)/asymcc 2>/dev/null || true

deb: build $(B)/.deps-deb
	$(Q)rm -rf $(DEBS)/deb
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(abspath $(DEBS))/deb PREFIX=/usr SYSCONFDIR=/etc
	$(Q)packaging/deb.sh $(abspath $(DEBS))/deb && rm -rf $(DEBS)/deb

check-package: deb $(B)/.deps-check
	$(Q)packaging/check.sh

# --- the lab ------------------------------------------------------------------------------
$(ASYMLAB): requirements.lock | $(B)/.deps
	$(Q)[ -x $(B)/venv/bin/python ] || /usr/bin/python3 -m venv $(B)/venv
	$(Q)echo "installing Python packages"
	$(Q)$(B)/venv/bin/pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	$(Q)echo "$(CURDIR)/experiments" >"$$($(B)/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/asymlab.pth"
	$(Q)printf '#!%s\nfrom asymlab.cli import main\nmain()\n' "$(CURDIR)/$(B)/venv/bin/python" >$@ && chmod +x $@

lock:
	$(Q)python3 -m venv $(B)/lock && $(B)/lock/bin/pip install -q pip-tools
	$(Q)$(B)/lock/bin/pip-compile -q --extra test --generate-hashes --no-emit-index-url --no-emit-find-links \
		--strip-extras --no-header -o requirements.lock pyproject.toml

image: $(IMAGE)

$(B)/image/%/manifest.json: $(B)/asymcc $(B)/trace.bpf.o $(GUEST) | $(ASYMLAB)
	$(Q)$(ASYMLAB) image --kernel $*

experiments: build $(IMAGE) $(ASYMLAB)
	$(Q)$(ASYMLAB) suite $(SUITE) --image $(KERNEL) $(if $(JOBS),--jobs $(JOBS))

test-images: $(TEST_KERNELS:%=$(B)/image/%/manifest.json)

test: build $(REFUSED) $(B)/.deps-test test-images $(ASYMLAB)
	$(Q)$(B)/venv/bin/python -m pytest -n auto --dist loadscope --no-loadscope-reorder tests

check-clients: build $(B)/.deps-test $(B)/.deps-clients $(ASYMLAB)
	$(Q)CLIENTS=full $(B)/venv/bin/python -m pytest -s tests/live/test_clients.py

check-kernels: build $(REFUSED) $(ASYMLAB)
	$(Q)$(ASYMLAB) check-kernels $(NAMES) $(KERNELS:%=--kernel %) $(if $(JOBS),--jobs $(JOBS)) $(if $(FRESH),--fresh)

fuzz: $(B)/.deps-fuzz $(ASYMLAB)
	$(Q)PYTHONPATH=tests/algorithms $(B)/venv/bin/python -m host.fuzz --seconds $(FUZZ_SECONDS) \
		$(if $(SEED),--seed $(SEED)) $(if $(REPLAY),--replay $(REPLAY))

explore: build $(IMAGE) $(ASYMLAB)
	$(Q)$(ASYMLAB) explore --count $(COUNT) --image $(KERNEL) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

fuzz-loader: build $(B)/.deps-fuzz $(ASYMLAB)
	$(Q)PYTHONPATH=tests/loader $(B)/venv/bin/python -m fuzz.loader_run --seconds $(FUZZ_SECONDS)

faults: build $(B)/.deps-test $(ASYMLAB)
	$(Q)PYTHONPATH=tests/live $(B)/venv/bin/python -m faults $(FAULTS)

# Trees and bare texts, half each.
fuzz-scenarios: $(ASYMLAB)
	$(Q)SCENARIOS=$$(( $(SCENARIOS) / 2 )) $(B)/venv/bin/python -m pytest -q -s tests/lab/test_scenario_fuzz.py

attack: build $(ASYMLAB)
	$(Q)ATTACK=full $(B)/venv/bin/python -m pytest -s tests/live/test_peers_live.py

soak: build $(IMAGE) $(ASYMLAB)
	$(Q)for what in acks=$(SOAK_ACKS) connections=$(SOAK_CONNECTIONS) loads=$(SOAK_LOADS); do \
		$(B)/venv/bin/python tests/live/soak.py $${what%=*} $${what#*=}; done
	$(Q)$(B)/venv/bin/python tests/live/soak.py hours

clean:
	$(Q)rm -rf $(B)
