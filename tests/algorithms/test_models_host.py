# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each law beside its model (models/), call by call, over whatever ACKs, losses, marks and pauses are drawn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, bounded, lines_of, packets, rtts, steps, strange
from tests.algorithms.models.accsa import Accsa
from tests.algorithms.models.fast import Fast
from tests.algorithms.models.formosa import Formosa
from tests.algorithms.models.fusion import Fusion
from tests.algorithms.models.ports import Bpf_bic, Bpf_highspeed, Bpf_vegas, Bpf_westwood
from tests.algorithms.models.prague import Prague
from tests.algorithms.models.pseudorate import Pseudorate
from tests.algorithms.models.rivals import Areno, Ctcp, Cubic9438, Nreno, Vegas95
from tests.algorithms.models.taichung import Taichung

LAWS = (Fast, Fusion, Taichung, Pseudorate, Nreno, Vegas95, Ctcp, Areno, Cubic9438)
LAWS += (Bpf_vegas, Bpf_westwood, Bpf_highspeed, Bpf_bic, Prague, Accsa, Formosa)
MODELS = {law.__name__.lower(): law for law in LAWS}
ENDLESS = 2**31 - 1  # ssthresh of a connection that begins


def compare(model, answers):
    """Each answer's calls beside the model's."""
    for i, call in enumerate(call for answer in answers for call in answer["calls"]):
        differences = model.follow(call)
        assert not differences, (i, call["op"], call["args"], differences)


def under_way(driver, model, draw, mss):
    """A connection with any state that its law may have, its window filled. Its RTTmin."""
    window, state = model.start(draw)
    flight, near = draw(packets), st.integers(-3, 3).map(lambda more: max(window + more, 2))
    una, base = driver.state()["tp"]["snd_una"], state.get("rtt_min", 40 * MS)
    if "round_end" in model.fields:
        state["round_end"] = una if draw(st.booleans()) else (una + 2**30) % 2**32
    stack = {
        "snd_cwnd": window, "ca.cwnd": window, "snd_ssthresh": draw(st.sampled_from([2, ENDLESS]) | near | packets),
        "max_packets_out": flight, "packets_out": flight, "sacked_out": 0, "srtt_us": draw(st.just(base) | rtts) << 3,
        "snd_nxt": (una + flight * mss) % 2**32,
    }  # fmt: skip
    driver.poke(**stack | {name if name.startswith("wire.") else f"ca.{name}": value for name, value in state.items()})
    now = driver.state()
    model.adopt(now["ca"], now["counters"])
    return base


def acks(base):
    """ACKs of a connection under way, most of them with an RTT near its least."""
    near = st.integers(0, 20).map(lambda percent: min(base + base * percent // 100, RTT_MAX))
    times = st.just(base) | near | rtts
    return st.builds(lambda n, rtt, dt: ("ack", {"n": n, "rtt": rtt}, dt), packets, times, st.integers(0, 50 * MS))


def stamped(lines, draw):
    """Most ACKs carry the clock of a peer, in ms; their way took some time, that of one anything."""
    ways, offset = st.integers(0, 400) | st.just(20), draw(st.integers(0, 2**32 - 1))
    strays = draw(st.sets(st.integers(0, len(lines)), max_size=1))
    for i, words in enumerate(lines):
        now = int(words.split("now=")[1].split()[0]) // MS
        way = draw(st.integers(0, 2**31)) if i in strays else draw(ways)
        yield f"{words} rcv_tsval={(now - way + offset) % 2**32}" if words.startswith("ack") else words


OFF = ("slow_start", "noise_start", "fair", "rtt_min_win_s")  # these have models or tests of their own


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=250)
@given(data=st.data())
def test_the_code_is_the_model(of, name, data):
    driver = of(name, None, "trace")
    known = driver.params()
    params = {key: 0 if key in OFF else value[1] for key, value in known.items()}
    params |= {key: data.draw(bounded(known[key])) for key in known if key not in OFF and data.draw(st.booleans())}
    model = MODELS[name](params)
    clamp, mss = data.draw(st.sampled_from([1, 2, 50, W_MAX, 2**32 - 1])), data.draw(st.sampled_from([536, 1448, 9000]))
    seq, either = data.draw(st.integers(0, 2**32 - 1)), st.booleans()
    driver.do("reset")
    model.before = driver.state()["counters"]
    model.clear()
    driver.do("set", **params)
    keys = {"snd_cwnd_clamp": clamp, "mss_cache": mss, "seg": mss, "snd_una": seq, "snd_nxt": seq}
    keys |= model.HANDSHAKE if data.draw(st.sampled_from([True, True, False])) else {}
    first = driver.new(now=0, tx_start=data.draw(either), data_segs_out=data.draw(either), **keys)
    compare(model, [first])
    stream = data.draw(st.lists(steps() | strange | model.STEPS, min_size=20, max_size=60))
    if data.draw(either):
        base = under_way(driver, model, data.draw, mss)
        stream = data.draw(st.lists(acks(base) | model.STEPS, min_size=1, max_size=9)) + stream
    lines = lines_of(stream, clamp)
    compare(model, driver.batch([*stamped(lines, data.draw)] if "forward_delay" in known else lines))
