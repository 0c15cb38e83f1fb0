/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files in /etc/asymcc, read as systemd reads them: EnvironmentFile= of systemd.exec(5). */
#ifndef SETTING_H
#define SETTING_H

#include "args.h"

/* The value of `key` in a file's text, in memory to be freed; NULL: it has none. */
char *setting_read(const char *text, const char *key);
/* A value's words, as systemd makes them of $KEY in a command line; *store, to be freed, has their text. -1 with a message. */
int setting_split(const char *value, struct texts *words, char **store);

#endif
