# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each controller on the host, one process for all tests of a session."""

import pytest

from host.driver import Driver, build


def running(name):
    driver = Driver(build(name))
    yield driver
    assert driver.close() == 0, driver.process.stderr.read()


@pytest.fixture(scope="session")
def formosa():
    yield from running("formosa")


@pytest.fixture(scope="session")
def pair(formosa):
    for other in running("formosa"):
        yield formosa, other


@pytest.fixture(scope="session")
def fusion():
    yield from running("fusion")


@pytest.fixture(scope="session")
def taichung():
    yield from running("taichung")


@pytest.fixture(scope="session")
def accsa():
    yield from running("accsa")


@pytest.fixture(scope="session")
def nreno():
    yield from running("nreno")


@pytest.fixture(scope="session")
def vegas95():
    yield from running("vegas95")


@pytest.fixture(scope="session")
def ctcp():
    yield from running("ctcp")


@pytest.fixture(scope="session")
def areno():
    yield from running("areno")
