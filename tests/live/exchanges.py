# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Connections whose every byte is checked, between the ends of a pair, and the numbers of controller and kernel."""

from __future__ import annotations

import contextlib
import json

from tests.live.cgroups import HOME, within
from tests.live.harness import asymcc, endpoint, run, saying

BYTES = 2_000_000


@contextlib.contextmanager
def exchange(
    pair,
    server: str,
    client: str,
    cc: str,
    server_cc: str | None = None,
    n: int = BYTES,
    outside: str = "",
    at_server: dict | None = None,
    at_client: dict | None = None,
):
    """Runs both roles till the client has found all bytes right; inside, the connection may still be open."""
    there: dict = {"address": "10.9.0.2", "port": 7300, "n": n}
    own = cc if server_cc is None else server_cc
    serving = endpoint(server, pair.server, **there, cc=own, **(at_server or {}))
    asking = endpoint(client, pair.client, **there, cc=cc, **(at_client or {}))
    leave = within(HOME)
    with saying("ready", *leave * (outside == "server"), *serving):
        with saying("right", *leave * (outside == "client"), *asking):
            yield


def counted(name: str) -> dict[str, int]:
    return {c["name"]: c["value"] for c in json.loads(asymcc("show", name, "--json"))["counters"]}


def connections(pair, ns: str) -> str:
    """The lines of `ss` about the test's connections there."""
    return pair.sh(ns, "ss", "-tinHO", "sport", "=", ":7300").stdout


@contextlib.contextmanager
def sockets_in_storage(name: str, objects, tmp_path):
    """A function that counts the sockets which have an entry in the instance's storage."""
    ops = next(row["map_id"] for row in json.loads(asymcc("list", "--json")) if row["name"] == name)
    maps = json.loads(run("bpftool", "-j", "map", "list").stdout)
    btf = next(m["btf_id"] for m in maps if m["id"] == ops)
    wires = next(m["id"] for m in maps if m["type"] == "sk_storage" and m.get("btf_id") == btf)
    run("mount", "-t", "bpf", "none", tmp_path)
    try:
        run("bpftool", "iter", "pin", objects / "storages.bpf.o", tmp_path / "storages")
        yield lambda: dict(map(int, line.split()) for line in (tmp_path / "storages").read_text().splitlines())[wires]
    finally:
        run("umount", tmp_path)
