# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymlab: a virtual-time lab for TCP congestion control on asymmetric paths."""

import os

# Users' PATHs lack the folders of tc, depmod and ip.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


class LabError(Exception):
    """Something the user can mend: the message says what, where and how. Printed as one line."""
