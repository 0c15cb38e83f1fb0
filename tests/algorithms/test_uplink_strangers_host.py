# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink`: its meter and its law before whatever leaves and comes; `make fuzz` goes on from here."""

import shutil
import subprocess

import pytest

from tests.algorithms.host import driver, fuzz
from tests.algorithms.host.fuzz import UPLINK

INPUTS = 300  # beside those of the corpus
COVERED = 90  # percent of the branches
ALONE, BESIDE, DOWN = bytes([0] * 5), bytes([2] + [0] * 4), bytes([0, 32, 0, 0, 0])
DATA = bytes(3)
# A far end tells of a queue of 25 ms on a slow, idle line, and connections that begin then take that over.
BASES = bytes.fromhex(
    "ff0000000000c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9c9000000a5a5a5a55f919191796e912f"
    "a5a5a5a5a5a5a5a5a5a5a5a5a5a5ffffffff3dffffffffa5a5a5a5a5a56006005a0000ffa5a5a501ffffffffffffa5a5a5a5a500000001"
    "ffffffffffffffff00006006005a0000ff"
)
LAW, METER = "loader/uses/uplink_law.c", "bpf/tools/uplink.bpf.c"


def wait(ms):
    return bytes([11, 255, 0]) * (ms // 255) + bytes([11, ms % 255, 0])


def ack(back=0, lie_ms=0, scale=0):
    """One of the last data but so many; it tells a time that is wrong by that, in units of 1, 8 or 64 ms."""
    return bytes([5 | scale << 5, back, lie_ms % 256])


def answer_after_minutes():
    return ALONE + DATA + bytes([13, 150, 150]) + ack()


def way_of_two_rtts():
    return ALONE + b"".join(DATA + wait(50) + ack(lie_ms=lie) + wait(30) for lie in (0, -48, 48)) + wait(200)


def data_again_that_has_arrived():
    return BESIDE + DATA + 2 * bytes([1, 0, 0])


def queue_that_grows_faster_than_time():
    """The far end's ACKs take 75 ms, of which the last has waited for 576 ms longer than the first."""
    loud = 40 * bytes([8, 0, 0])
    later = b"".join(ack(15 - i, 40, 1) + wait(25) for i in range(1, 4)) + ack(5, -32, 1) + loud + wait(120)
    return DOWN + 16 * (DATA + wait(45)) + ack(15, 48, 1) + wait(765) + later


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return fuzz.fuzz(UPLINK, f"-runs={INPUTS}", "-seed=1", found=tmp_path_factory.mktemp("found") / UPLINK)


@pytest.mark.slow
def test_no_input_breaks_a_rule(played):
    assert not played.failed, fuzz.explain(played)
    assert played.executions >= INPUTS


@pytest.mark.slow
def test_branches_are_covered(played):
    table = fuzz.branches(fuzz.parts(UPLINK), [played])
    assert table.percent >= COVERED, table.missed


def changed(folder, file, old, new):
    """The sources with this in place of that; and the program of them."""
    for part in ("bpf", "loader/uses"):
        shutil.copytree(driver.TOP / part, folder / part)
    text = (folder / file).read_text()
    assert text.count(old) == 1
    (folder / file).write_text(text.replace(old, new))
    return fuzz.program(UPLINK, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given, file, old, new, rule",
    [
        (None, LAW, "l->rate = fmin(fmax(l->rate, l->least), l->most);", "", "the rate is out of its bounds"),
        (None, LAW, "l->noise = fmin(fmax(l->noise, NOISE_LEAST), NOISE_MOST);", "", "no noise is that"),
        (way_of_two_rtts(), METER, "min((u64)(length - base), rtt_ns)", "length - base", "longer than there was time"),
        (data_again_that_has_arrived(), LAW, "if (tried && lost >", "if (tried && lost > 2 +", "pin the rate"),
        (None, METER, "if (!c || !(p->h.flags & ACK)", "if (!c)\nbpf_map_update_elem(&connections, &p->of, "
         "(const void *)&unknown, BPF_ANY);\nif (!c || !(p->h.flags & ACK)", "what comes makes an entry"),
        (answer_after_minutes(), METER, "now - left_ns < PATIENCE_NS", "left_ns <= now", "than there is patience"),
        (queue_that_grows_faster_than_time(), LAW, "(long long)(last->at_ns", "(last->at_ns", "no capacity is that"),
        (BASES, LAW, "queue > threshold(l) / 2 && !ends", "queue > threshold(l) && !ends", "a rate stays pinned"),
    ],
    ids=["bounds", "noise", "wait", "again", "stranger", "late", "down", "bases"],
)  # fmt: skip
def test_a_fault_is_found(tmp_path, played, given, file, old, new, rule):
    """By the corpus, or by what is given; which as it is breaks no rule."""
    broken = changed(tmp_path, file, old, new)
    if not given:
        run = fuzz.fuzz(UPLINK, "-runs=0", source=tmp_path, found=tmp_path / "found")
        assert run.failed and rule in run.words, run.words[-2000:]
        return
    (tmp_path / "given").write_bytes(given)
    words = subprocess.run([broken, tmp_path / "given"], capture_output=True, text=True, errors="replace")
    assert words.returncode and rule in words.stderr, words.stderr[-2000:]
    subprocess.run([played.binary, tmp_path / "given"], check=True, capture_output=True)
