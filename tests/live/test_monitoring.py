# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The node exporter reads what the cron line of docs/operating.md writes, and Prometheus answers the board."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.live.cgroups import within
from tests.live.harness import ASYMCC, ROOT, asymcc, program, run
from tests.live.harness import pytestmark as live
from tests.live.pairs import inside, steady
from tests.live.test_openmetrics import BOARD
from tests.live.test_share import uploads

EXPORTER, PROMETHEUS = "prometheus-node-exporter", "prometheus"
pytestmark = [
    *live,
    pytest.mark.skipif(
        not all(map(shutil.which, (EXPORTER, PROMETHEUS))),
        reason="no Prometheus here: `make check-operation` installs it",
    ),
]
WAIT_S = 60
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: node, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def cron_line() -> str:
    """Queries of docs/operating.md puts into /etc/cron.d."""
    (line,) = re.findall(r"^    \* \* \* \* \* root (.*)$", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE)
    return line


class Prometheus:
    def __init__(self, port: int):
        self.api = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, what: str, **query: str):
        with urllib.request.urlopen(f"{self.api}{what}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            answer_ = json.load(answer)
        assert answer_["status"] == "success"
        return answer_["data"]

    def asked(self, expr: str) -> list[dict]:
        return self.get("query", query=expr)["result"]

    def value(self, expr: str) -> float:
        (values,) = self.asked(expr)
        return float(values["value"][1])


@contextlib.contextmanager
def monitored(folder):
    """A Prometheus, and a function that writes the metrics as cron does."""
    texts = folder / "node-exporter"
    texts.mkdir()
    at, port = free_port(), free_port()
    line = cron_line().replace("/var/lib/prometheus/node-exporter", str(texts))
    assert str(texts) in line
    env = {"PATH": f"{ASYMCC.parent}:{os.environ['PATH']}", "ASYMCC_OBJECTS": str(ROOT / "build")}
    (folder / "prometheus.yml").write_text(CONFIG.format(port=at))
    exporter = [EXPORTER, "--collector.disable-defaults", "--collector.textfile"]
    exporter += [f"--collector.textfile.directory={texts}", f"--web.listen-address=127.0.0.1:{at}"]
    server = [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    server += [f"--web.listen-address=127.0.0.1:{port}"]
    with open(folder / "log", "w") as log, contextlib.ExitStack() as running:
        for argv in (exporter, server):
            running.enter_context(program(*argv, stdout=log, stderr=log))
        yield Prometheus(port), lambda: run("sh", "-c", line, env=env)


def wait_for(holds, what: str) -> None:
    until = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if holds():
                return
        assert time.monotonic() < until, what
        time.sleep(0.5)


def test_the_boards_queries_are_answered(loaded, pair, cgroup, tmp_path):
    """With a controller in use, a share of a cgroup, and ACK thinning: each query of each panel finds something."""
    name, shared = loaded("fast"), loaded("fast")
    inside(pair, "use", name, "--default")
    asymcc("use", shared, "--cgroup", cgroup.path, "--share", "50%")
    asymcc("thin", "--cgroup", cgroup.path)
    board = json.loads(BOARD.read_text())
    (instances,) = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    try:
        with monitored(tmp_path) as (prometheus, write), steady(pair) as send:
            assert send(100_000) == name
            uploads(pair, cgroup, 20)
            write()
            wait_for(lambda: prometheus.asked("asymcc_flows"), "Prometheus has no flows")
            assert prometheus.value("node_textfile_scrape_error") == 0
            assert prometheus.value(f'asymcc_flows{{controller="{name}"}}') == 1
            event = f'asymcc_events_total{{controller="{shared}",event="flows"}}'
            before = prometheus.value(event)
            uploads(pair, cgroup, 5)
            write()
            wait_for(lambda: prometheus.value(event) > before, "a counter stands")

            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", instances).groups()
            (instance,) = prometheus.get(f"label/{label}/values", **{"match[]": metric})
            for panel in board["panels"]:
                for target in panel["targets"]:
                    expr = target["expr"].replace("$__rate_interval", "1m").replace("$instance", instance)
                    assert "$" not in expr, expr
                    values = prometheus.asked(expr)
                    assert values, f"{panel['title']}: {expr}"
                    shown = re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
                    assert all(set(row["metric"]) & set(shown) for row in values), (
                        f"{panel['title']}: no legend: {values}"
                    )
    finally:
        run(*within(cgroup.path), ASYMCC, "thin", "--off", "--cgroup", cgroup.path, check=False)
