# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lab itself, in virtual machines: determinism, physics, FAST's behaviour, what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest

from asymlab import LabError
from asymlab.machine import build, image, kernel, vm
from asymlab.machine.kernel import apt_source
from asymlab.paths import BUILD, GUEST
from asymlab.plan import scenario
from asymlab.results import metrics, store
from asymlab.run import cost
from asymlab.run.tasks import plan_runs
from asymlab.shell import sh
from tests.scenarios import CHAIN, CROSSING, FAST, PLAIN, alpha
from tests.shared import KERNELS, REPO, asymlab, check_physics, counters, one_line, repeated, run

pytestmark = pytest.mark.lab
QEMU = image.DEFAULT_KERNEL  # whose engine is the subject

# --- determinism ---------------------------------------------------------------------------


def test_same_seed_same_bytes_on_a_loaded_machine_other_seed_other_bytes(scenario_file):
    first, second, other = repeated(scenario_file, QEMU)
    assert first.record["executed"] == second.record["executed"] != other.record["executed"]


@pytest.mark.parametrize("rate, seconds", [("1mbit", 1), ("100mbit", 2)])
def test_a_run_executes_what_a_plan_expects(scenario_file, rate, seconds):
    """To within a fifth, as `--dry-run` promises: few packets, where set-up is all, and many."""
    times = {"duration": f"{seconds}s", "measure_from": "0.5s"}
    file = scenario_file(forward={"rate": rate, "delay": "2ms"}, run=times)
    guest = image.open_image()
    (task,) = plan_runs(scenario.load(file), guest)
    assert run(file, QEMU).record["executed"] == pytest.approx(cost.QEMU.expected(task.packets), rel=0.2)


# --- FAST on each kernel -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_fast_fills_a_path_and_holds_alpha_packets_in_its_queue(scenario_file, kernel):
    r = run(scenario_file(FAST, alpha(30), run={"trace_state": True}), kernel)
    check_physics(r)
    assert r.record["agent"]["kernel"].startswith(kernel + ".")
    assert r.metrics["utilisation"] >= 0.95
    assert r.metrics["forward"]["queue_mean"] == pytest.approx(30, rel=0.15)
    n = counters(r, "fast")
    assert n["flows"] >= 1 and n["updates"] > 20 and n["doublings"] >= 3 and n["losses"] == 0
    # Its private state, at each ACK: the window of its own is the one that TCP has.
    state, acks = r.state(0), r.acks
    assert len(state) == len(acks) > 2000 and (state["t"] == acks["t"]).all()
    assert (state["w_q8"] >> 8 == acks["cwnd"]).mean() > 0.95
    assert 40_000 <= state["rtt_min"][-1] < 40_400


@pytest.mark.parametrize("kernel", KERNELS)
def test_fast_registered_by_bpftool_alone(scenario_file, kernel):
    """The object as it is: its alpha is four times the root of its rate, here of 9.5 Mbit/s."""
    r = run(scenario_file(FAST, controllers={"fast": {"loader": "bpftool"}}), kernel)
    check_physics(r)
    assert r.metrics["utilisation"] >= 0.95
    assert r.metrics["forward"]["queue_mean"] == pytest.approx(12, rel=0.15)


def test_fast_is_bound_by_the_ack_path(scenario_file):
    """k_f = 40 B * 10 Mbit/s / (1000 B * 0.1 Mbit/s) = 4: Theorem 1 gives a quarter of the link."""
    times = {"duration": "12s", "measure_from": "6s"}
    r = run(scenario_file(FAST, alpha(50), reverse={"rate": "0.1mbit"}, run=times))
    check_physics(r)
    assert r.metrics["throughput_bps"] == pytest.approx(2.5e6, rel=0.03)
    assert r.metrics["reverse_utilisation"] == pytest.approx(1, abs=0.01)
    assert r.metrics["reverse"]["queue_mean"] == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize("controller, traced", [("fast", False), ("reno", True)])
def test_no_state_of_a_run_that_did_not_trace_it_nor_of_the_kernels_own_controllers(scenario_file, controller, traced):
    r = run(scenario_file(flow={"controller": controller}, run={"trace_state": traced}))
    assert not list(r.folder.glob("state*"))
    with pytest.raises(LabError, match="no state of flow 0: it takes run.trace_state and a controller with STATE"):
        r.state(0)


def test_fast_survives_loss_and_halves(scenario_file):
    r = run(scenario_file(FAST, PLAIN, alpha(20), forward={"loss": "1%"}))
    check_physics(r)
    assert counters(r, "fast")["losses"] >= 3
    assert r.metrics["flows"][0]["retransmits"] >= 3
    # No stall, and no less than Reno's sqrt(3/2p) packets an RTT of 40 ms, BDP 50 packets.
    halves = metrics.goodput_bins(r.goodput, 0, 3, 0.5)[1:]
    assert (halves > 0).all()
    assert r.metrics["utilisation"] >= (3 / 2 / 0.01) ** 0.5 / 50


def test_two_fast_flows_share_by_alpha(scenario_file):
    half = {"flows": [{"controller": "half"}], "controllers": {"half": {"object": "fast", "alpha": 20}}}
    r = run(scenario_file(FAST, alpha(40), half, run={"duration": "16s", "measure_from": "8s"}))
    check_physics(r)
    a, b = (f["goodput_bps"] for f in r.metrics["flows"])
    assert 1.6 <= a / b <= 2.4


def test_a_flow_that_stops_sends_no_more(scenario_file):
    """At once, not when its socket's buffer is empty; and it loses nothing by that before."""
    r = run(scenario_file(flow={"stop": "1.5s"}, flows=[{"controller": "reno", "start": "1.4s"}]))
    first, second = (metrics.goodput_bins(r.goodput, f, 3, 0.1) for f in (0, 1))
    assert first[5:15].mean() > 9e6 and (first[18:] == 0).all()
    assert second[20:].mean() > 9e6


# --- chains --------------------------------------------------------------------------------


def test_a_parking_lot_of_three_hops(scenario_file):
    """One flow over three hops, one that joins it on the second, one on the third."""
    r = run(scenario_file(CHAIN, PLAIN, CROSSING))
    rows = {row["what"]: row["measured"] for row in r.record["agent"]["self_check"]}
    for i, rtt_ms in enumerate((60, 20, 24)):
        assert rows[f"base RTT src{i}-dst{i}, us"] / 1e3 == pytest.approx(rtt_ms, abs=0.2)
        assert r.metrics["flows"][i]["rtt_s"]["min"] * 1e3 >= rtt_ms
        for side in ("forward", "reverse"):
            assert rows[f"{side} rate src{i}-dst{i}, bit/s"] == pytest.approx(1e7, rel=0.005)
    m = r.metrics
    long, second, third = (f["throughput_bps"] for f in m["flows"])
    carried = [hop["forward"]["utilisation"] * 1e7 for hop in m["hops"]]
    # A hop carries what its flows deliver, but for data that is under way, or waits behind a gap, at either end of
    # the window: 75 packets in 60 ms and 50 in the queue, in 2 s.
    assert carried == pytest.approx([long, long + second, long + third], abs=125 * 8000 / 2)
    assert m["busiest"] in ("hop 2", "hop 3") and 0.9 < m["utilisation"] <= 1.005
    assert m["hops"][0]["forward"]["utilisation"] < 0.6
    for hop, flows in zip(m["hops"], ((0,), (0, 1), (0, 2))):
        assert hop["reverse"]["pure_acks"] == hop["reverse"]["packets"] > 0
        arrived = int((np.isin(r.acks["flow"], flows) & (r.acks["t"] >= 1) & (r.acks["t"] < 3)).sum())
        assert hop["reverse"]["packets"] == pytest.approx(arrived, abs=20)


def test_reverse_flow_and_delayed_acks(scenario_file):
    back = {"controller": "cubic", "direction": "reverse", "ack": "delayed"}
    r = run(scenario_file(flow={"ack": "delayed"}, flows=[back]))
    assert r.metrics["utilisation"] > 0.5 and r.metrics["reverse_utilisation"] > 0.5
    assert r.metrics["acks_per_data_packet"] < 0.7


# --- the store -----------------------------------------------------------------------------


def test_a_finished_run_is_not_computed_again_and_repeats_by_its_own_command(scenario_file, monkeypatch):
    file = scenario_file()
    first = run(file, QEMU)
    monkeypatch.setattr(vm, "run", lambda *a, **k: pytest.fail("ran again"))
    assert run(file, QEMU).record == first.record
    assert first.record["command"] == f"asymlab run {file} --set quick --seed 1 --engine qemu"


def test_a_full_disk_loses_only_the_run_under_way(scenario_file, tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    r = run(scenario_file())
    files = {"agent.json": json.dumps(r.record["agent"]).encode(), "trace.bin": trace_of(r)}
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=True)
    try:
        monkeypatch.setattr(store, "STORE", small / "store")
        with pytest.raises(LabError, match="No space left on device; the run is lost"):
            store.save("0" * 32, r.record["identity"], {"name": "x"}, files)
        assert list((small / "store").iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def trace_of(r) -> bytes:
    """A trace file with the acks of a run, as `asymcc trace` would have written it."""
    from asymlab.results import trace

    rows = np.zeros(len(r.acks), trace.ACK)
    rows["type"], rows["lport"], rows["cwnd"] = 1, 61000, r.acks["cwnd"]
    rows["t_ns"] = (r.acks["t"] * 1e9).astype("i8") + r.record["agent"]["zero_ns"]
    header = np.zeros(1, trace.HEADER)
    header["magic"], header["version"], header["record"] = b"ASYMCCT1", 1, 64
    end = np.zeros(1, trace.END)
    end["type"] = 4
    return header.tobytes() + rows.tobytes() + end.tobytes()


# --- what goes wrong -----------------------------------------------------------------------


@pytest.fixture
def left_machines(monkeypatch, tmp_path):
    """Remains of this test's virtual machines: command lines, cut, and folders of none that runs. Other tests
    may run some."""
    monkeypatch.setenv("ASYMLAB_STARTED_BY", str(tmp_path))

    def left() -> list[str]:
        lines, used = [], ""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_text()
                if "qemu-system" in line:
                    used += line
                    if str(tmp_path) in (process / "environ").read_text():
                        lines.append(line[-200:])
        return lines + [f.name for f in (BUILD / "tmp").glob("vm-*") if f.name not in used]

    def for_good() -> list[str]:
        there = set(left())
        for _ in range(30):
            if not there:
                break
            time.sleep(0.1)
            there &= set(left())
        return sorted(there)

    return for_good


def test_no_qemu(scenario_file, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    file = scenario_file(mtu=999)
    code = "import os, sys; import asymlab; os.environ['PATH'] = sys.argv.pop(1); from asymlab.cli import main; main()"
    p = subprocess.run(
        [sys.executable, "-c", code, str(tools), "run", str(file)], capture_output=True, text=True, cwd=REPO
    )
    one_line(p, "qemu-system-x86_64", "not installed", "make deps")


@pytest.mark.parametrize("command", [("run",), ("publish", "--front")])
def test_a_python_without_a_module(scenario_file, command):
    code = "import sys; sys.modules['_lzma'] = None; from asymlab.cli import main; main()"
    argv = [sys.executable, "-c", code, *command, *([scenario_file()] if command == ("run",) else [])]
    one_line(subprocess.run(argv, capture_output=True, text=True, cwd=REPO), sys.executable, "no module _lzma")


def test_a_python_whose_module_cannot_be_loaded(scenario_file, tmp_path):
    (tmp_path / "lzma.py").write_text(
        "try:\n    import _lzma\nexcept ImportError as e:\n    raise ImportError('a\\nb') from e\n"
    )
    (tmp_path / f"_lzma{EXTENSION_SUFFIXES[0]}").write_text("no program, and longer than the header of one" * 9)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from asymlab.cli import main; main()"
    p = subprocess.run([sys.executable, "-c", code, "run", scenario_file()], capture_output=True, text=True, cwd=REPO)
    one_line(p, f"{sys.executable}: ", "invalid ELF header; install it")


def test_a_cpu_that_numpy_was_not_built_for(scenario_file, tmp_path):
    """The words of numpy on a Penryn; another's error is none of this."""
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from asymlab.cli import main; main()"
    for text in ("NumPy was built with\n(X86_V2) but\n(X86_V2).\n", "another"):
        (tmp_path / "numpy.py").write_text(f"raise RuntimeError({text!r})\n")
        argv = [sys.executable, "-c", code, "run", scenario_file()]
        p = subprocess.run(argv, capture_output=True, text=True, cwd=REPO)
        if text == "another":
            assert p.returncode and "Traceback" in p.stderr and p.stderr.endswith("RuntimeError: another\n")
        else:
            one_line(p, "NumPy was built with (X86_V2) but (X86_V2); an older numpy may serve")


def test_image_that_is_not_made(scenario_file):
    one_line(asymlab("run", scenario_file(), "--image", "9.9"), "image 9.9: not made", "asymlab image --kernel 9.9")


@pytest.fixture
def old():
    """Writes an image `old`: the manifest of 6.12, with what `change` does to it."""
    source, old = BUILD / "image" / "6.12", BUILD / "image" / "old"
    shutil.rmtree(old, ignore_errors=True)

    def write(change) -> None:
        old.mkdir()
        manifest = json.loads((source / "manifest.json").read_text())
        change(manifest)
        (old / "manifest.json").write_text(json.dumps(manifest))

    yield write
    shutil.rmtree(old)


def test_image_of_another_tree(scenario_file, old):
    old(lambda manifest: manifest["parts"]["agent.py"].update(sha256="0" * 64))
    one_line(asymlab("run", scenario_file(), "--image", "old"), "image old: made with another agent.py")


def test_image_booted_by_another_qemu(scenario_file, old):
    old(lambda manifest: manifest["qemu"].update(version="QEMU emulator version 4.2.0"))
    words = "image old: booted by another QEMU", "`build/venv/bin/asymlab image --kernel 6.12` renews it"
    one_line(asymlab("run", scenario_file(), "--image", "old"), *words)


@pytest.mark.parametrize("name", [*(f.name for f in GUEST.glob("*.py")), "asymcc", "trace.bpf.o"])
def test_image_of_which_a_part_is_another(tmp_path, monkeypatch, name):
    """Or that has none of this name, as one from before a module came."""
    manifest = json.loads((BUILD / "image" / "6.12" / "manifest.json").read_text())
    (tmp_path / "old").mkdir()
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    for part in (manifest["parts"][name], {"sha256": "0" * 64}, None):
        parts = {k: v for k, v in manifest["parts"].items() if k != name} | ({name: part} if part else {})
        (tmp_path / "old" / "manifest.json").write_text(json.dumps(manifest | {"parts": parts}))
        if part == manifest["parts"][name]:
            image.check_current("old")
        else:
            with pytest.raises(LabError, match=f"image old: made with another {re.escape(name)} than this tree's"):
                image.check_current("old")


def test_a_booted_machine_is_the_same_to_the_byte(tmp_path, monkeypatch):
    """Made anew, under another name, in another place."""
    guest = image.open_image()
    for where in (build, image):
        monkeypatch.setattr(where, "IMAGES", tmp_path)
    build.build_image("6.12", label="again", say=lambda _: None)
    assert (tmp_path / "again" / "memory").read_bytes() == guest.memory.read_bytes()
    assert image.open_image("again").hash == guest.hash


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "No such file"),
        (b"", "neither a bzImage nor an ELF"),
        (b"\x7fELF" + b"\0" * 1000, "without BTF"),
        (b"\0" * 0x202 + b"HdrS" + b"\0" * 1000, "unknown compression"),
    ],
)
def test_unusable_kernels(tmp_path, content, words):
    kernel, modules = tmp_path / "vmlinuz", tmp_path / "6.99.1-mine"
    (modules / "kernel").mkdir(parents=True)
    if content is not None:
        kernel.write_bytes(content)
    one_line(asymlab("image", "--kernel", kernel, "--modules", modules, "--name", "broken"), words, str(kernel))
    assert not (BUILD / "image" / "broken").exists()


def test_a_machine_whose_package_lists_were_cleared(tmp_path, monkeypatch):
    (tmp_path / "apt.conf").write_text(f'Dir::State::Lists "{tmp_path}/cleared/";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    assert not sh("apt-get", "indextargets", "Identifier: Packages")
    source = apt_source(tmp_path)
    assert source.origin in ("Debian", "Ubuntu") and source.site.startswith("http") and source.keyring.exists()


def test_a_machine_without_package_sources(tmp_path, monkeypatch):
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::Lists "{tmp_path}/cleared/";\n'
        'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    with pytest.raises(LabError, match="no Debian or Ubuntu package source .none is configured.; or give --kernel"):
        apt_source(tmp_path)


def test_kernel_series_that_no_suite_has(monkeypatch):
    """There are two suites, one of which the mirror may not carry: apt reads the lists of each."""
    monkeypatch.setattr(kernel, "DEBIAN_SUITES", kernel.DEBIAN_SUITES[:2])
    with pytest.raises(LabError, match=r"^kernel 2\.6: not in the package source; there are: \d[^\n]*$"):
        build.build_image("2.6", say=lambda _: None)


def test_a_machine_that_never_ends_is_stopped(scenario_file, left_machines):
    guest = image.open_image()
    (task,) = plan_runs(scenario.load(scenario_file()), guest)
    with pytest.raises(LabError, match="no end after 1 s"):
        vm.run(guest, task.job, task.objects, limit_s=1)
    assert not left_machines()


def test_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(scenario_file, left_machines):
    """SIGINT after the first of three runs; then the rest only."""
    sweep = {"path.forward.queue": [50, 51, 52]}
    file = scenario_file(mtu=500 + os.getpid() % 400, run={"duration": "4s"}, sweep=sweep)
    argv = [sys.executable, "-m", "asymlab", "run", str(file), "--jobs", "1"]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO)
    assert p.stderr.readline().startswith("3 runs, 0 in the store, 3 left: 12 virtual seconds")
    assert p.stderr.readline().startswith("1/3")
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    _, errors = p.communicate(timeout=60)
    assert p.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    assert not left_machines()
    guest = image.open_image()
    tasks = plan_runs(scenario.load(file), guest)
    done = sum(store.held(t.key) is not None for t in tasks)
    assert 1 <= done < 3
    again = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=300)
    assert again.returncode == 0
    planned, first = again.stderr.splitlines()[:2]
    assert planned.startswith(f"3 runs, {done} in the store, {3 - done} left") and first.startswith(f"{done + 1}/3")
    for t in tasks:
        assert store.find(t.key)


def test_on_host_without_root(scenario_file):
    if os.geteuid() != 0:
        p = asymlab("run", scenario_file(), "--on", "host")
    else:
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        p = subprocess.run(
            [*drop, sys.executable, "-B", "-m", "asymlab", "run", scenario_file(), "--on", "host"],
            capture_output=True,
            text=True,
            cwd=REPO,
            env={**os.environ, "ASYMLAB_BUILD": str(BUILD), "HOME": "/tmp"},
        )
    one_line(p, "root")
