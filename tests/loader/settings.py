# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files of settings, and the words of their USE: by systemd.exec(5), EnvironmentFile=, and systemd.service(5)."""

SETTINGS = [
    ("USE=--route 198.51.100.0/24", ["--route", "198.51.100.0/24"]),
    ('USE="--route 198.51.100.0/24 --default"  ', ["--route", "198.51.100.0/24", "--default"]),
    ("USE=--cgroup '/a b'  # all of it", ["--cgroup", "/a b", "#", "all", "of", "it"]),
    ("USE='--cgroup \"/a b\"'", ["--cgroup", "/a b"]),
    ('USE="a\\"b c" d', ["ab cd"]),
    ("USE=--route \\\n  default", ["--route", "default"]),
    ("#USE=no\\\nUSE=--default\n;USE=neither", []),
    ("  USE = --default\nnonsense\n=\nOTHER=x", ["--default"]),
    ("USE=a\nUSE=b", ["b"]),
    ("USE=", []),
    ("USE=* $HOME `id` $(id) ; id", ["*", "$HOME", "`id`", "$(id)", ";", "id"]),
    ('USE="unended', ["unended"]),
    ("USE='it'\\''s' \\\\x", ["its x"]),
]
