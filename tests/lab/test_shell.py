# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Other programs: no path of a stranger is an option to them."""

from pathlib import Path

import pytest

from asymlab.shell import sh


@pytest.mark.parametrize("name", ["-l", "--help", "@options"])
def test_a_path_is_no_option(tmp_path, name):
    (tmp_path / name).write_text(name)
    assert sh("cat", Path(name), cwd=tmp_path) == name
    assert sh("ls", Path(name), cwd=tmp_path) == f"./{name}\n"
