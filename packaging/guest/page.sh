# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A page's commands, run as they stand: PAGE FROM TO, the lines of an example from one that begins with FROM to one with TO.
from_page() {
	sed -n "\\|^    $2|,\\|^    $3|s/^    //p" "/root/$1" | sed "\\|^$3|q"
}
