/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --existing`: open connections take the controller where they would take it if they were opened now. */
#ifndef OPEN_SOCKETS_H
#define OPEN_SOCKETS_H

#include "uses/socket_move.h"
#include "uses/uses.h"

/* After the uses were made. -1 with a message, in which it is said that they stay. */
int open_sockets_move(struct move *m, const struct uses *u);

#endif
