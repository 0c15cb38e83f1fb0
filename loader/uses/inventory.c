// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stddef.h>

#include "uses/inventory.h"

int inventory_read(struct inventory *s, bool blind)
{
	if ((!blind && registry_read(&s->registry)) || users_read(&s->users) || (!blind && attachments_read(&s->all)))
		return -1;
	s->after = blind ? NULL : attachments_after(&s->all);
	return blind || s->after ? 0 : -1;
}

void inventory_free(struct inventory *s)
{
	attachments_after_free(s->after, &s->all);
	s->after = NULL;
	attachments_free(&s->all);
	users_free(&s->users);
	registry_free(&s->registry);
}
