# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make help` tells the goals: their `##` comments. V=1 shows each command.

B := build
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) "$(2)")

KERNEL ?= 6.12
ENGINE ?= qemu
NATIVE := $(shell dpkg --print-architecture)
ARCH ?= $(NATIVE)
SUITE ?=
JOBS ?=
FUZZ_SECONDS ?= 300
PACKETS ?= 100000000
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
OPENWRT ?=

PACKAGES := clang llvm gcc make libc6-dev libbpf-dev bpftool bubblewrap iproute2 ethtool nftables \
	qemu-system-x86 qemu-utils kmod zstd lz4 xz-utils python3 python3-venv util-linux procps
arm64_PACKAGES := qemu-system-arm gcc-aarch64-linux-gnu device-tree-compiler
uml_PACKAGES := flex bison bc libelf-dev dwarves
fuzz_PACKAGES := libclang-rt-dev
test_PACKAGES := chromium chromium-driver strace $(fuzz_PACKAGES)
deb_PACKAGES := dpkg-dev
check_PACKAGES := mmdebstrap genext2fs lintian
clients_PACKAGES := nginx openssh-server openssh-client curl
openwrt_PACKAGES := busybox libjson-c-dev
operation_PACKAGES := prometheus prometheus-node-exporter runc
clients_SERVICES := nginx:nginx openssh-server:ssh
operation_SERVICES := prometheus:prometheus prometheus-node-exporter:prometheus-node-exporter

# A path for the shell, whatever characters it has.
quoted = '$(subst ','\'',$(1))'
HERE := $(call quoted,$(CURDIR))

BPF_CFLAGS := @bpf/cflags -Ibpf -idirafter /usr/include/$(shell uname -m)-linux-gnu -ffile-prefix-map=$(HERE)=.
# The prefix map: what is built does not know where, so that any clone gives the same guest.
CFLAGS ?= -O2 -g
# Another architecture's folder of files, end of its images' names, compiler and libraries.
A := $(B)
ifneq ($(ARCH),$(NATIVE))
arm64_TRIPLET := aarch64-linux-gnu
TRIPLET := $(or $($(ARCH)_TRIPLET),$(error ARCH=$(ARCH): there are $(NATIVE) and arm64))
A := $(B)/$(ARCH)
L := -$(ARCH)
ROOT := $(A)/root/.done
CC := $(TRIPLET)-gcc --sysroot=$(A)/root
endif
DEPS := $(B)/.deps$(L)
override CFLAGS += -Wall -Wextra -D_GNU_SOURCE -Iloader -Ibpf -ffile-prefix-map=$(HERE)=.
VERSION := $(file <VERSION)

OBJECTS := $(patsubst %.bpf.c,$(B)/%.bpf.o,$(notdir $(wildcard bpf/controllers/*.bpf.c bpf/rivals/*.bpf.c bpf/tools/*.bpf.c)))
# For the lab alone: no installation has them.
LAB_OBJECTS := $(patsubst bpf/lab/%.bpf.c,$(B)/%.bpf.o,$(wildcard bpf/lab/*.bpf.c))
LOADER := $(patsubst %.c,$(A)/%.o,$(wildcard loader/*.c loader/*/*.c))
ASYMLAB := $(B)/venv/bin/asymlab
image_of = $(B)/image/$(KERNEL)$(L)$(if $(filter uml,$(1)),-uml)/manifest.json
IMAGE := $(call image_of,$(ENGINE))
# The experiments run by the fast engine where there is one, if no ENGINE is given: its kernel is built sooner than a quick set ends.
EXPERIMENTS_ENGINE := $(if $(filter file,$(origin ENGINE)),$(if $(filter amd64,$(ARCH)),uml,qemu),$(ENGINE))
TEST_IMAGES := $(B)/image/6.1$(L)/manifest.json $(B)/image/6.12$(L)/manifest.json \
	$(if $(filter amd64,$(ARCH)),$(B)/image/6.12-uml/manifest.json) $(wildcard $(B)/image/newest-uml/manifest.json)
REFUSED := $(patsubst tests/verifier/%.bpf.c,$(B)/verifier/%.bpf.o,$(wildcard tests/verifier/*.bpf.c))
GUEST := $(wildcard experiments/asymlab/guest/*.py) $(addprefix experiments/asymlab/machine/,arch.py boot.py build.py cpio.py kernel.py ldcache.py modules.py qemu.py)
GUEST_UML := $(addprefix experiments/asymlab/machine/uml/,edits.py make.py lab.config) $(wildcard experiments/asymlab/machine/uml/*.[ch])

# Each Python that is started here compiles its modules once, and not into the tree.
export PYTHONPYCACHEPREFIX := $(if $(filter /%,$(B)),,$(CURDIR)/)$(B)/pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all build static deps image test-needs experiments test test-quick test-host test-lab test-live lint format check-arm64 check-browser check-clients check-kernels check-newest check-openwrt check-operation check-package check-wheel explore \
	fuzz fuzz-loader fuzz-router fuzz-scenarios faults attack reality bench soak check-repeats quinn install uninstall deb wheel release lock clean help
.DELETE_ON_ERROR:

all: build

# --- experiments and tests; each sets up what is missing ----------------------------------
# Downloads wait for the net and a link for one core: the kernel, which takes longest, goes first, and all else beside it.
# Its image's needs have a make of their own: one make would start all objects and pip as soon as it waits for these.
MAKE_4 = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j4)
experiments: ## run the papers' experiments, write the report; SUITE=fast, all, ...: the full set; ENGINE=qemu
	$(Q)$(MAKE_4) $(A)/asymcc $(B)/trace.bpf.o $(if $(filter uml,$(EXPERIMENTS_ENGINE)),$(B)/.deps-uml WITH=uml)
	$(Q)$(MAKE_4) $(call image_of,$(EXPERIMENTS_ENGINE)) $(ASYMLAB) build
	$(Q)$(ASYMLAB) suite $(SUITE) --image $(KERNEL)$(L) --engine $(EXPERIMENTS_ENGINE) $(if $(JOBS),--jobs $(JOBS))

PYTEST = $(Q)$(B)/venv/bin/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(TEST_OPTIONS)

test: test-needs ## run all tests
	$(PYTEST) tests

test-quick: build $(B)/.deps-test $(ASYMLAB) lint ## between edits, some 90 s: lint, the controllers' laws on the host, report
	$(PYTEST) -q -m "not lab and not slow" tests/algorithms tests/report tests/test_*.py

# The parts of it. Tests marked lab boot virtual machines; tests/live needs root, and looks at all of this kernel.
test-host: build $(REFUSED) $(B)/.deps-test $(IMAGE) $(ASYMLAB) ## those that need neither root nor a virtual machine
	$(PYTEST) -m "not lab" --ignore tests/live --ignore tests/arm64 tests
test-lab: test-needs ## those in virtual machines
	$(PYTEST) -m lab tests
test-live: test-needs ## those on the running kernel, as root
	$(PYTEST) tests/live

# --- what must be installed: as root through apt, else the line to run --------------------
deps: $(DEPS) $(if $(filter uml,$(ENGINE)),$(B)/.deps-uml) ## install the packages that the others need, or say which

# WITH: sets whose packages are due next, so that they come in the same line.
test test-needs: WITH = test uml
$(B)/.deps: Makefile packaging/packages.sh
	$(Q)mkdir -p $(B) && packaging/packages.sh $(B)/apt.log "" $(PACKAGES) $(foreach set,$(WITH),$($(set)_PACKAGES)) && touch $@

# Named one by one: a pattern alone would be the last that make tries, and image/%-uml would be taken for an image/%.
$(patsubst %_PACKAGES,$(B)/.deps-%,$(filter %_PACKAGES,$(.VARIABLES))): $(B)/.deps-%: Makefile packaging/packages.sh | $(B)/.deps
	$(Q)packaging/packages.sh $(B)/apt.log "$($*_SERVICES)" $($*_PACKAGES) && touch $@

# --- controllers and loader ---------------------------------------------------------------
build: $(OBJECTS) $(LAB_OBJECTS) $(A)/asymcc ## build the controllers and the loader; ARCH=arm64: for another machine

vpath %.bpf.c bpf/controllers bpf/rivals bpf/tools bpf/lab

$(B)/%.bpf.o: %.bpf.c $(wildcard bpf/*.h bpf/*/*.h bpf/*/*/*.h) bpf/cflags Makefile | $(B)/.deps
	$(call say,BPF,$@)
	$(Q)clang $(BPF_CFLAGS) -c $< -o $@ && llvm-strip -g $@

$(A)/loader/%.o: loader/%.c $(wildcard loader/*.h loader/*/*.h bpf/tools/*.h) VERSION Makefile | $(DEPS) $(ROOT)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -DASYMCC_VERSION='"$(VERSION)"' -c $< -o $@

$(A)/asymcc: $(LOADER)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $(LOADER) -lbpf -lm

# For small systems of another architecture the libraries are built from their sources, with another C library.
static: $(A)/static/asymcc build ## an asymcc that needs no library of its system; ARCH=arm64: for small ones

ifdef L
$(A)/root/.done $(A)/sources/.done: experiments/asymlab/machine/root.py | $(DEPS) $(B)/.deps-deb
	$(call say,DEBIAN,$(@D))
	$(Q)PYTHONPATH=experiments python3 -m asymlab.machine.root $(ARCH) $(notdir $(@D)) >$(B)/apt-$(ARCH).log && touch $@

$(A)/static/asymcc: $(wildcard loader/*.[ch] loader/*/*.[ch] bpf/tools/*.h) VERSION packaging/static.sh | $(A)/sources/.done $(ROOT)
	$(call say,STATIC,$@)
	$(Q)packaging/static.sh $(A) $(TRIPLET)

.PHONY: $(B)/asymcc
$(B)/asymcc: # this machine's writes the manual page
	$(Q)$(MAKE) --no-print-directory ARCH=$(NATIVE) $@
else
# This machine's own C library: small systems have another.
$(A)/static/asymcc: $(LOADER)
	$(call say,STATIC,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -static -s -o $@ $(LOADER) -lbpf -lelf -lz -lm $(if $(wildcard /usr/lib/*/libzstd.a),-lzstd)
endif

# For tests alone: the verifier refuses these.
$(B)/verifier/%.bpf.o: tests/verifier/%.bpf.c tests/verifier/refused.h $(wildcard bpf/*.h) Makefile | $(B)/.deps
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D) && clang $(BPF_CFLAGS) -Itests/verifier -c $< -o $@ && llvm-strip -g $@

# A QUIC stack for the pack `quinn`. The folder of crates would be part of its bytes.
QUINN := experiments/programs/quinn
quinn: $(B)/quinn/quinn-file ## a QUIC stack with ACK frequency, for real programs; needs cargo
$(B)/quinn/quinn-file: $(wildcard $(QUINN)/*)
	$(call say,CARGO,$@)
	$(Q)command -v cargo >/dev/null || { echo "make quinn: needs cargo of Rust 1.85 or later: Debian 13's cargo, Debian 12's cargo-web"; exit 1; }
	$(Q)RUSTFLAGS="--remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=/cargo" cargo build --quiet --release --locked \
		--manifest-path $(QUINN)/Cargo.toml --target-dir $(B)/quinn/target && cp $(B)/quinn/target/release/quinn-file $@

# --- installation and packages ------------------------------------------------------------
UNITS := asymcc@.service asymcc-load@.service asymcc-thin.service asymcc-uplink@.service
EXAMPLES := NAME.conf.example thin.conf.example
IN = $(call quoted,$(DESTDIR)$(PREFIX))
ETC = $(call quoted,$(DESTDIR)$(SYSCONFDIR)/asymcc)

# Builds nothing: what root installs is what the user built.
install: ## install into PREFIX [/usr/local] what is built; DESTDIR goes before it
	$(Q)$(MAKE) --no-print-directory -q build $(B)/asymcc 2>/dev/null || { echo "not built, or older than its sources; run: make build"; exit 1; }
	$(Q)install -Dm 755 $(A)/asymcc $(IN)/sbin/asymcc
	$(Q)install -Dm 644 -t $(IN)/lib/asymcc $(OBJECTS)
	$(Q)install -Dm 644 -t $(IN)/share/asymcc packaging/grafana.json
	$(Q)install -d $(IN)/share/man/man8 $(IN)/share/bash-completion/completions $(IN)/lib/systemd/system
	$(Q)$(B)/asymcc manual | install -m 644 /dev/stdin $(IN)/share/man/man8/asymcc.8
	$(Q)$(B)/asymcc completion | install -m 644 /dev/stdin $(IN)/share/bash-completion/completions/asymcc
	$(Q)for unit in $(UNITS); do sed 's,@PREFIX@,$(PREFIX),g; s,@SYSCONFDIR@,$(SYSCONFDIR),g' packaging/$$unit \
		| install -m 644 /dev/stdin $(IN)/lib/systemd/system/$$unit || exit; done
	$(Q)install -Dm 644 -t $(ETC) $(addprefix packaging/,$(EXAMPLES))

uninstall: ## remove what install put there
	$(Q)rm -f $(IN)/sbin/asymcc $(IN)/share/man/man8/asymcc.8 $(IN)/share/bash-completion/completions/asymcc \
		$(addprefix $(IN)/lib/systemd/system/,$(UNITS)) $(addprefix $(ETC)/,$(EXAMPLES))
	$(Q)rm -rf $(IN)/lib/asymcc $(IN)/share/asymcc
	$(Q)rmdir $(ETC) 2>/dev/null || true

deb: build $(B)/asymcc $(B)/.deps-deb ## a Debian package, build/asymcc_VERSION_ARCH.deb; ARCH=arm64
	$(Q)rm -rf $(DEBS)/deb
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(call quoted,$(abspath $(DEBS))/deb) PREFIX=/usr SYSCONFDIR=/etc
	$(Q)packaging/deb.sh $(call quoted,$(abspath $(DEBS))/deb) $(if $(L),$(ARCH) $(TRIPLET) $(call quoted,$(abspath $(A)/root))) && rm -rf $(DEBS)/deb

# An earlier build of the package, to upgrade from.
OLDER := 733e5b8
$(B)/older/$(OLDER).deb:
	$(Q)git cat-file -e $(OLDER)^{commit} 2>/dev/null || { echo "make check-package: no commit $(OLDER) here, to upgrade from: git fetch --unshallow"; exit 1; }
	$(Q)rm -rf $(B)/older && mkdir -p $(B)/older && git archive $(OLDER) | tar x -C $(B)/older && echo "$(VERSION)~$(OLDER)" >$(B)/older/VERSION
	$(Q)$(MAKE) --no-print-directory -C $(B)/older B=build deb && cp $(B)/older/build/*.deb $@

check-package: deb $(B)/older/$(OLDER).deb $(B)/.deps-check ## try that package on clean systems, booted; MANAGERS=networkd, SUITES=trixie: these
	$(Q)packaging/check.sh $(B)/asymcc_$(VERSION)_$(NATIVE).deb $(B)/older/$(OLDER).deb $(SUITES)

# setup.py says what they have.
wheel: $(ASYMLAB) $(if $(L),,$(call image_of,uml)) ## the lab as a package that pip installs, and its sources, in build/dist
	$(Q)[ -z "$(L)" ] || { echo "make wheel: a wheel is made on a machine of its architecture"; exit 1; }
	$(Q)$(MAKE) --no-print-directory static
	$(Q)ASYMLAB_BUILD=$(B) packaging/dist.sh $(B)/venv/bin/python $(B)/dist

release: wheel deb ## a version to publish, in build/release: packages, notes, bill of materials, checksums
	$(Q)packaging/release.sh $(B)/venv/bin/python $(B)/release $(B)/dist/* $(B)/asymcc_$(VERSION)_$(NATIVE).deb

check-wheel: wheel $(B)/.deps-check ## try the wheel on clean systems, by examples/controller; SUITES="trixie sid", CPUS="Nehalem EPYC"
	$(Q)packaging/check-wheel.sh $(B)/venv/bin/python $(B)/dist/*.whl $(SUITES)

# --- the lab ------------------------------------------------------------------------------
$(ASYMLAB): requirements.lock packaging/venv.sh | $(B)/.deps
	$(call say,PIP,$<)
	$(Q)packaging/venv.sh $(B)/venv $<

image: build $(IMAGE) ## the controllers, and the guest of Linux KERNEL [6.12], which the lab boots; ENGINE=uml: fast

$(B)/image/%$(L)/manifest.json: $(A)/asymcc $(B)/trace.bpf.o $(GUEST) | $(ASYMLAB)
	$(call say,IMAGE,$(@D))
	$(Q)$(ASYMLAB) image --kernel $* --arch $(ARCH)

# The kernel is a program of this machine, built from the source of a package. Debian's Python makes it, beside the lab's own.
$(B)/image/%-uml/manifest.json: $(A)/asymcc $(B)/trace.bpf.o $(GUEST) $(GUEST_UML) | $(B)/.deps-uml
	$(call say,IMAGE,$(@D))
	$(Q)PYTHONPATH=experiments /usr/bin/python3 -m asymlab.machine.build $* $(if $(FRESH),--fresh)

test-needs: build $(REFUSED) $(B)/.deps-test $(TEST_IMAGES) $(ASYMLAB)

# --- more tests, and the style of the sources ---------------------------------------------
C_SOURCES := $(wildcard $(foreach d,bpf bpf/* bpf/*/* loader loader/* experiments/asymlab/* examples/*,$(d)/*.c $(d)/*.h))
RUFF := $(B)/venv/bin/ruff
CLANG_FORMAT := $(B)/venv/bin/clang-format

lint: $(ASYMLAB) ## look at the sources: style of C and Python, types
	$(call say,LINT,C)
	$(Q)$(CLANG_FORMAT) --dry-run -Werror $(C_SOURCES)
	$(call say,LINT,Python)
	$(Q)$(RUFF) check -q && $(RUFF) format -q --check
	$(call say,LINT,types)
	$(Q)$(B)/venv/bin/mypy --no-error-summary

format: $(ASYMLAB) ## write the sources in that style
	$(Q)$(CLANG_FORMAT) -i $(C_SOURCES)
	$(Q)$(RUFF) check -q --fix-only && $(RUFF) format -q

check-kernels: build $(REFUSED) $(ASYMLAB) ## try each controller on several kernels; NAMES="fast ..." KERNELS="6.1 ..." FRESH=1
	$(Q)$(ASYMLAB) check-kernels $(NAMES) $(KERNELS:%=--kernel %) $(if $(JOBS),--jobs $(JOBS)) $(if $(FRESH),--fresh)

check-arm64: build $(REFUSED) $(IMAGE) ## lab, package, small system and controllers on arm64; KERNELS="6.1 ...", NAMES="fast ..."
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 build static deb image
	$(Q)ARM64=1 $(B)/venv/bin/python -m pytest -s tests/arm64
	$(Q)$(ASYMLAB) check-kernels $(NAMES) $(patsubst %,--kernel %-arm64,$(or $(KERNELS),6.1 6.12 newest)) $(if $(JOBS),--jobs $(JOBS))

# No packaged kernel has these. Without packetdrill its tests are skipped.
check-newest: build $(B)/.deps-test $(ASYMLAB) ## what takes Linux 7.3, by the engine uml: Prague, DualPI2, selftests; packetdrill, if there is one
	$(Q)$(MAKE) --no-print-directory image ENGINE=uml KERNEL=newest
	$(Q)[ -z "$${ASYMLAB_PACKETDRILL:-$$(command -v packetdrill)}" ] || \
		$(ASYMLAB) image --engine uml --kernel newest --config experiments/kernels/packetdrill.config
	$(PYTEST) -rs -m lab -k "prague or dualpi2 or packetdrill or peers or selftests" \
		$(addprefix tests/lab/test_,prague_lab.py queues_lab.py packetdrill.py peers_lab.py selftests.py)

check-clients: build $(B)/.deps-test $(B)/.deps-clients $(ASYMLAB) ## curl, ssh and a browser, as root
	$(Q)CLIENTS=full $(B)/venv/bin/python -m pytest -s tests/live/test_clients.py

# The schemas of Kubernetes come with a package of Python's.
$(B)/kubernetes/bin/kubernetes-validate: Makefile | $(B)/.deps
	$(Q)python3 -m venv $(B)/kubernetes && $(B)/kubernetes/bin/pip install -q kubernetes-validate==1.37.0 && touch $@

check-operation: build $(B)/.deps-test $(B)/.deps-operation $(B)/kubernetes/bin/kubernetes-validate $(ASYMLAB) ## Prometheus, containers of runc, Kubernetes' manifest, as root
	$(Q)$(B)/venv/bin/python -m pytest -s tests/live/test_monitoring.py tests/live/test_runtime.py

check-openwrt: build $(B)/.deps-test $(B)/.deps-openwrt $(ASYMLAB) ## packaging/openwrt under OpenWrt's procd, as root; OPENWRT=its sources
	$(Q)[ -n "$(OPENWRT)" ] || { echo "make check-openwrt: OPENWRT=FOLDER: tests/live/openwrt/real.sh says what it has"; exit 1; }
	$(Q)OPENWRT=$(call quoted,$(OPENWRT)) $(B)/venv/bin/python -m pytest -s tests/live/test_openwrt.py

check-browser: build $(call image_of,uml) $(B)/.deps-test $(ASYMLAB) ## Chromium in a guest: fetches some 100 MB
	$(Q)ASYMLAB_BROWSER=1 $(B)/venv/bin/python -m pytest tests/lab/test_programs_lab.py -k browser

explore: build $(IMAGE) $(ASYMLAB) ## judge random paths: COUNT [100] of SEED; a failure is made small
	$(Q)$(ASYMLAB) explore --count $(COUNT) --image $(KERNEL) --engine $(ENGINE) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

fuzz: $(B)/.deps-fuzz $(ASYMLAB) ## random input for the controllers and `uplink`, FUZZ_SECONDS [300]; SEED=..., REPLAY=FILE
	$(Q)$(B)/venv/bin/python -m tests.algorithms.host.fuzz --seconds $(FUZZ_SECONDS) \
		$(if $(SEED),--seed $(SEED)) $(if $(REPLAY),--replay $(REPLAY))

fuzz-loader: build $(B)/.deps-fuzz $(ASYMLAB) ## random objects, netlink answers and state files for asymcc, FUZZ_SECONDS
	$(Q)$(B)/venv/bin/python -m tests.loader.fuzz.loader_run --seconds $(FUZZ_SECONDS)

fuzz-router: build $(ASYMLAB) ## random packets for asymcc thin --dev in this kernel, as root, PACKETS [100000000]; resumes
	$(Q)$(B)/venv/bin/python -m tests.live.fuzz_router $(PACKETS) --resume $(B)/fuzz-router.json

# Trees and bare texts, half each.
fuzz-scenarios: $(ASYMLAB) ## random scenario files, SCENARIOS [100000]
	$(Q)SCENARIOS=$$(( $(SCENARIOS) / 2 )) $(B)/venv/bin/python -m pytest -q -s tests/lab/test_scenario_fuzz.py

faults: build $(B)/.deps-test $(ASYMLAB) ## each system call of asymcc fails once, as root; FAULTS="--command load"; resumes
	$(Q)$(B)/venv/bin/python -m tests.live.faults --resume $(B)/faults.json $(FAULTS)

reality: build $(IMAGE) $(ASYMLAB) ## the lab beside live runs, as root, 15 min of real time: build/reality/reality.md
	$(Q)$(ASYMLAB) reality --image $(KERNEL) $(if $(JOBS),--jobs $(JOBS))

bench: build $(IMAGE) $(ASYMLAB) ## what each controller costs: instructions of an ACK; NAMES="fast vegas ..."
	$(Q)$(ASYMLAB) bench $(NAMES) --image $(KERNEL)

# The second image is made of sources alone, in a folder of its own, with nothing of the first.
check-repeats: COUNT = 200
check-repeats: build $(IMAGE) $(ASYMLAB) ## short runs again and again, COUNT [200]: the same bytes? resumes
	$(Q)ASYMLAB_BUILD=$(call quoted,$(abspath $(B))/second) $(MAKE) -s --no-print-directory B=$(B)/second ASYMLAB=$(ASYMLAB) build image
	$(Q)$(B)/venv/bin/python -m tests.machine.repeats $(COUNT) $(B)/second \
		--kernel $(notdir $(patsubst %/,%,$(dir $(IMAGE)))) --resume $(B)/repeats$(if $(filter uml,$(ENGINE)),-uml).json

attack: build $(ASYMLAB) ## peers that misbehave, toward each controller, as root; and toward Prague where an image has it
	$(Q)ATTACK=full $(B)/venv/bin/python -m pytest -s tests/live/test_peers_live.py tests/lab/test_peers_lab.py

soak: build $(IMAGE) $(ASYMLAB) ## load, connect and send at length, as root, resumes; SOAK_ACKS, SOAK_CONNECTIONS, SOAK_LOADS
	$(Q)for what in acks=$(SOAK_ACKS) connections=$(SOAK_CONNECTIONS) loads=$(SOAK_LOADS); do \
		$(B)/venv/bin/python -m tests.live.soak $${what%=*} $${what#*=} --resume $(B)/soak-$${what%=*}.json; done
	$(Q)$(B)/venv/bin/python -m tests.live.soak hours

# --- the tree -----------------------------------------------------------------------------
lock: ## renew requirements.lock from pyproject.toml
	$(Q)python3 -m venv $(B)/lock && $(B)/lock/bin/pip install -q pip-tools
	$(Q)$(B)/lock/bin/pip-compile -q --extra build --extra cluster --extra report --extra test --extra lint --allow-unsafe --generate-hashes --no-emit-index-url --no-emit-find-links \
		--strip-extras --no-header -o requirements.lock pyproject.toml

clean: ## remove build/
	$(Q)rm -rf $(B)

help: ## this list
	@awk '/^# --- / { title = $$0; gsub(/^# --- |:.*| -*$$/, "", title) } \
		/^[a-z0-9-]+:.*## / { name = $$1; sub(/:.*/, "", name); sub(/.*## /, ""); \
			if (title) printf "\n%s\n", title; title = ""; printf "  make %-15s %s\n", name, $$0 }' Makefile
