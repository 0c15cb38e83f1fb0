// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /dev/asymlab in User Mode Linux: the host's file `shared`, by which a job comes in and its results go out.
 *
 * It is read and written before and after the experiment, at once: no interrupt, and no virtual time goes by.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asymlab_coverage.h>
#include <asymlab_rewind.h>
#include <os.h>
#include <um_programs.h>

#define CHUNK SZ_64K /* bytes that go at a time */
/* The agent's calls (guest/init.py, guest/programs.py). */
enum {
	PROGRAMS, /* a run's first program is about to start */
	SAVE = 0xB1, /* a guest that serves many jobs is ready for one; the kernel has small numbers for itself */
	BACK, /* its results are handed out */
	BRANCH, /* from a moment on chance shall be another */
};

struct moment {
	__u64 at_ns, draw;
};

static int host; /* file descriptor */

static ssize_t shared_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	char *chunk = kmalloc(CHUNK, GFP_KERNEL);
	size_t done = 0;
	int n = 0;

	if (!chunk)
		return -ENOMEM;
	while (done < count) {
		n = os_pread_file(host, chunk, min_t(size_t, count - done, CHUNK), *at);
		if (n <= 0)
			break;
		if (copy_to_user(to + done, chunk, n)) {
			n = -EFAULT;
			break;
		}
		done += n;
		*at += n;
	}
	kfree(chunk);
	return done ?: n;
}

static ssize_t shared_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char *chunk = kmalloc(CHUNK, GFP_KERNEL);
	size_t done = 0;
	int n = 0;

	if (!chunk)
		return -ENOMEM;
	while (done < count) {
		n = min_t(size_t, count - done, CHUNK);
		if (copy_from_user(chunk, from + done, n)) {
			n = -EFAULT;
			break;
		}
		n = os_pwrite_file(host, chunk, n, *at);
		if (n <= 0)
			break;
		done += n;
		*at += n;
	}
	kfree(chunk);
	return done ?: n;
}

static long shared_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct moment moment;

	switch (command) {
	case PROGRAMS:
		um_programs = 1;
		return 0;
	case SAVE:
		rewind_point();
		return 0;
	case BACK:
		if (IS_ENABLED(CONFIG_ASYMLAB_COVERAGE))
			um_coverage_hand_out(host);
		return rewind_back();
	case BRANCH:
		if (copy_from_user(&moment, (void __user *)argument, sizeof(moment)))
			return -EFAULT;
		rewind_branch(moment.at_ns, moment.draw);
		return 0;
	}
	return -ENOTTY;
}

static const struct file_operations shared_operations = {
	.read = shared_read,
	.write = shared_write,
	.llseek = default_llseek,
	.unlocked_ioctl = shared_ioctl,
};

static struct miscdevice shared = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "asymlab",
	.fops = &shared_operations,
};

static int __init shared_init(void)
{
	host = os_open_file("shared", of_rdwr(OPENFLAGS()), 0);
	return host < 0 ? host : misc_register(&shared);
}
device_initcall(shared_init);
