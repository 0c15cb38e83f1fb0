# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""loader/kernel/registry.c finds an object's members in the kernel, by another name too. The kernel here is made up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OBJECT = ROOT / "build" / "formosa.bpf.o"

RENAMER = """
#include <stdlib.h>
#include "args.c"
#include "kernel/clock.c"
#include "kernel/process.c"
#include "kernel/bpf_link.c"
#include "kernel/registry.c"
#include "view/text.c"
#include "object/elf.c"
#include "object/variables.c"
#include "object/verifier.c"

int controller_available(const char *cc)
{
	return !cc; /* none is */
}

/* A kernel that has the object's types, and calls min_tso_segs otherwise. */
int main(int argc, char **argv)
{
	struct btf *o = btf__parse_elf(argv[1], NULL);
	const struct btf_type *type = btf__type_by_id(o, btf__find_by_name_kind(o, "tcp_congestion_ops", BTF_KIND_STRUCT));
	struct registry r = {};
	const char *missing;
	unsigned int size;
	const void *raw = btf__raw_data(o, &size);
	char *copy = memcpy(malloc(size), raw, size);

	strcpy((char *)memmem(copy, size, "\\0min_tso_segs", 14) + 1, argv[argc - 1]);
	r.kernel = btf__new(copy, size);
	r.ops = btf__type_by_id(r.kernel, btf__find_by_name_kind(r.kernel, "tcp_congestion_ops", BTF_KIND_STRUCT));
	missing = registry_missing(&r, o, type);
	printf("%s", missing ? missing : "none");
	printf(" %d", registry_rename(&r, o, type));
	printf(" %d\\n", !!btf_member_find(o, type, argv[argc - 1]));
	btf__free(r.kernel);
	btf__free(o);
	free(copy);
	return 0;
}
"""


@pytest.fixture(scope="module")
def renamer(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("registry")
    (folder / "renamer.c").write_text(RENAMER)
    binary = folder / "renamer"
    flags = ["-g", "-D_GNU_SOURCE", f"-I{ROOT}/loader", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    subprocess.run(["cc", *flags, folder / "renamer.c", "-o", binary, "-lbpf"], check=True, timeout=120)
    return binary


@pytest.mark.skipif(not OBJECT.exists(), reason="build/formosa.bpf.o is not built: run make")
@pytest.mark.parametrize(
    "name, told",
    [
        ("min_tso_segs", "none 0 1"),
        ("tso_segs", "none 1 1"),  # of a kernel with Google's BBRv3
        ("min_tso_bits", "min_tso_segs 0 0"),
    ],
)
def test_a_member_of_another_name_is_found(renamer, name, told):
    done = subprocess.run([renamer, OBJECT, name], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (told, "")
