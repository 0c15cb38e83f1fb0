# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller of bpf/ against whatever a stack and a peer may do; `make fuzz` goes on from here."""

import functools
import shutil

import pytest

from tests.algorithms.host import driver, fuzz

INPUTS = 4000  # beside those of the corpus
COVERED = 90  # percent of each controller's branches

# Most of the others cannot be reached on the host: they are there for the verifier (a full socket without tcp_sock, a
# row beyond a table, a map without its one entry), a controller's name of 16 bytes, a callback to write without room
# or without payload.


@functools.cache
def played(name):
    """The corpus and some inputs more, the same each time."""
    found = fuzz.FOUND / "test" / name
    shutil.rmtree(found, ignore_errors=True)
    return fuzz.fuzz(name, f"-runs={INPUTS}", "-seed=1", found=found)


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.controllers())
def test_inputs_break_no_rule(name):
    run = played(name)
    assert not run.failed, fuzz.explain(run)
    assert run.executions >= INPUTS


@pytest.mark.slow
def test_branches_are_covered(record_property):
    """Each controller covers its own sources; all together cover the shared ones."""
    runs = {name: played(name) for name in fuzz.controllers()}
    table = [fuzz.branches(fuzz.parts(name), [runs[name]]) for name in fuzz.controllers()]
    table.append(fuzz.branches([fuzz.SHARED], [*runs.values()]))
    record_property("table", "\n".join(map(str, table)))
    assert [missed for row in table if row.percent < COVERED for missed in (str(row), *row.missed)] == []


@pytest.mark.parametrize("tx_start", [0, 1])
@pytest.mark.parametrize("name", fuzz.controllers())
def test_first_packet_ends_no_idle_time(of, name, tx_start):
    """Long after boot, and after some time of thought: nothing to take over."""
    of(name).start(now=10**9, tx_start=tx_start, app=0)
    of(name).send(now=10**9 + 700_000, app=2**32 - 1)
    of(name).ack(now=10**9 + 740_000, rtt=40_000)
    counters = of(name).state()["counters"]
    assert counters.get("reloads", counters.get("idle_restarts", 0)) == 0


@pytest.mark.parametrize("name", ["fast", "pseudorate"])
def test_taken_up_amid_a_recovery(of, name):
    """ssthresh, to which the stack is reducing, stays; else it is out of the way."""
    for state, ssthresh in ((3, 50), (0, 2)):
        of(name).start(data_segs_out=100, state=state, snd_ssthresh=50)
        assert of(name).state()["tp"]["snd_ssthresh"] == ssthresh


@pytest.mark.parametrize("name", fuzz.controllers())
def test_a_clamp_lowered_under_way_ends_growth(of, name):
    for count in range(1, 40):
        of(name).start(now=0)
        acks = [driver.line("ack", rtt=40000, now=40000 + i) for i in range(count)]
        window = of(name).batch(acks)[-1]["cwnd"]
        assert of(name).ack(rtt=40000, snd_cwnd_clamp=window)["cwnd"] <= window


FAULTS = {
    "grows_unused": "grows while the application limits",
    "no_clamp": "above the clamp",
    "no_window": "no window",
    "shared": "two outcomes",
    "by_zero": "division by zero",
    "beyond": "out of bounds",
    "too_large": "does not fit 64 bits",
    "in_recovery": "changed during recovery",
    "ssthresh_1": "ssthresh below 2",
    "raises": "a loss raises ssthresh",
    "lowers": "undo lowers",
}


@pytest.fixture
def broken(tmp_path):
    """Inputs for the controller with a fault."""

    def run(fault, by_w):
        return fuzz.fuzz("broken", f"-runs={INPUTS}", "-seed=1", fixed=(f"fault={fault}", f"by_w={by_w}"),
                         source=driver.HERE / "broken.bpf.c", found=tmp_path / "broken")  # fmt: skip

    return run


@pytest.mark.slow
@pytest.mark.parametrize("by_w", [0, 1], ids=["cong_avoid", "cong_control"])
@pytest.mark.parametrize("number, words", [*enumerate(["", *FAULTS.values()])], ids=["none", *FAULTS])
def test_faults_are_found(broken, number, words, by_w):
    run = broken(number, by_w)
    assert run.failed == (number != 0), run.words[-2000:]
    assert words in run.words


def test_a_failing_input_is_a_short_stream(broken):
    run = broken(11, 0)
    lines = 40 * ["set by_w=0"] + fuzz.lines_of(run)  # what the search finds may be short itself
    few = fuzz.shortest(run.binary, lines)
    assert "undo lowers" in fuzz.failure(run.binary, few)
    assert len(few) <= len(lines) / 5
    for i in range(len(few)):  # it needs each line
        assert "undo lowers" not in (fuzz.failure(run.binary, few[:i] + few[i + 1 :]) or "")


def test_a_stream_that_breaks_no_rule_holds():
    assert fuzz.failure(driver.build("fast"), ["new now=0", "ack rtt=40000 now=40000"]) is None


def test_a_source_without_a_state_is_told(tmp_path):
    source = tmp_path / "bare.bpf.c"
    source.write_text("int x;\n")
    with pytest.raises(LookupError, match=r"bare.bpf.c: no STATE\(struct bare\)"):
        driver.write_fields("bare", source, None)
