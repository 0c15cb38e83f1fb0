# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""nginx and sshd with configurations, keys and accounts of their own, and what they serve."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import struct
import subprocess
import time
import zlib
from pathlib import Path

from tests.live.clients.path import SERVER, running

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
WEB, SSH = 80, 2200  # ports
SMALL, IMAGES, SCRIPTS, STYLES = 20, 24, 4, 2

NGINX_CONF = """
user root;
worker_processes 1;
daemon off;
pid {tmp}/nginx.pid;
error_log {tmp}/nginx.log;
events {{ }}
http {{
    access_log off;
    sendfile on;
    types {{ text/html html; text/css css; text/javascript js; image/png png; }}
    client_body_temp_path {tmp}/body; proxy_temp_path {tmp}/proxy; fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi; scgi_temp_path {tmp}/scgi;
    server {{ listen {port}; root {www}; }}
}}
"""
SSHD_CONF = """
Port {port}
HostKey {tmp}/host_key
AuthorizedKeysFile {tmp}/key.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""
# Seen by this sshd alone, in its mount namespace: the machine's accounts have no part in it.
PASSWD = "root:x:0:0::{tmp}:/bin/sh\nsshd:x:{nobody}:{nogroup}::/run/sshd:/usr/sbin/nologin\n"
SHADOW = "root:*:19000::::::\nsshd:*:19000::::::\n"
APART = (
    'for f in passwd shadow; do mount --bind "$1/$f" /etc/$f; done; mount -t tmpfs none /run; mkdir -m 755 /run/sshd; '
    'exec "$2" -D -e -f "$1/sshd.conf"'
)


def png(pixels: bytes, side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[i * side : (i + 1) * side] for i in range(side))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def contents(www: Path, big: int, medium: int) -> None:
    """The same bytes each time; nothing that could be compressed."""
    noise = random.Random(1)
    www.mkdir()
    (www / "big").write_bytes(noise.randbytes(big))
    (www / "medium").write_bytes(noise.randbytes(medium))
    for i in range(SMALL):
        (www / f"small{i}").write_bytes(noise.randbytes(20_000))
    page = www / "page"
    page.mkdir()
    for i in range(IMAGES):
        side = noise.randrange(60, 300)
        (page / f"{i}.png").write_bytes(png(noise.randbytes(side * side), side))
    for i in range(SCRIPTS):
        (page / f"{i}.js").write_text(f"window.ran = (window.ran ?? 0) + 1; // {noise.randbytes(20_000).hex()}")
    for i in range(STYLES):
        (page / f"{i}.css").write_text(f"body {{ column-count: {i + 2} }} /* {noise.randbytes(10_000).hex()} */")
    (page / "index.html").write_text(
        '<!doctype html><title>page</title><link rel="icon" href="data:,">'
        + "".join(f'<link rel="stylesheet" href="{i}.css">' for i in range(STYLES))
        + "<body>"
        + "".join(f'<script src="{i}.js"></script>' for i in range(SCRIPTS))
        + "".join(f'<img src="{i}.png">' for i in range(IMAGES))
    )


@contextlib.contextmanager
def web(path, tmp: Path, www: Path):
    (tmp / "nginx.conf").write_text(NGINX_CONF.format(tmp=tmp, www=www, port=WEB))
    with running(*path.inside(path.server, NGINX, "-c", tmp / "nginx.conf", "-e", tmp / "nginx.log")):
        while not path.sh(path.server, "ss", "-tlnH", "sport", "=", f":{WEB}"):
            time.sleep(0.05)
        yield


@contextlib.contextmanager
def ssh(path, tmp: Path):
    """Gives the options of ssh and scp that reach it."""
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", tmp / name], check=True)
    (tmp / "sshd.conf").write_text(SSHD_CONF.format(tmp=tmp, port=SSH))
    (tmp / "passwd").write_text(PASSWD.format(tmp=tmp, nobody=65534, nogroup=65534))
    (tmp / "shadow").write_text(SHADOW)
    (tmp / "known").write_text(f"[{SERVER}]:{SSH} {(tmp / 'host_key.pub').read_text()}")
    with running(*path.inside(path.server, "sh", "-euc", APART, "sh", tmp, SSHD), ready="Server listening"):
        options = {"Port": SSH, "UserKnownHostsFile": tmp / "known", "BatchMode": "yes"}
        yield ["-F", "none", "-q", "-i", tmp / "key", *(f"-o{name}={value}" for name, value in options.items())]
