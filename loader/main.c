// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * asymcc: congestion controllers written in BPF, in service.
 *
 * It reads from the kernel, each time, which controllers are registered, with which values, and who uses them;
 * uses/state.h has the little that the kernel does not tell.
 *
 * kernel/: what is asked of the kernel, and told to it. object/: a built object, its controllers and variables. uses/: what gives
 * a controller to connections, and what is remembered of that. view/: text, JSON and metrics. commands/: a file for each.
 */
#include "command.h"

static const struct command *const all[] = {
	&cmd_list,    &cmd_load,  &cmd_show,   &cmd_set,        &cmd_use,    &cmd_unuse,
	&cmd_unload,  &cmd_thin,  &cmd_uplink, &cmd_try,        &cmd_status, &cmd_top,
	&cmd_metrics, &cmd_trace, &cmd_doctor, &cmd_completion, &cmd_manual, NULL,
};

int main(int argc, char **argv)
{
	return command_line(all, argc, argv);
}
