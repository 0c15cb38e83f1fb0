# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""loader/uses/setting.c reads the files in /etc/asymcc as systemd does, and as packaging/asymcc.init does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.loader.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]

READER = """
#include <stdio.h>
#include <stdlib.h>
#include "uses/setting.c"
#include "args.c"
#include "view/text.c"

int main(int argc, char **argv)
{
	char *store = NULL, *value = setting_read(argv[argc - 1], "USE");
	struct texts words = {};

	if (value && setting_split(value, &words, &store))
		return 1;
	for (int i = 0; i < words.nr; i++)
		printf("=%s\\n", words.text[i]);
	free(store);
	free(words.text);
	free(value);
	return 0;
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("reader") / "reader"
    (out.parent / "reader.c").write_text(READER)
    flags = "-g -D_GNU_SOURCE -fsanitize=address,undefined -fno-sanitize-recover".split()
    subprocess.run(["cc", *flags, f"-I{ROOT}/loader", out.parent / "reader.c", "-o", out], check=True, timeout=120)
    return out


@pytest.mark.parametrize("text, words", SETTINGS)
def test_a_setting_has_the_words_that_systemd_gives_it(text, words, reader):
    done = subprocess.run([reader, text], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and done.stdout.splitlines() == ["=" + w for w in words], done.stderr
