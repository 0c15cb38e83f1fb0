# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures of pages and of downloads by programs."""


def page_s(run) -> float:
    """The time that the page took, or the time that it had if it was not there at the end."""
    page = run.programs["page"]
    return (run.job.duration_s if page["end_s"] is None else page["end_s"]) - page["start_s"]


def there_s(run) -> float:
    """The time that the page took. ValueError if it was not there at the end: that tells nothing of a ratio."""
    if run.programs["page"]["end_s"] is None:
        raise ValueError("a page was not there at the end")
    return page_s(run)


def download(run) -> float:
    """The goodput of the connection that carries the most, Mbit/s, between its first and its last packet."""
    return max(run.connections, key=lambda of: of["bytes"])["goodput_bps"] / 1e6
