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
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/text.h"

static const struct command *const all[] = {
	&cmd_list,    &cmd_load,  &cmd_show,   &cmd_set,        &cmd_use,    &cmd_unuse,
	&cmd_unload,  &cmd_thin,  &cmd_uplink, &cmd_try,        &cmd_status, &cmd_top,
	&cmd_metrics, &cmd_trace, &cmd_doctor, &cmd_completion, &cmd_manual, NULL,
};

/*
 * A file that the command opens must not become its stdin, stdout or stderr: messages would go into it. /dev/null is
 * opened the wrong way round: to read or write it fails as with a closed one.
 */
static int occupy_closed(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	if (occupy_closed()) {
		fail("cannot open /dev/null in the place of a closed stdin, stdout or stderr: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	return command_line(all, argc, argv);
}
