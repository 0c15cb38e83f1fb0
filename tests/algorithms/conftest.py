# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers on the host, each in one process for all tests of a session."""

import pytest

from tests.algorithms.host.driver import HERE, Driver, build


def running(name):
    driver = Driver(build(name))
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


def fixture_of(name):
    @pytest.fixture(scope="session", name=name)
    def fixture():
        yield from running(name)

    return fixture


formosa, fusion, taichung, accsa = (fixture_of(name) for name in ("formosa", "fusion", "taichung", "accsa"))
nreno, vegas95, ctcp, areno = (fixture_of(name) for name in ("nreno", "vegas95", "ctcp", "areno"))


@pytest.fixture(scope="session")
def thin():
    """`asymcc thin`, which is no controller."""
    driver = Driver(build("thin", HERE / "thin.bpf.c"))
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def pair(formosa):
    for other in running("formosa"):
        yield formosa, other
