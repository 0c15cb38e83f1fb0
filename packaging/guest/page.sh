# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a page says, to be done as it stands: PAGE FROM TO, the lines of an example from one that begins with FROM to one with TO.
from_page() {
	sed -n "\\|^    $2|,\\|^    $3|s/^    //p" "/root/$1" | sed "\\|^$3|q"
}
