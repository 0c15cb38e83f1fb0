# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The engine uml: its edits, its cage, what it refuses, and its runs if there is an image (make image ENGINE=uml)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from asymlab import LabError, landlock, syscalls
from asymlab.cage import CAGE, Cage
from asymlab.guest.job import ChangePath, Refusals
from asymlab.machine import build, image, kernel, on_uml, shared, vm
from asymlab.machine.uml import edits, make, source
from asymlab.plan import scenario, topology
from asymlab.plan.topology import plan_job
from asymlab.run.tasks import plan_on_host, plan_runs
from tests.machine.traced import host_calls
from tests.scenarios import FAST
from tests.shared import BUILD, CAGES, REPO, asymlab, one_line, repeated, run, wait_for

ESCAPE = REPO / "tests" / "machine" / "escape.c"
LABEL = "6.12-uml"
RECOVERY, LOSS = 3, 4  # ca_state
CANARY = REPO / "experiments" / "bench" / "cases.toml:canary"
needs_image = pytest.mark.skipif(
    not (image.IMAGES / LABEL / "manifest.json").exists(), reason="no image of the engine uml: make image ENGINE=uml"
)


# --- the source and its edits --------------------------------------------------------------


PLACES = {
    "arch/x86/um/Makefile": "subarch-$(CONFIG_MODULES) += x\n",
    "arch/um/Kconfig": "config UML\n\tselect HAVE_UID16\n\nconfig HZ\n\tint\n\tdefault 100\n\nconfig PGTABLE_LEVELS\n",
    "kernel/trace/Kconfig": "\tdepends on (KPROBE_EVENTS || UPROBE_EVENTS) && PERF_EVENTS\n\tbool\n",
    "arch/um/os-Linux/signal.c": "static void sig_handler_common(int sig)\n{\n\tr.is_user = 0;\n}\n",
    "mm/slub.c": "no storage of sockets\n",
    "kernel/bpf/verifier.c": "\tif (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS))\n"
    "\t\tenv->strict_alignment = true;\n",
    "arch/um/include/linux/time-internal.h": "#define TIMER_MULTIPLIER 256\n#define TIMER_MIN_DELTA  500\n",
    "arch/um/kernel/skas/syscall.c": "#include <linux/time-internal.h>\n"
    "\tsyscall = UPT_SYSCALL_NR(r);\n\tif (syscall >= 0 && syscall < __NR_syscalls) {\n",
    "arch/um/kernel/Makefile": "obj-y = config.o\nobj-$(CONFIG_BLK_DEV_INITRD) += initrd.o\n",
    "net/ipv4/Makefile": "obj-$(CONFIG_BPF_SYSCALL) += bpf_tcp_ca.o\n",
    "arch/x86/net/bpf_jit_comp.c": "#include <linux/netdevice.h>\n\t\tilen = prog - temp;\n"
    "\t\tif (ilen > BPF_MAX_INSN_SIZE) {\n",
    "arch/um/include/asm/processor-generic.h": "\tstruct task_struct *prev_sched;\n",
    "kernel/sched/core.c": "int __sched __cond_resched(void)\n{\n",
    "arch/um/os-Linux/skas/process.c": "#include <sys/wait.h>\n\tptrace(PTRACE_TRACEME, 0, 0, 0);\n",
    "arch/um/kernel/skas/mmu.c": "#include <skas.h>\n\tos_kill_ptraced_process(mmu->id.pid, 1);\n",
    "arch/um/os-Linux/skas/mem.c": "#include <skas.h>\nint unmap(struct mm_id *mm_idp, unsigned long addr, "
    "unsigned long len)\n{\n\treturn 0;\n}\n",
    "arch/um/kernel/tlb.c": "#include <skas.h>\n",
    "lib/random32.c": "#include <linux/bitops.h>\n\treturn (state->s1 ^ state->s2 ^ state->s3 ^ state->s4);\n",
    "drivers/char/random.c": "static void crng_reseed(struct work_struct *work)\nstatic long random_ioctl(\n"
    "\tcase RNDCLEARPOOL:\n\t\t/* No longer has any effect. */\n"
    "\t\tif (!capable(CAP_SYS_ADMIN))\n\t\t\treturn -EPERM;\n\t\treturn 0;\n",
    "kernel/irq/handle.c": "\tadd_interrupt_randomness(desc->irq_data.irq);\n",
    "arch/um/kernel/time.c": "static u64 timer_read(struct clocksource *cs)\n{\n"
    "\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n\tdelta += 1;\n",
    "mm/oom_kill.c": "static int sysctl_panic_on_oom;\n",
    "arch/um/drivers/Makefile": "obj-y := fd.o\n",
    "arch/um/os-Linux/util.c": "\treturn getrandom(buf, len, flags);\n",
    "arch/um/os-Linux/process.c": "old\n",
    "arch/x86/um/os-Linux/registers.c": "new\n",
    "arch/um/os-Linux/user_syms.c": "new\n",
    "arch/um/kernel/um_arch.c": "\tsetup_hostinfo(host_info, sizeof host_info);\n",
    "arch/um/os-Linux/start_up.c": 'fopen("/proc/cpuinfo", "r")\n',
    "include/linux/netdevice.h": "#define MAX_HEADER (LL_MAX_HEADER + 48)\n",
    "include/net/netns/ipv4.h": "\tu8 sysctl_tcp_frto;\n",
    "include/net/tcp.h": "static inline bool tcp_in_cwnd_reduction(const struct sock *sk)\n{\n\treturn 0;\n}\n",
    "net/ipv4/sysctl_net_ipv4.c": '\t{\n\t\t.procname\t= "tcp_frto",\n',
    "net/ipv4/tcp_input.c": "\tif (flag & FLAG_SET_XMIT_TIMER)\n\t\ttcp_set_xmit_timer(sk);\n"
    "\t} else if (!before(tp->snd_una, tp->high_seq)) {\n",
    "net/ipv4/tcp_output.c": "\tif (rearm_timer)\n",
    "arch/um/Makefile": "\tKBUILD_CFLAGS += -mcmodel=large\n",
    "arch/x86/Makefile.um": "old\n",
    "arch/um/kernel/trap.c": "#include <skas.h>\n\tif (UPT_IS_USER(regs) && !SEGV_IS_FIXABLE(fi)) {\n",
    "mm/memory.c": "old\n",
    "fs/kernfs/file.c": "\tssize_t len = min_t(size_t, iov_iter_count(iter), PAGE_SIZE);\n",
}


def tree(folder, **places):
    for name, text in {**PLACES, **places}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "arch/um/include/asm").mkdir(parents=True, exist_ok=True)
    return folder


def contents(folder):
    return {f: f.read_text() for f in folder.rglob("*") if f.is_file() and ".asymlab" not in str(f.relative_to(folder))}


def test_edits_made_twice_are_made_once_and_touch_nothing_the_second_time(tmp_path):
    edits.apply(tree(tmp_path))
    once = contents(tmp_path)
    assert "getrandom" not in once[tmp_path / "arch/um/os-Linux/util.c"]
    times = {f: f.stat().st_mtime_ns for f in once}
    edits.apply(tmp_path)
    assert contents(tmp_path) == once and {f: f.stat().st_mtime_ns for f in once} == times


def test_a_file_that_git_took_back_is_not_compiled_again(tmp_path):
    """make goes by the time of a file."""
    edits.apply(tree(tmp_path))
    edited = [tmp_path / f.relative_to(tmp_path / ".asymlab") for f in contents(tmp_path / ".asymlab")]
    times = {f: f.stat().st_mtime_ns for f in edited}
    tree(tmp_path)
    edits.apply(tmp_path)
    assert len(edited) > 15 and {f: f.stat().st_mtime_ns for f in edited} == times


@pytest.mark.parametrize("name", sorted({e.file for e in edits.EDITS if isinstance(e, edits.Edit) and not e.where}))
def test_a_source_without_a_place_is_refused_and_left_as_it_is(tmp_path, name):
    before = contents(tree(tmp_path, **{name: "something else\n"}))
    with pytest.raises(LabError, match=f"{re.escape(name)}: no place for an edit .*too new or too old"):
        edits.apply(tmp_path)
    assert contents(tmp_path) == before


def test_edits_for_newer_sources_are_made_where_they_apply(tmp_path):
    edits.apply(
        tree(
            tmp_path,
            **{
                "arch/um/os-Linux/process.c": "\tif (using_seccomp)\n\t\tset_handler(SIGCHLD);\n\tend\n",
                "arch/um/kernel/um_arch.c": "\tarch_task_struct_size = sizeof(struct task_struct) + host_fp_size;\n"
                "\tsetup_hostinfo(host_info, sizeof host_info);\n",
                "arch/x86/Makefile.um": "KBUILD_CFLAGS += -fno-builtin -m64\n",
                "mm/slub.c": "kmalloc_nolock()\n\tif (!(s->flags & __CMPXCHG_DOUBLE) && !kmem_cache_debug(s))\n",
            },
        )
    )
    assert (tmp_path / "arch/um/os-Linux/process.c").read_text() == "\tend\n"
    assert "max(host_fp_size, 16384UL)" in (tmp_path / "arch/um/kernel/um_arch.c").read_text()
    assert "IS_ENABLED(CONFIG_UML)" in (tmp_path / "mm/slub.c").read_text()
    assert (tmp_path / "arch/x86/Makefile.um").read_text() == "KBUILD_CFLAGS += -m64\n"


def test_edits_for_6_1_are_made_where_they_apply(tmp_path):
    way = "\tif (have_xstate_support) {\n\t\tiov.iov_base = fp_regs;\n\t\tiov.iov_len = FP_SIZE * "
    way += "sizeof(unsigned long);\n\t\tif (ptrace(PTRACE_%sREGSET, pid)\n"
    edits.apply(
        tree(
            tmp_path,
            **{
                "arch/um/os-Linux/user_syms.c": "EXPORT_SYMBOL_PROTO(rename);\nEXPORT_SYMBOL_PROTO(__xmknod);\n",
                "arch/um/kernel/skas/syscall.c": "#include <linux/time-internal.h>\n"
                "\tsyscall = UPT_SYSCALL_NR(r);\n\tif (syscall >= 0 && syscall < __NR_syscalls)\n\t\tcall;\n",
                "arch/x86/Makefile.um": "ifeq ($(CONFIG_CC_IS_CLANG),y)\nKBUILD_CFLAGS += -mno-sse\nendif\n",
                "arch/x86/um/os-Linux/registers.c": way % "GET" + way % "SET",
            },
        )
    )
    get, set_ = (tmp_path / "arch/x86/um/os-Linux/registers.c").read_text().split("GETREGSET")
    assert get + "GETREGSET" in way % "GET" and "iov.iov_len = sizeof(whole);\n\t\tif (ptrace(PTRACE_SET" in set_
    assert (tmp_path / "arch/um/os-Linux/user_syms.c").read_text() == "EXPORT_SYMBOL_PROTO(rename);\n"
    assert (tmp_path / "arch/um/kernel/skas/syscall.c").read_text().endswith("__NR_syscalls)\n\t\tcall;\n")
    makefile = "ifeq ($(call gcc-min-version, 110000)$(CONFIG_CC_IS_CLANG),y)\nKBUILD_CFLAGS += -mno-sse\nendif\n"
    assert (tmp_path / "arch/x86/Makefile.um").read_text() == makefile


def test_an_edit_that_is_no_more_is_taken_back(tmp_path, monkeypatch):
    edits.apply(tree(tmp_path))
    assert "-mcmodel=small" in (tmp_path / "arch/um/Makefile").read_text()
    monkeypatch.setattr(edits, "EDITS", [e for e in edits.EDITS if e.file != "arch/um/Makefile"])
    edits.apply(tmp_path)
    assert (tmp_path / "arch/um/Makefile").read_text() == PLACES["arch/um/Makefile"]


def test_a_change_of_others_in_an_edited_file_stays(tmp_path):
    """A patch of the kernel's TCP is tried in a tree that was built before."""
    name = "arch/um/Makefile"
    lines = [*"one two three four five six seven".split(), PLACES[name].rstrip(), *"a b c d e f g".split()]
    edits.apply(tree(tmp_path, **{name: "\n".join(lines) + "\n"}))
    edited = (tmp_path / name).read_text()
    assert "seven\n" in edited and PLACES[name] not in edited
    (tmp_path / name).write_text(edited.replace("one\n", "mine\n"))
    for _ in range(2):
        edits.apply(tmp_path)
        assert (tmp_path / name).read_text() == edited.replace("one\n", "mine\n")
    (tmp_path / name).write_text("\n".join(lines[:4]))
    before = contents(tmp_path)
    with pytest.raises(LabError, match=f"{re.escape(name)}: its changes and an edit of the lab's are of"):
        edits.apply(tmp_path)
    assert contents(tmp_path) == before


def test_a_series_that_a_suite_has_not_is_not_another_of_a_similar_name(tmp_path):
    """apt's own: where there is no linux-source-6.1, it tells of linux-source-6.12."""
    suite, state = tmp_path / "suite", tmp_path / "state"
    suite.mkdir()
    fields = "Version: 6.12.1-1\nArchitecture: all\nMaintainer: x\nFilename: ./x.deb\nSize: 1\nDescription: x\n"
    (suite / "Packages").write_text(f"Package: linux-source-6.12\n{fields}SHA256: {'0' * 64}\n")
    state.mkdir()
    (state / "suite.list").write_text(f"deb [trusted=yes] copy:{suite} ./\n")
    options = [*kernel.own_state(state), "-o", f"Dir::Etc::sourcelist={state}/suite.list"]
    options += ["-o", "Dir::Etc::sourceparts=-", "-o", "Dir::State::status=/dev/null"]
    kernel.update(options)
    assert "Version: 6.12.1-1\n" in (kernel.show(options, "linux-source-6.12") or "")
    assert kernel.show(options, "linux-source-6.1") is None


def test_a_folder_that_is_no_source(tmp_path):
    with pytest.raises(LabError, match=f"--tree {tmp_path}: no source of a kernel with arch/um"):
        source.of_user(tmp_path)


def test_a_setting_that_the_source_does_not_take(tmp_path):
    (tmp_path / ".config").write_text(make.CONFIG.read_text().replace("CONFIG_VETH=y\n", "# CONFIG_VETH is not set\n"))
    with pytest.raises(LabError, match="does not take CONFIG_VETH$"):
        make._refuse_config(tmp_path)


def test_settings_of_the_user_count_and_those_that_a_kernel_lacks_are_told(tmp_path):
    """The configuration is made by a stand-in for make, which knows two of the three."""
    folder = tree(tmp_path)
    (folder / "Makefile").write_text(
        "allnoconfig: ; grep -v NO_SUCH $(KCONFIG_ALLCONFIG) >.config\nlinux: ; @echo 'error: stop here'; exit 1\n"
    )
    lines: list[str] = []
    wanted = "CONFIG_HZ=1000\nCONFIG_TUN=y\nCONFIG_NO_SUCH=y\n"
    with pytest.raises(LabError, match="stop here"):
        make.build(source.Source(folder, "user", settings=wanted), lines.append)
    assert "--config: this kernel has no CONFIG_NO_SUCH" in lines
    configured = (folder / ".config").read_text()
    assert "CONFIG_VETH=y" in configured and configured.endswith("CONFIG_HZ=1000\nCONFIG_TUN=y\n")


def test_a_kernel_of_other_settings_has_a_tree_of_its_own(tmp_path):
    plain = source.Source(tmp_path / "linux", "6.12")
    assert plain.called("") is plain and plain.called("tun").tree == tmp_path / "linux-tun"


def test_settings_are_for_this_engine(tmp_path):
    one_line(asymlab("image", "--engine", "qemu", "--config", tmp_path / "x"), "--config: is for the engine uml")
    one_line(asymlab("image", "--engine", "uml", "--config", tmp_path / "x"), f"{tmp_path}/x: No such file")


def test_no_command_of_a_build_names_the_tree(tmp_path):
    """So a tree that was moved or copied builds nothing anew, and the same source has the same bytes anywhere."""
    (flags,) = (option.partition("=")[2] for option in make.OPTIONS if option.startswith("KCFLAGS="))
    objects = []
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.c").write_text("int a(int x) { return x + 1; }\n")
        command = ["sh", "-c", f"gcc -g -O2 {flags} -c a.c -o a.o"]
        subprocess.run(command, cwd=tmp_path / name, env={**os.environ, "PWD": make.HERE}, check=True)
        objects.append((tmp_path / name / "a.o").read_bytes())
    assert objects[0] == objects[1] and str(tmp_path).encode() not in objects[0]


@pytest.mark.parametrize(
    "log, words",
    [
        ("", "compiled 0 files, at the configuration"),
        ("  HOSTCC  scripts/x.o\n  CC      a.o\n", "compiled 1 file, at CC a.o"),
        (
            "  CC      a.o\n  AR      b.a\n  CC      c.o\nc.c: warning\n  LD      vmlinux\n",
            "compiled 2 files, at LD vmlinux",
        ),
    ],
)
def test_a_build_tells_how_many_files_are_compiled_and_its_step(log, words):
    assert make.progress(log) == words


def test_a_build_that_fails_says_why_and_where_the_log_is(tmp_path):
    (tmp_path / "Makefile").write_text("linux:\n\t@echo 'a.c:1:2: error: no such thing'; exit 1\n")
    with pytest.raises(LabError) as e:
        make._make(["make", "-C", str(tmp_path), "linux"], tmp_path / "log", print)
    assert "a.c:1:2: error: no such thing; the log is" in str(e.value) and "\n" not in str(e.value)
    assert "--engine qemu needs no build" in str(e.value)


def test_without_a_compiler_the_other_engine_is_offered(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="gcc, make, .*: not installed; `make deps ENGINE=uml`.*engine qemu"):
        build.build_uml_image(tree=tmp_path)


# --- the command line ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, said",
    [
        (("--engine", "uml", "--modules", "/lib"), "--modules: is for the engine qemu"),
        (("--engine", "uml", "--clock", "1"), "--clock: is for the engine qemu"),
        (("--engine", "uml", "--tree", "/nowhere"), "--tree /nowhere: no source of a kernel"),
        (("--tree", "/nowhere"), "--tree: is for the engine uml"),
    ],
)
def test_options_of_the_other_engine(words, said):
    one_line(asymlab("image", *words), said)


def test_an_engine_that_there_is_not_is_refused_as_a_default_too():
    for words, env in ((("--engine", "bochs"), {}), ((), {"ASYMLAB_ENGINE": "bochs"})):
        r = asymlab("run", CANARY, "--dry-run", *words, env=env)
        assert r.returncode == 2 and "'bochs' (or ASYMLAB_ENGINE): there are qemu and uml" in r.stderr


def test_the_fast_engine_is_taken_and_named_where_its_image_is_made():
    one, suite = ("run", CANARY, "--dry-run"), ("suite", "fast", "--dry-run")
    for words in (one, suite):
        p = asymlab(*words, env={"ASYMLAB_ENGINE": ""})
        assert p.stderr.startswith("engine uml, image 6.12-uml: --engine takes the other\n")
    for words in ((*one, "--engine", "qemu"), (*suite, "--engine", "uml")):
        assert not asymlab(*words, env={"ASYMLAB_ENGINE": ""}).stderr.startswith("engine")
    assert not asymlab(*one, env={"ASYMLAB_ENGINE": "uml"}).stderr.startswith("engine")


def test_where_it_is_not_made_a_packaged_kernel_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    assert image.engine_of("6.12") == "qemu"
    (tmp_path / "6.12-uml").mkdir()
    (tmp_path / "6.12-uml" / "manifest.json").write_text("{}")
    assert [image.engine_of(name) for name in ("6.12", "6.12-uml", "6.1")] == ["uml", "uml", "qemu"]


def test_what_counts_instructions_takes_no_fast_engine_by_itself():
    p = asymlab("bench", "nobody", env={"ASYMLAB_ENGINE": ""})
    one_line(p, "nobody: no controller of")
    help = " ".join(asymlab("profile", "--help").stdout.split())
    assert "up to 30 times faster [qemu]" in help


def test_a_full_disk_is_one_line(tmp_path):
    with pytest.raises(LabError, match=f"{tmp_path}/none: No such file"):
        shared.lay_out(tmp_path / "none" / "shared", 1, Refusals(1, {}), {})


def test_an_image_that_is_not_made_is_named_with_the_command_that_makes_it():
    r = asymlab("run", CANARY, "--engine", "uml", "--image", "5.0")
    one_line(r, "image 5.0-uml: not made", "`asymlab image --engine uml --kernel 5.0` makes it")


# --- the job -------------------------------------------------------------------------------


def test_nodes_take_the_time_that_no_cpu_takes(scenario_file):
    """By default in uml alone; as the scenario says in both; after a change of the path as well."""
    change = {"at": "1s", "direction": "forward", "delay": "7ms"}

    def planned(node_us: int, **path):
        file = scenario_file(FAST, path=path, changes=[change])
        job = plan_job(scenario.load(file)[0], 1, node_us=node_us)
        (changed,) = (c for c in job.changes if isinstance(c, ChangePath))
        return job.probes[0].base_rtt_us, changed.path[0].shape.delay_us

    base, changed = planned(0)
    assert changed == 7000
    assert planned(3) == (base + 6, changed + 3)
    assert planned(3, node_delay="0s") == (base, changed)
    assert planned(0, node_delay="20us") == (base + 40, changed + 20)
    made_by = {engine: image.Image(REPO, image.NATIVE, "", engine, "", {}, 10) for engine in vm.ENGINES}
    assert {engine: guest.node_us for engine, guest in made_by.items()} == {"qemu": 0, "uml": image.NODE_US}


# --- the cage ------------------------------------------------------------------------------


def hostile_image(folder, caged: str, *defines: str) -> image.Image:
    """An image whose kernel is the program that tries to get out."""
    folder.mkdir(exist_ok=True)
    (folder / "root.cpio").write_bytes(b"x")
    place = "/linux" if caged == Cage.BUBBLEWRAP.value else folder / "linux"
    options = [f"-D{d}" for d in (*defines, f'LINUX="{place}"', *["CAGED"] * (caged != Cage.NONE.value))]
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "linux", *options, ESCAPE], check=True)
    return image.Image(folder, image.NATIVE, "0.0", "uml", "0" * 64, {}, 10, "", 0)


@contextlib.contextmanager
def prey(folder):
    """A file, a port and a process that such a program tries to reach, as words for the compiler."""
    secret = folder / "secret"
    secret.write_text("mine")
    with socket.create_server(("127.0.0.1", 0)) as port:
        victim = subprocess.Popen(["sleep", "60"])
        try:
            yield f'SECRET="{secret}"', f'FOLDER="{folder}"', f"PORT={port.getsockname()[1]}", f"PID={victim.pid}"
        finally:
            victim.kill()
            victim.wait()


@pytest.fixture
def fake_image(tmp_path):
    return lambda *defines: hostile_image(tmp_path / "image", on_uml.cage().value, *defines)


@pytest.fixture
def begun(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "shared").write_bytes(bytes(100))
    return folder


@pytest.fixture
def use_cage(monkeypatch):
    def use(kind: str):
        monkeypatch.setenv(CAGE, kind)
        on_uml.cage.cache_clear()

    yield use
    on_uml.cage.cache_clear()


needs_cage = pytest.mark.skipif(not CAGES, reason="no cage: make deps ENGINE=uml")
MAY = {"read what it may read", "fork"}


@pytest.mark.parametrize("caged", [*CAGES, "none"])
def test_what_breaks_out_of_a_guest_sits_in_a_cage(tmp_path, begun, fake_image, use_cage, caged):
    """Without the cage it does most of it: these are tries that succeed elsewhere."""
    use_cage(caged)
    with prey(tmp_path) as words:
        process = on_uml.Process(fake_image(*words), begun)
        process.await_end(30)
    lines = process.console().splitlines()
    assert lines[-1] == "tried all"
    did = {line.removeprefix("did: ") for line in lines[:-1]}
    if caged != "none":
        assert did == MAY
        assert not (tmp_path / "mine").exists()
    else:
        user = {"read a file of the user", "read a file of the host", "write into a folder of the user"}
        assert did >= user | {
            "change the mode of the initramfs",
            "connect to a port of the host",
            "signal a process of the user",
        }


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("caged", CAGES)
def test_a_guest_has_the_hosts_calls_that_a_kernel_needs(begun, fake_image, monkeypatch, use_cage, caged, filtered):
    """Without the filter it does most of them, in the same cage."""
    use_cage(caged)
    if not filtered:
        monkeypatch.setattr(syscalls, "filter_program", lambda _: struct.pack("<HBBI", 6, 0, 0, syscalls.ALLOW))
    process = on_uml.Process(fake_image('SECRET="/x"', 'FOLDER="/x"', "PORT=1", f"PID={1 << 20}"), begun)
    process.await_end(30)
    did = {line.removeprefix("did: ") for line in process.console().splitlines()} - {"tried all"}
    if filtered:
        assert did == MAY
    else:
        assert did >= MAY | {"open a socket", "keep a key", "fork into a namespace", "make a namespace"}


def test_where_there_can_be_no_cage_the_other_engine_is_offered(tmp_path, monkeypatch):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(landlock, "version", lambda: 5)
    on_uml.cage.cache_clear()
    words = "No permissions.*Landlock 5, and 6 keeps signals in.*--engine qemu needs none.*ASYMLAB_CAGE=none.*you trust"
    with pytest.raises(LabError, match=words):
        on_uml.cage()
    (tmp_path / "bwrap").unlink()
    with pytest.raises(LabError, match="bwrap: not installed"):
        on_uml.cage()
    monkeypatch.setenv(CAGE, "none")
    assert on_uml.cage() is Cage.NONE
    on_uml.cage.cache_clear()
    monkeypatch.setenv(CAGE, "no")
    with pytest.raises(LabError, match="ASYMLAB_CAGE=no: none, bubblewrap or landlock"):
        on_uml.cage()


@pytest.mark.lab
@needs_image
def test_a_run_has_the_same_bytes_in_each_cage(use_cage):
    results = set()
    for caged in (*CAGES, "none"):
        use_cage(caged)
        results.add(run(CANARY, LABEL, fresh=True).record["result_sha256"])
    assert len(results) == 1


def test_a_guest_s_memory_is_where_there_is_room_for_it(monkeypatch, tmp_path):
    """A container's /dev/shm has 64 MB."""
    monkeypatch.setattr(on_uml, "MEMORY_FOLDERS", ("/proc", str(tmp_path)))
    assert on_uml.memory_folder(1) == tmp_path
    with pytest.raises(LabError, match="no room for a guest's memory of 1000000000 MB in /proc or "):
        on_uml.memory_folder(10**9)


@needs_cage
def test_a_clock_that_stands_still_ends_the_run(begun, fake_image, monkeypatch):
    monkeypatch.setattr(on_uml, "STALL_S", 1)
    process = on_uml.Process(fake_image("LOOP"), begun)
    try:
        with pytest.raises(LabError, match="its clock stands still for 1 s .*a path without rate and delay"):
            process.await_end(60)
    finally:
        process.close()
    assert process.process.returncode is not None


def test_a_guest_has_memory_for_its_flows_beside_what_tcp_may_take(scenario_file):
    """A few flows, and a job that only asks what an object refuses, have the same command line as ever."""

    def has(flows: int) -> int:
        file = scenario_file(FAST, flow={"count": flows})
        return on_uml.memory_mb(plan_job(scenario.load(file)[0], 1), 0)

    assert on_uml.memory_mb(Refusals(1, {}), 0) == has(1) == has(97) == 512
    assert 512 < has(98) < has(500) < has(1000) == 1920
    assert has(500) * (1 - on_uml.TCP_SHARE) > 500 * on_uml.FLOW_KB / 1024


@needs_image
@pytest.mark.lab
def test_a_run_that_its_memory_does_not_hold_ends_at_once(scenario_file, monkeypatch):
    """Its clock would stand still: a process that is ended for want of memory never gets the CPU to end on."""
    monkeypatch.setattr(on_uml, "memory_mb", lambda job, maps: 72)
    monkeypatch.setattr(on_uml, "STALL_S", 20)
    file = scenario_file(flow={"controller": "cubic", "count": 60})
    (task,) = plan_runs(scenario.load(file), image.open_image(LABEL))
    with pytest.raises(LabError, match="its 72 MB of memory do not hold this run: fewer flows, shorter queues"):
        vm.run(image.open_image(LABEL), task.job, task.objects)


@needs_cage
def test_a_guest_that_is_killed_is_told(begun, fake_image):
    process = on_uml.Process(fake_image("LOOP"), begun)
    wait_for(lambda: process.kernel() and os.readlink(f"/proc/{process.kernel()}/exe") == "/linux")
    os.kill(process.kernel() or 0, signal.SIGKILL)
    with pytest.raises(LabError, match="virtual machine: Killed"):
        process.await_end(60)


# --- the series for upstream ---------------------------------------------------------------


def test_the_series_for_upstream_adds_what_our_edits_add():
    added: dict[str, list[str]] = {}
    for patch in sorted((REPO / "docs" / "upstream").glob("*.patch")):
        for line in patch.read_text().splitlines():
            if line.startswith("+++ b/"):
                lines = added.setdefault(line.removeprefix("+++ b/"), [])
            elif line.startswith("+"):
                lines.append(line[1:])
    for_61 = re.compile(r"#if LINUX_VERSION_CODE < .*?#else\n(.*?)#endif\n", re.S)  # the lab's alone
    new = {e.file: for_61.sub(r"\1", e.text) for e in edits.EDITS if isinstance(e, edits.New)}
    assert {"arch/x86/um/bpf_jit.c", "arch/um/os-Linux/signal.c", "arch/um/kernel/time.c"} <= added.keys()
    for file, lines in added.items():
        if file in new:
            assert "\n".join(lines) + "\n" == new[file], file
            continue
        ours = "\n".join(
            e.new.replace(r"\t", "\t").replace("\\n", "\n") for e in edits.EDITS if e.file == file and e.new
        )
        ours = re.sub(r"\\(?:1|g<1>)", "\n", ours)
        assert not [line for line in lines if line.strip() and line.strip() not in ours], file


# --- runs ----------------------------------------------------------------------------------


@needs_image
@pytest.mark.lab
def test_the_same_bytes_on_a_loaded_machine_and_other_bytes_with_another_seed(scenario_file):
    repeated(scenario_file, LABEL, 3)


@needs_image
@pytest.mark.lab
def test_longer_files_in_the_guest_change_no_byte(scenario_file, tmp_path):
    """Neither random loss nor ports follow from the time that the guest reads files."""
    own = shutil.copy(BUILD / "fast.bpf.o", tmp_path / "mine.bpf.o")
    file = scenario_file(flow={"controller": "./mine.bpf.o"}, forward={"loss": "1%"})
    before = run(file, LABEL, fresh=True).record
    own.write_bytes(own.read_bytes() + bytes(300_000))
    after = run(file, LABEL, fresh=True).record
    assert before["key"] != after["key"] and before["result_sha256"] == after["result_sha256"]


@needs_image
@pytest.mark.lab
def test_a_trace_of_some_acks_is_a_part_of_that_of_all(scenario_file):
    """The first of each interval stays; what the others acknowledged is added to the next. Nothing else changes."""
    every, some = (
        run(scenario_file(FAST, flows=[{"controller": "cubic"}], run={"trace_every": interval}), kernel=LABEL)
        for interval in (None, "100ms")
    )
    assert (every.goodput == some.goodput).all() and (every.links == some.links).all()
    for flow in (0, 1):
        of_all, kept = (r.acks[r.acks["flow"] == flow] for r in (every, some))
        clock = every.record["agent"]["zero_ns"] / 1e9  # intervals are of the kernel's clock
        _, first = np.unique(((of_all["t"] + clock) * 10 + 1e-6).astype(int), return_index=True)
        assert 20 < len(kept) == len(first) < len(of_all) / 5
        same = [name for name in of_all.dtype.names if name != "acked"]
        assert (of_all[first][same] == kept[same]).all()
        assert (np.cumsum(of_all["acked"])[first] == np.cumsum(kept["acked"])).all()


@needs_image
@pytest.mark.lab
def test_both_engines_agree_where_nothing_is_left_to_chance(scenario_file):
    """FAST alone keeps its alpha packets in the queue: goodput, RTT and window are those of its law, on either."""
    file = scenario_file(FAST)
    uml, qemu = (run(file, kernel=k) for k in (LABEL, image.DEFAULT_KERNEL))
    assert uml.metrics["goodput_bps"] == pytest.approx(qemu.metrics["goodput_bps"], rel=1e-3)
    rtts = [r.metrics["flows"][0]["rtt_s"]["p50"] for r in (uml, qemu)]
    assert rtts[0] == pytest.approx(rtts[1], rel=1e-2)
    assert min(p.base_rtt_us for p in uml.job.probes) <= uml.metrics["flows"][0]["rtt_s"]["min"] * 1e6


def _overshoot(scenario_file, profile: str):
    short = {"queue": 60}
    return scenario_file(profile=profile, forward=short, reverse=short, run={"duration": "6s", "measure_from": "0s"})


def _first_recovery(scenario_file, profile: str):
    """The times of the partial ACKs after a slow start's overshoot, s; whether a timeout ended it."""
    r = run(_overshoot(scenario_file, profile), kernel=LABEL)
    acks = r.acks[np.argmax(r.acks["ca_state"] == RECOVERY) :]
    acks = acks[: np.argmax(np.append(acks["ca_state"], 0) != RECOVERY) + 1]
    partial = acks["t"][(acks["ca_state"] == RECOVERY) & (acks["acked"] > 0)]
    return partial, acks["ca_state"][-1] == LOSS


@needs_image
@pytest.mark.lab
def test_the_impatient_variant_restarts_its_timer_with_the_first_partial_ack_alone(scenario_file):
    """RFC 6582. A timer that a later partial ACK restarts waits for 200 ms more at least, and they come each RTT."""
    partial, _ = _first_recovery(scenario_file, "newreno")
    assert len(partial) > 20 and np.diff(partial).max() < 0.2
    impatient, timed_out = _first_recovery(scenario_file, "impatient")
    assert timed_out and 2 <= len(impatient) < 10
    assert impatient[0] == pytest.approx(partial[0])


@needs_image
@pytest.mark.lab
def test_renos_own_recovery_ends_with_the_first_new_ack(scenario_file):
    """RFC 2581, section 3.2, step 6. A timer repairs what else the window lost."""
    r = run(_overshoot(scenario_file, "classic"), kernel=LABEL)
    in_recovery = r.acks["ca_state"] == RECOVERY  # as an ACK finds it
    new = in_recovery & (r.acks["acked"] > 0)
    ends = in_recovery & ~np.append(in_recovery[1:], False)
    assert r.metrics["timeouts"] and new.sum() > 2 and (new == ends).all()


@pytest.mark.parametrize("profile", topology.ENGINE)
def test_a_profile_that_packaged_kernels_have_not_is_refused(scenario_file, profile):
    file = scenario_file(profile=profile)
    packaged = image.Image(REPO, image.NATIVE, "6.12", "qemu", "", {}, 10)
    for plan in (lambda cases: plan_runs(cases, packaged), plan_on_host):
        with pytest.raises(LabError, match=f"test.toml: profile: '{profile}': packaged kernels.* take --engine uml$"):
            plan(scenario.load(file))


@needs_image
@pytest.mark.lab
def test_an_image_that_was_changed_is_refused(tmp_path):
    guest = image.open_image(LABEL)
    for name in guest.sha256:
        shutil.copy(guest.folder / name, tmp_path)
    with open(tmp_path / "root.cpio", "ab") as f:
        f.write(b"\0")
    (task,) = plan_runs(scenario.load(CANARY), guest)
    with pytest.raises(LabError, match=r"root\.cpio: not what its manifest says"):
        vm.run(replace(guest, folder=tmp_path), task.job, task.objects)


# From these a process of the host could learn time or chance, and a run must not need once it has booted.
TELLING = "clock_gettime gettimeofday time clock_nanosleep nanosleep getrandom times getrusage sysinfo timer_create"
TELLING += " timer_settime setitimer alarm timerfd_create poll ppoll select pselect6 openat open socket connect"


@needs_image
@pytest.mark.lab
def test_the_host_calls_of_a_run_tell_neither_time_nor_chance(tmp_path, monkeypatch):
    """Those of the kernel, from the first packet to the results. A read without a call (vDSO) does not show here."""
    guest = image.open_image(LABEL)
    (task,) = plan_runs(scenario.load(CANARY), guest)
    calls = host_calls(guest, task, tmp_path, monkeypatch)
    between = calls[calls.index("first packet") : calls.index("pwrite64(")]
    made_calls = {m[1] for m in re.finditer(r"^(\w+)\(", between, re.M)}
    assert "ptrace" in made_calls and len(made_calls) > 3
    assert not made_calls & {*TELLING.split()}, made_calls & {*TELLING.split()}
