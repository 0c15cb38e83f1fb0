# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In place of OpenWrt's own: a configuration of sections without names, and of options whose values have no blanks.
config_load() {
	sections= section=0
	while read -r what name value _; do
		value=${value#\'} value=${value%\'}
		case $what in
		config)
			section=$((section + 1))
			sections="$sections $section"
			eval "type_$section=\$name"
			;;
		option) eval "option_${section}_$name=\$value" ;;
		esac
	done <"/etc/config/$1"
}
config_get() { eval "$1=\${option_$2_$3:-$4}"; }
config_get_bool() { config_get "$@"; }
config_foreach() {
	local section
	for section in $sections; do
		eval "[ \$type_$section != $2 ]" || "$1" "$section"
	done
}
