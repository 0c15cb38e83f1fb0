# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers on the host, each in one process for all tests of a session."""

import pytest

from tests.algorithms.host.driver import HERE, Driver, build


def running(name):
    driver = Driver(build(name))
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def of():
    """The driver of any controller, by its name."""
    drivers = {}

    def started(name, source=None, *mode):
        if (name, mode) not in drivers:
            drivers[name, mode] = Driver(build(name, source), *mode)
        return drivers[name, mode]

    yield started
    for driver in drivers.values():
        assert driver.close() == 0, driver.process.stderr.read()


def fixture_of(name, short=None):
    @pytest.fixture(scope="session", name=short or name)
    def fixture(of):
        return of(name)

    return fixture


fast, fusion, taichung, pseudorate, formosa = map(fixture_of, ("fast", "fusion", "taichung", "pseudorate", "formosa"))
nreno, vegas95, ctcp, areno, accsa = map(fixture_of, ("nreno", "vegas95", "ctcp", "areno", "accsa"))
cubic, bbr, prague = fixture_of("cubic9438", "cubic"), fixture_of("bbr3", "bbr"), fixture_of("prague")


@pytest.fixture(scope="session")
def thin(of):
    """`asymcc thin`, which is no controller."""
    return of("thin", HERE / "thin.bpf.c")
