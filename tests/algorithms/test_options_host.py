# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""This holds for both controllers that speak by TCP options, ACC+SA and Formosa: whose connections they touch, which
ACKs they may drop, and that a segment which the kernel does not accept does nothing."""

import pytest

from tests.algorithms.host import accsa, formosa
from tests.algorithms.host.formosa import ACK, CALL, ECE, FIN, PARSE, PSH, RST, SEG, SYN, WRITE, ip_packet, passes, room

MS = 1000
SPEAKERS = {"accsa": accsa, "formosa": formosa}


@pytest.fixture(params=SPEAKERS)
def words(request):
    """The options of one: its module in host/."""
    return SPEAKERS[request.param]


@pytest.fixture
def driver(request, words):
    return request.getfixturevalue(words.NAME)


# --- who speaks -------------------------------------------------------------------------------


@pytest.mark.parametrize("other, chosen, listens", [(0, 0, True), (1, 0, True), (0, 1, True), (1, 1, False)])
def test_a_listener_keeps_the_syns(driver, other, chosen, listens):
    """Not one for which another controller was chosen: it does not answer a hello."""
    driver.start()
    driver.poke(other=other, chosen=chosen)
    got = driver.call(op=CALL["listen"])
    assert got.get("option") == ([6, 27, 1] if listens else None)
    assert driver.state()["tp"]["cb_flags"] == WRITE * listens


def test_a_listener_that_keeps_its_syns_keeps_them_its_way(driver):
    driver.start()
    driver.poke(other=0, keeps_syn=2)
    assert "option" not in driver.call(op=CALL["listen"]) and driver.state()["tp"]["cb_flags"] == WRITE


def test_the_room_of_another_program_stays_its(driver, words):
    (theirs,) = (speaker.HELLO for speaker in SPEAKERS.values() if speaker is not words)
    driver.start(other=1, cb_flags=WRITE)
    for keys in ({"flags": SYN}, {"flags": SYN | ACK, "full": 0, "syn": theirs}):
        assert driver.write(others=4, **keys)["options"] == "01010101"


def test_flags_are_never_cleared(driver, words):
    """Whoever else set them: also before us, and on connections that are none of ours."""
    silent = [{"syn": b""}, {"synack": b""}, {"synack": b"", "other": 1}, {"syn": words.HELLO}]
    for keys in (*silent, words.RECEIVER, words.RECEIVER | {"other": 1}, words.RECEIVER | {"fails": 1}):
        driver.start(cb_flags=0x7F, **keys)
        for op in CALL.values():
            driver.call(op=op)
        assert driver.state()["tp"]["cb_flags"] == 0x7F


@pytest.mark.parametrize("params", [None, {"init_cwnd": 2}, {"init_cwnd": 1024}])
@pytest.mark.parametrize("cwnd, ssthresh, sent", [(10, formosa.NO_SSTHRESH, 0), (12, 7, 0), (3, 7, 0), (40, 20, 100)])
def test_to_receive_changes_no_window(driver, words, params, cwnd, ssthresh, sent):
    keys = {"other": 1, "snd_cwnd": cwnd, "snd_ssthresh": ssthresh, "data_segs_out": sent}
    driver.start(params, **words.RECEIVER, **keys)
    assert driver.read(options=words.data(1), len=SEG)["controller"].startswith(words.NAME)
    state = driver.state()
    assert not state["tp"]["other"] and (state["tp"]["snd_cwnd"], state["tp"]["snd_ssthresh"]) == (cwnd, ssthresh)
    if words is formosa:
        assert (state["ca"]["w"], state["ca"]["ssthresh"]) == (cwnd, ssthresh), "where it sends, it goes on with it"


@pytest.mark.parametrize("since", ["listen", "accept"])
@pytest.mark.parametrize("why", ["chosen", "locked"])
def test_another_controller_that_was_chosen_stays(driver, words, since, why):
    """By the application, `use --cgroup` or a locked route: no ACK is forced or dropped, and no answer written, so
    that the sender falls back."""
    driver.start(**words.RECEIVER, other=1, **({why: 1} if since == "listen" else {}))
    driver.poke(**{why: 1}, cb_flags=WRITE | PARSE)
    for i in range(3):
        option, seq = words.data(1 + i, flags=words.FLAGS), 1 + i * SEG
        assert "controller" not in driver.read(options=option, len=SEG, seq=seq, rcv_nxt=seq)
        driver.ack(n=0)
    state = driver.state()
    assert state["tp"]["other"] and not state["tp"]["pending"] and state["counters"]["flows"] == 0
    assert state["wire"]["receiving"] == state["wire"]["thin"] == room(driver) == 0
    assert passes(driver, 1 + 3 * SEG)
    driver.start(**words.RECEIVER, chosen=1)  # it was ours
    driver.read(options=words.data(1), len=SEG)
    assert driver.state()["wire"]["receiving"] == 1


# --- a segment that is not accepted -----------------------------------------------------------

UNACCEPTABLE = [{"ack": ack} for ack in (-1, -(2**30), 1, 2**31, 2**31 - 1)] + [{"flags": 0}, {"flags": PSH}]


@pytest.mark.parametrize("forged", UNACCEPTABLE)
def test_a_segment_that_is_not_accepted_does_nothing(driver, words, forged):
    """Whoever is off the path may hit the window by its place, but not the ACK: no switch, no count, no ACK let
    through or held back."""

    def read_forged():
        before = driver.state()
        keys = dict(forged)
        if "ack" in forged:
            keys["ack"] = (before["tp"]["snd_nxt" if forged["ack"] > 0 else "snd_una"] + forged["ack"]) % 2**32
        for raw in words.WILD:
            for place in (0, SEG, -SEG, 40 * SEG):
                got = driver.read(options=raw, len=SEG, seq=(before["tp"]["rcv_nxt"] + place) % 2**32, **keys)
                assert "controller" not in got and driver.state() == before

    driver.start(**words.RECEIVER, other=1)
    read_forged()
    words.quiet(driver)
    read_forged()
    words.at_w(driver, 64)
    read_forged()


# --- which ACKs are dropped -------------------------------------------------------------------


def test_data_without_options_is_acknowledged(driver, words):
    receiver, now = words.quiet(driver)
    assert not receiver.acknowledge(now)
    for _ in range(3):
        receiver.next += SEG
        assert receiver.acknowledge(now)


def test_an_ack_said_before_passes(driver, words):
    """Keep-alives and zero-window probes ask for it, also if it did not pass before."""
    receiver, now = words.quiet(driver)
    assert not receiver.acknowledge(now + 1)
    assert receiver.acknowledge(now + 2)
    assert receiver.acknowledge(now + 3)
    assert not receiver.acknowledge(now + 4, rcv_wnd=2**20 - 1)


def test_a_keepalive_passes(driver, words):
    """It looks like a pure ACK, of a byte that was acknowledged long ago."""
    receiver, _ = words.quiet(driver)
    una = driver.state()["tp"]["snd_una"]
    assert not driver.egress(packet=ip_packet(receiver.next, seq=una))["pass"]
    driver.poke(rcv_wnd=2**20 - SEG)  # else it was said before
    assert driver.egress(packet=ip_packet(receiver.next, seq=una - 1))["pass"]


@pytest.mark.parametrize("timestamps", [b"", b"\x01\x01\x08\x0a" + bytes(8)])
@pytest.mark.parametrize("version", [4, 6])
def test_a_report_of_a_duplicate_passes(driver, words, version, timestamps):
    """A SACK block below the ACK."""
    receiver, _ = words.quiet(driver)
    ack, windows = receiver.next, iter(range(2**20 - SEG, 0, -SEG))

    def passes_with(left, right, kind=5):
        driver.poke(rcv_wnd=next(windows))  # else it was said before
        sack = b"\x01\x01" + bytes([kind, 10]) + left.to_bytes(4, "big") + right.to_bytes(4, "big")
        return passes(driver, ack, options=timestamps + sack, version=version)

    assert not passes_with(ack + SEG, ack + 4 * SEG)
    assert not passes_with(ack, ack + SEG)
    assert passes_with(1, SEG)
    assert not passes_with(1, SEG, kind=254)
    assert not passes_with(ack + SEG, ack + 4 * SEG)


@pytest.mark.parametrize(
    "window, grows, told",
    [(1000, 1, True), (1000, 0, False), (5 * SEG, 1, False), (4 * SEG - 1, 1, True), (4 * SEG, 1, False)],
)
def test_a_window_that_reopens_is_told(driver, words, window, grows, told):
    """If the one that the sender knows has less than two packets of room."""
    receiver, now = words.quiet(driver, rcv_wnd=window)  # told with the first packet: at 1 + SEG + window
    edge = 1 + SEG + window
    assert bool(receiver.acknowledge(now, rcv_wnd=edge - receiver.next + grows)) == told


@pytest.mark.parametrize("version", [4, 6])
def test_only_pure_acks_are_dropped(driver, words, version):
    receiver, _ = words.quiet(driver)
    before = driver.state()
    for flags in (FIN | ACK, SYN | ACK, RST, RST | ACK):
        assert passes(driver, receiver.next, flags=flags, version=version)
    for payload in (b"x", bytes(100)):
        assert passes(driver, receiver.next, payload=payload, version=version)
    assert passes(driver, receiver.next, owned=0, version=version)
    raw = ip_packet(receiver.next, version=version)
    assert driver.egress(packet=raw, type=3)["pass"] == 1
    assert driver.state() == before
    for i, (flags, options) in enumerate(((ACK, b""), (ACK | PSH, b""), (ACK, bytes(40)), (ACK, bytes(12)))):
        driver.poke(rcv_wnd=2**20 - SEG - i)  # else it was said before
        assert not passes(driver, receiver.next, flags=flags, options=options, version=version)
    driver.poke(rcv_wnd=2**20 - SEG - 4)
    assert passes(driver, receiver.next, flags=ACK | ECE, version=version)


@pytest.mark.parametrize("version", [4, 6])
def test_cut_packets_pass(driver, words, version):
    receiver, _ = words.quiet(driver)
    whole = ip_packet(receiver.next, version=version)
    for length in range(len(whole)):
        assert driver.egress(packet=whole[:length])["pass"]
    for at, value in ((0, 0x75), (9 if version == 4 else 6, 17)):
        assert driver.egress(packet=whole[:at] + bytes([value]) + whole[at + 1 :])["pass"]
    assert not driver.egress(packet=whole)["pass"]


def test_nothing_is_dropped_before_the_kernel_answers_when_told(driver, words):
    """in_ack_event shows that this controller runs; without it nobody forces ACKs."""
    driver.start(**words.RECEIVER, rcv_nxt=1)
    for i in range(5):
        driver.read(now=i, options=words.data(1), len=SEG, seq=1 + i * SEG, rcv_nxt=1 + i * SEG)
        driver.poke(wire__due=0)
        assert passes(driver, 1 + (i + 1) * SEG)


def test_nothing_is_dropped_of_an_ordinary_connection(driver, words):
    for keys in (words.RECEIVER, words.RECEIVER | {"fails": 1}, {"syn": b"", "ecn_flags": 1}, {"syn": b""}, {}):
        driver.start(**keys)
        driver.ack(n=0)
        assert all(passes(driver, ack) for ack in (1, 1, 961, 500))
        assert driver.state()["tp"]["pending"] == 0
        assert driver.state()["counters"]["acks_sent"] == 0


def test_another_controller_forces_and_drops_no_acks(driver, words):
    receiver, _ = words.quiet(driver)
    assert not passes(driver, receiver.next) and room(driver) == words.ANSWER + words.DATA
    driver.release()
    assert passes(driver, receiver.next - 1) and room(driver) == words.ANSWER
