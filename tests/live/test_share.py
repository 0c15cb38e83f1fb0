# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc use --share: a part of the connections of a cgroup, compared with the rest, that ends itself."""

from __future__ import annotations

import json
import re

import pytest

from tests.live.cgroups import within
from tests.live.harness import asymcc, compile_bpf, endpoint, needs_cgroup2, program, pytestmark, refused, run  # noqa: F401
from tests.live.pairs import enter, listening, set_default

# A pace of 250 kB/s, however fast the path is.
SLOW = """
#include "compat.bpf.h"
char LICENSE[] SEC("license") = "GPL";
static __always_inline void pace(struct sock *sk)
{
	struct sock___pacing *p = (struct sock___pacing *)sk;

	p->sk_pacing_rate = 250000;
	p->sk_pacing_status = SK_PACING_NEEDED;
	tcp_sk(sk)->snd_cwnd = 20;
}
SEC("struct_ops/slow_init") void BPF_PROG(slow_init, struct sock *sk) { pace(sk); }
SEC("struct_ops/slow_control") void BPF_PROG(slow_control, struct sock *sk) { pace(sk); }
SEC("struct_ops/slow_ssthresh") u32 BPF_PROG(slow_ssthresh, struct sock *sk) { return 20; }
SEC("struct_ops/slow_undo") u32 BPF_PROG(slow_undo, struct sock *sk) { return 20; }
SEC(".struct_ops") struct tcp_congestion_ops slow = {
	.init = (void *)slow_init, .cong_control = (void *)slow_control, .ssthresh = (void *)slow_ssthresh,
	.undo_cwnd = (void *)slow_undo, .flags = TCP_CONG_NON_RESTRICTED, .name = "slow",
};
"""


def share_of(name: str) -> dict:
    (share,) = [s for s in json.loads(asymcc("status", "--json"))["shares"] if s["name"] == name]
    return share


def opened(cgroup, count: int, size: int) -> dict[str, int]:
    """By processes of the cgroup, on this machine."""
    with program(*endpoint("drain", address="127.0.0.1", port=0)) as sink:
        port = sink.stdout.readline().strip()
        argv = endpoint("open_each", address="127.0.0.1", port=port, connections=count, n=size)
        return json.loads(run(*within(cgroup.path), *argv).stdout)


def test_it_has_its_part_of_many_connections_and_each_is_counted(loaded, cgroup):
    """A tenth of 3000: within five standard deviations, and as many as the applications saw."""
    name = loaded("fast")
    output = asymcc("use", name, "--cgroup", cgroup.path, "--share", "10%")
    assert output.startswith(f"{name} is used for 10% of new connections in cgroup {cgroup.path}\n")
    seen = opened(cgroup, 3000, 3000)
    count = seen.pop(name)
    assert sum(seen.values()) + count == 3000 and abs(count - 300) < 5 * (3000 * 0.1 * 0.9) ** 0.5
    share = share_of(name)
    assert share["percent"] == 10 and not share["stopped"]
    assert (share["given"]["connections"], share["rest"]["connections"]) == (count, 3000 - count)
    again = opened(cgroup, 100, 3000)  # another draw after another use: not the same sockets
    assert 0 < again.get(name, 0) < 40
    asymcc("use", name, "--cgroup", cgroup.path)
    assert opened(cgroup, 20, 3000) == {name: 20}
    assert not [s for s in json.loads(asymcc("status", "--json"))["shares"] if s["name"] == name]
    asymcc("unload", name, "--drain", "--seconds", "0")
    assert cgroup.names() == []


def test_what_a_server_accepts_is_shared_as_well(loaded, cgroup):
    name = loaded("fast")
    asymcc("use", name, "--cgroup", cgroup.path, "--share", "50")
    with program(
        *within(cgroup.path), *endpoint("accept_each", address="127.0.0.1", port=0, connections=200)
    ) as server:
        port = server.stdout.readline().strip()
        run(*endpoint("open_each", address="127.0.0.1", port=port, connections=200, n=10))
        seen = json.loads(server.stdout.readline())
    assert 60 < seen[name] < 140
    share = share_of(name)
    assert (share["given"]["connections"], share["rest"]["connections"]) == (seen[name], 200 - seen[name])


@pytest.fixture
def slow(alias, tmp_path) -> str:
    (tmp_path / "slow.bpf.c").write_text(SLOW)
    compile_bpf(tmp_path / "slow.bpf.c", tmp_path / "slow.bpf.o")
    name = alias()
    asymcc("load", tmp_path / "slow.bpf.o", "--as", name)
    return name


def uploads(pair, cgroup, count: int) -> dict[str, int]:
    """Sends 100 kB on each connection, over the pair's 20 Mbit/s."""
    with listening(pair, port=7410, role="drain"):
        argv = endpoint("open_each", address="10.9.0.2", port=7410, connections=count, n=100_000)
        return json.loads(run(*within(cgroup.path), *enter(pair.client), *argv).stdout)


def test_a_group_that_is_worse_ends_itself(slow, pair, cgroup):
    """250 kB/s are 2 Mbit/s, beside some 20: it is told within its interval, and given to nobody from then on."""
    asymcc("use", slow, "--cgroup", cgroup.path, "--share", "50%", "--stop-if-worse", "20%", "--least", "4")
    seen = uploads(pair, cgroup, 30)
    share = share_of(slow)
    assert share["stopped"] and 4 <= share["given"]["connections"] < 15 and seen[slow] >= share["given"]["connections"]
    assert 1.6e6 < share["given"]["goodput_bps"] < 2.6e6 and 8e6 < share["rest"]["goodput_bps"] < 24e6
    assert share["goodput_ratio_low"] < share["goodput_ratio"] < share["goodput_ratio_high"] < 0.8
    assert slow not in uploads(pair, cgroup, 10)
    assert share_of(slow) == share, "what comes after is not counted"
    text = asymcc("status")
    assert "goodput was worse by more than 20%" in text
    for command in [["status"], ["top", "--once", "--interval", "0"]] * 10:  # the same second each time
        (line,) = re.findall(r"stopped by itself at [-\d]+ [:\d]+", asymcc(*command))
        assert line in text
    labels = f'{{controller="{slow}",cgroup="{cgroup.path}"}}'
    assert f"asymcc_share_stopped{labels} 1\n" in asymcc("metrics", "--interval", "0")
    asymcc("use", slow, "--cgroup", cgroup.path, "--share", "50%")  # begins anew
    assert not share_of(slow)["stopped"] and share_of(slow)["given"]["connections"] == 0


def test_a_group_that_is_as_good_goes_on(loaded, pair, cgroup):
    """The same controller in both; nothing is stopped by chance."""
    name = loaded("fast")
    set_default(pair, name)
    asymcc("use", name, "--cgroup", cgroup.path, "--share", "50%", "--stop-if-worse", "20%", "--least", "2")
    uploads(pair, cgroup, 40)
    share = share_of(name)
    assert not share["stopped"] and share["given"]["connections"] + share["rest"]["connections"] == 40
    assert share["goodput_ratio_low"] < 1.1 and share["goodput_ratio_high"] > 0.9


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--share", "10%"], "for which connections?"),
        (["--share", "10%", "--default"], "give --cgroup PATH alone"),
        (["--share", "10%", "--cgroup", "CG", "--route", "10.0.0.0/8"], "give --cgroup PATH alone"),
        (["--share", "0", "--cgroup", "CG"], "expected a percentage from 0.01% to 99.99%"),
        (["--share", "100%", "--cgroup", "CG"], "expected a percentage"),
        (["--share", "nan", "--cgroup", "CG"], "expected a percentage"),
        (["--share", "10%x", "--cgroup", "CG"], "expected a percentage"),
        (["--share", "10", "--cgroup", "CG", "--existing"], "leave out --existing"),
        (["--share", "10", "--cgroup", "CG", "--least", "9"], "--least needs --stop-if-worse"),
        (["--stop-if-worse", "10", "--cgroup", "CG"], "need --share"),
        (["--share", "10", "--stop-if-worse", "-5", "--cgroup", "CG"], "--stop-if-worse -5: expected a percentage"),
    ],
)
def test_what_is_no_share_is_refused(argv, words, loaded, cgroup):
    name = loaded("fast")
    assert words in refused("use", name, *[str(cgroup.path) if a == "CG" else a for a in argv])
    assert cgroup.names() == []


@needs_cgroup2
def test_a_trial_takes_no_share_away(loaded, cgroup):
    one, other = loaded("fast"), loaded("fast")
    asymcc("use", one, "--cgroup", cgroup.path, "--share", "10")
    assert f"`asymcc unuse {one} --cgroup {cgroup.path}` first" in refused("try", other, "--cgroup", cgroup.path)
    assert share_of(one)["percent"] == 10
