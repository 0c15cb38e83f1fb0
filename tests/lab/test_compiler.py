# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sources of strangers: what their compiler can reach, and what they may take."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from asymlab import LabError, landlock
from asymlab.cage import CAGE
from asymlab.machine.image import DEFAULT_KERNEL
from asymlab.paths import BUILD
from asymlab.plan import compiler, objects
from tests.ktap import built
from tests.shared import CAGES, LAB, asymlab, one_line, run

pytestmark = built
TYPES = BUILD / "image" / LAB
PROGRAM = """#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") __u32 BPF_PROG(ssthresh, struct sock *sk) { return 2; }
SEC("struct_ops") __u32 BPF_PROG(undo, struct sock *sk) { return 2; }
SEC("struct_ops") void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked) {}

SEC(".struct_ops") struct tcp_congestion_ops mine = {
	.ssthresh = (void *)ssthresh, .undo_cwnd = (void *)undo, .cong_avoid = (void *)avoid, .name = "mine",
};
"""
INCLUDED = 'asm(".section .rodata\\n.incbin \\"{}\\"");\n'
BOMB = "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint c = 0 B(B(B(+1)));\n"


@pytest.fixture
def uncached():
    def clear():
        for function in (compiler._compiled, compiler._cage):
            function.cache_clear()

    clear()
    yield clear
    clear()


@pytest.fixture(params=CAGES)
def caged(request, monkeypatch, uncached):
    monkeypatch.setenv(CAGE, request.param)


def source(folder: Path, more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "mine.bpf.c"
    file.write_text(PROGRAM + more)
    return file


@pytest.mark.parametrize(
    "more, why",
    [
        (INCLUDED.format("{secret}"), "Could not find incbin file '{secret}'; it sees the folder of the source"),
        (INCLUDED.format("../secret"), "Could not find incbin file '../secret'"),
        (INCLUDED.format("link"), "Could not find incbin file 'link'"),
        (INCLUDED.format("/dev/zero"), "Could not find incbin file '/dev/zero'"),
        (INCLUDED.format("/proc/self/environ"), "Could not find incbin file"),
        ('#include "{secret}"\n', "; it sees the folder of the source"),
        ("char big[1 << 30] = {{1}};\n", "its object would have more than 64 MB"),
        (BOMB, "clang needs more than 300 MB of memory for it"),
    ],
)
def test_a_source_gets_no_file_of_the_host_and_no_more_than_it_may(tmp_path, monkeypatch, caged, capfd, more, why):
    monkeypatch.setattr(compiler, "MEMORY_MAX", 300 << 20)
    secret = tmp_path / "secret"
    secret.write_text("the user's own words\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(secret)
    file = source(tmp_path / "folder", more if more is BOMB else more.format(secret=secret))
    with pytest.raises(LabError) as error:
        compiler.compiled(file, TYPES)
    assert f"{file}: " in str(error.value) and why.format(secret=secret) in str(error.value)
    assert "own words" not in capfd.readouterr().err


def test_an_error_behind_many_warnings_is_shown(tmp_path, uncached, capfd):
    source = tmp_path / "mine.bpf.c"
    source.write_text(
        "".join(f"static void unused_{i}(void) {{}}\n" for i in range(60)) + "int f(void) { return nosuch; }\n"
    )
    with pytest.raises(LabError, match="error: use of undeclared identifier 'nosuch'"):
        compiler.compiled(source, None)
    assert "nosuch" in capfd.readouterr().err


def test_a_compiler_that_does_not_end_is_ended(tmp_path, monkeypatch, uncached):
    monkeypatch.setattr(compiler, "COMPILE_S", 1)
    with pytest.raises(LabError, match="clang takes more than 1 s"):
        compiler.compiled(source(tmp_path, 'asm(".rept 1000000000000\\n.endr");\n'), TYPES)


def test_a_scenario_that_is_only_planned_compiles_in_the_cage(scenario_file, tmp_path):
    source(tmp_path, INCLUDED.format("/etc/passwd"))
    r = asymlab("run", scenario_file(flow={"controller": "./mine.bpf.c"}), "--dry-run", "--image", LAB)
    assert r.returncode == 1 and "Could not find incbin file '/etc/passwd'" in r.stderr.splitlines()[-1]


def test_without_a_cage_nothing_is_compiled_unless_that_is_asked_for(tmp_path, monkeypatch, uncached):
    """Then the object has the same bytes, and the limits hold; so it is behind Landlock."""
    file = source(tmp_path)
    caged = compiler.compiled(file, TYPES)
    monkeypatch.setenv(CAGE, "landlock")
    uncached()
    assert compiler.compiled(file, TYPES) == caged
    monkeypatch.delenv(CAGE)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    uncached()
    words = (
        "no cage for a compiler here .*No permissions.*Landlock is off.*compile the source elsewhere.*ASYMLAB_CAGE=none"
    )
    with pytest.raises(LabError, match=words):
        compiler.compiled(file, TYPES)
    monkeypatch.setenv(CAGE, "none")
    uncached()
    assert compiler.compiled(file, TYPES) == caged
    monkeypatch.setattr(compiler, "MEMORY_MAX", 300 << 20)
    source(tmp_path, INCLUDED.format("/dev/zero"))
    uncached()
    with pytest.raises(LabError, match="clang needs more than 300 MB of memory for it"):
        compiler.compiled(file, TYPES)


@pytest.mark.parametrize("changed", ["mine.bpf.c", "mine.h", "vmlinux.h"])
def test_what_changes_is_compiled_again(tmp_path, changed):
    """In one process, as in a notebook."""
    file = source(tmp_path, '#include "mine.h"\nint c = VALUE;\n')
    (tmp_path / "mine.h").write_text("#define VALUE 1\n")
    (tmp_path / "vmlinux.h").symlink_to(TYPES / "vmlinux.h")
    before = compiler.compiled(file, tmp_path)
    assert compiler.compiled(file, tmp_path) is before
    text = (tmp_path / changed).read_text()
    (tmp_path / changed).unlink()
    (tmp_path / changed).write_text(text.replace("VALUE 1", "VALUE 2") + "\nint more = 1;\n")
    assert compiler.compiled(file, tmp_path) != before


@pytest.mark.parametrize("tool", ["clang", "llvm-strip"])
def test_the_tool_that_takes_too_much_is_named(tmp_path, monkeypatch, uncached, tool):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 90\n")
    slow.chmod(0o755)
    own = compiler._tool
    monkeypatch.setattr(compiler, "_tool", lambda name: slow if name == tool else own(name))
    monkeypatch.setattr(compiler, "COMPILE_S", 9)
    monkeypatch.setenv(CAGE, "none")
    with pytest.raises(LabError, match=f"mine.bpf.c: {tool} takes more than 9 s"):
        compiler.compiled(source(tmp_path), TYPES)


@pytest.mark.parametrize("suffix", [".bpf.o", ".ko"])
def test_a_file_that_is_too_large_is_not_read(tmp_path, suffix):
    file = tmp_path / f"mine{suffix}"
    with open(file, "wb") as f:
        f.truncate(3 << 30)
    began = time.monotonic()
    with pytest.raises(LabError, match="3221225472 bytes, more than the 67108864 that it may have"):
        objects.data(objects.File(file), None)
    assert time.monotonic() - began < 5


OWN = "struct vegas { __u32 base_rtt; };\nenum bbr_mode { BBR_STARTUP, BBR_DRAIN };\nstruct vegas state;\n"


def test_a_source_may_have_types_that_linuxs_own_controllers_have(tmp_path):
    """A kernel that has them built in has their types; what the kernel itself uses is no source's to define."""
    folder = tmp_path / "types"
    folder.mkdir()
    text = (TYPES / "vmlinux.h").read_text()
    theirs = "struct vegas { int x; };\nstruct yeah { struct vegas vegas; };\nenum bbr_mode { BBR_STARTUP = 7 };\n"
    (folder / "vmlinux.h").write_text(text if "struct vegas {" in text else theirs + text)
    assert compiler.compiled(source(tmp_path / "own", OWN), folder)
    with pytest.raises(LabError, match="redefinition of 'tcp_sock'"):
        compiler.compiled(source(tmp_path / "kernels", "struct tcp_sock { int x; };\n"), folder)


def test_a_program_without_its_section_is_told_what_to_write(tmp_path):
    file = source(tmp_path)
    file.write_text(file.read_text().replace('SEC("struct_ops") __u32 BPF_PROG(undo', "__u32 BPF_PROG(undo"))
    with pytest.raises(LabError, match=r'has undo, .*: write SEC\("struct_ops/undo"\) before it'):
        objects.data(objects.File(file), TYPES)


RING = """
struct {{
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, {} << 20);
}} ring SEC(".maps");

SEC("struct_ops") void BPF_PROG(sees, struct sock *sk, __u8 state)
{{
	__u64 *record = bpf_ringbuf_reserve(&ring, 8, 0);

	if (record)
		bpf_ringbuf_discard(record, 0);
}}

SEC(".struct_ops") struct tcp_congestion_ops with_ring = {{
	.ssthresh = (void *)ssthresh, .undo_cwnd = (void *)undo, .cong_avoid = (void *)avoid, .set_state = (void *)sees,
	.name = "with_ring",
}};
"""
TABLE = """
struct value {{ char text[1000]; }};
struct {{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, {} << 10);{}
	__type(key, __u32);
	__type(value, struct value);
}} table SEC(".maps");
"""


OF_ARRAYS = """
typedef __u64 row[1024];
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3 << 10);
	__type(key, __u32);
	__type(value, row[10]);
} rows SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3 << 10);
	__type(key, __u32);
	__type(value, void *);
} pointers SEC(".maps");
"""


@pytest.mark.parametrize(
    "more, mb",
    [
        ("", 0),
        (RING.format(256), 256),
        (TABLE.format(100, ""), 104),  # the kernel tells 110,234,576 bytes of it
        (TABLE.format(100, "\n\t__uint(map_flags, BPF_F_NO_PREALLOC);"), 0),
        (OF_ARRAYS, 240),
        ("char unset[83 << 20];\nlong set[] = { 1 };\n", 83),
    ],
)
def test_what_an_objects_maps_take(tmp_path, more, mb):
    assert objects.maps_mb(compiler.compiled(source(tmp_path, more), TYPES)) == mb


@pytest.mark.parametrize("name", [b"t\xf3xt", b"t\x01xt"])
def test_an_object_with_damaged_types(tmp_path, name):
    """A name in them that is no text, or has a control character."""
    whole = compiler.compiled(source(tmp_path, TABLE.format(1, "")), TYPES)
    assert whole.count(b"\0text\0") == 1
    with pytest.raises(LabError, match=r"an object's types \(BTF\) are damaged: compile it again"):
        objects.maps_mb(whole.replace(b"\0text\0", b"\0" + name + b"\0"))


@pytest.mark.parametrize(
    "image, flows, mb, room",
    [
        (LAB, 1, 1536, "a guest of uml has room for 1408 MB: "),
        (LAB, 500, 1024, "a guest of uml has room for 778 MB beside 500 flows: "),
        (DEFAULT_KERNEL, 1, 1536, "a guest of qemu has room for 256 MB: "),
    ],
)
def test_maps_that_no_guest_has_room_for(scenario_file, tmp_path, image, flows, mb, room):
    source(tmp_path, RING.format(mb))
    file = scenario_file(flow={"controller": "./mine.bpf.c:with_ring", "count": flows})
    refused = asymlab("run", file, "--dry-run", "--image", image)
    one_line(refused, f"{file}: controller: with_ring.bpf.o has maps of {mb} MB: {room}make them smaller")


@pytest.mark.lab
def test_a_large_map_gets_the_memory_that_it_takes(scenario_file, tmp_path):
    source(tmp_path, RING.format(256))
    run(scenario_file(flow={"controller": "./mine.bpf.c:with_ring"}))


UNALIGNED = """
#define inet_csk(sk) ((struct inet_connection_sock *)sk)
#define tcp_sk(sk) ((struct tcp_sock *)sk)

SEC("struct_ops") void BPF_PROG(reads, struct sock *sk, __u8 state)
{
	__u64 *odd = (void *)inet_csk(sk)->icsk_ca_priv + 4;

	if (*(volatile __u64 *)odd > 7)
		tcp_sk(sk)->snd_cwnd = 9;
}

SEC(".struct_ops") struct tcp_congestion_ops odd = {
	.ssthresh = (void *)ssthresh, .undo_cwnd = (void *)undo, .cong_avoid = (void *)avoid, .set_state = (void *)reads,
	.name = "odd",
};
"""


@pytest.mark.lab
def test_a_program_may_read_at_any_address_as_on_every_x86(scenario_file, tmp_path):
    source(tmp_path, UNALIGNED)
    assert run(scenario_file(flow={"controller": "./mine.bpf.c:odd"})).valid


OLD = """
SEC("struct_ops") void BPF_PROG(control, struct sock *sk, const struct rate_sample *rs)
{
	if (rs->delivered > 7)
		((struct tcp_sock *)sk)->snd_cwnd = 9;
}

SEC(".struct_ops") struct tcp_congestion_ops old = {
	.ssthresh = (void *)ssthresh, .undo_cwnd = (void *)undo, .cong_control = (void *)control, .name = "old",
};
"""


@pytest.mark.lab
def test_arguments_of_an_older_kernel_are_told(scenario_file, tmp_path):
    source(tmp_path, OLD)
    words = "program control: R.* invalid mem access 'scalar' .*from Linux 6.10 on cong_control is called with sk, ack"
    with pytest.raises(LabError, match=words):
        run(scenario_file(flow={"controller": "./mine.bpf.c:old"}))
