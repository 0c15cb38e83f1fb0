# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""sbom.py WHEEL: its bill of materials, CycloneDX 1.6 as JSON, on standard output. Run by release.sh.

It lists what others made: the kernel and the guest's files, by their packages; the libraries that are linked into
asymcc; and the packages of Python that pip fetches beside the wheel.
"""

from __future__ import annotations

import email
import json
import subprocess
import sys
import zipfile

MANIFEST = "asymlab/tree/build/image/6.12-uml/manifest.json"
LINKED = ("libbpf-dev", "libelf-dev", "zlib1g-dev", "libc6-dev")  # of `make static`


def component(name: str, version: str, files: dict[str, str], where: str) -> dict:
    """files: SHA-256 by name."""
    about = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace('~', '%7E')}?arch=amd64",
        "properties": [{"name": "asymcc:part-of", "value": where}],
    }
    inner = [
        {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for file, digest in sorted(files.items())
    ]
    return about | ({"components": inner} if inner else {})


def of_guest(manifest: dict) -> list[dict]:
    """By package; a kernel's source has its version alone."""
    packages: dict[tuple[str, str], dict[str, str]] = {}
    for file, part in manifest["parts"].items():
        words = part["version"].split()
        if file == "vmlinux":
            words = [f"linux-source-{words[0].rpartition('.')[0]}", words[1]]
        if len(words) == 2 and part["version"] != "this tree":
            packages.setdefault((words[0], words[1]), {})[file] = part["sha256"]
    return [component(*package, files, "guest") for package, files in sorted(packages.items())]


def linked() -> list[dict]:
    show = ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *LINKED]
    lines = subprocess.run(show, capture_output=True, text=True, check=True).stdout.splitlines()
    return [component(*line.split(), {}, "asymcc") for line in sorted(lines)]


def fetched(metadata: str) -> list[dict]:
    wanted = email.message_from_string(metadata).get_all("Requires-Dist") or []
    return [
        {"type": "library", "name": word, "scope": "optional" if "extra" in word else "required"} for word in wanted
    ]


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(about).decode()
        guest = of_guest(json.loads(archive.read(MANIFEST))) if MANIFEST in archive.namelist() else []
    version = email.message_from_string(metadata)["Version"]
    print(
        json.dumps(
            {
                "bomFormat": "CycloneDX",
                "specVersion": "1.6",
                "version": 1,
                "metadata": {"component": {"type": "application", "name": "asymlab", "version": version}},
                "components": [*guest, *linked(), *fetched(metadata)],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
