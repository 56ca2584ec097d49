// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tests do often.  See hand.h.
 *
 *	hand COMMAND ARGUMENT...	do that
 *	hand				do what comes as lines on standard input, one after the other: after
 *					what it prints there is a line ".", or "!" and what went wrong
 *
 * Commands:
 *	write <device> <model> <page> <pages> <chunk>	see data_write()
 *	compare <device> <model>		see data_compare()
 *	flush <device>
 *	message <device> <word>...		device-mapper's message; what is answered is printed
 *	status <device>...			of the first target of each
 *	name <device>				what the kernel calls it: dm-3
 *	devices [<target>|suspended]		names of device-mapper's devices, the last that was made first: of
 *						all, of those that have such a target, or of those that are suspended
 *	log, skip				what the kernel has logged since the last of these, or since the
 *						start; or not that
 */
#include "hand.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm.h"

#define MAX_WORDS	64

static int hand_message(int count, char **word)
{
	char text[DM_TEXT_BYTES], reply[DM_TEXT_BYTES];
	size_t used = 0;
	int i, error;

	text[0] = '\0';
	for (i = 1; i < count; i++)
		if (used < sizeof(text))
			used += snprintf(text + used, sizeof(text) - used, "%s%s", i > 1 ? " " : "", word[i]);
	if (used >= sizeof(text))
		return -E2BIG;
	error = dm_ask(word[0], text, reply, sizeof(reply));
	if (!error && reply[0])
		printf("%s%s", reply, reply[strlen(reply) - 1] == '\n' ? "" : "\n");
	return error;
}

static int hand_status(int count, char **device)
{
	char text[DM_TEXT_BYTES * 2];
	int error = 0;

	for (; count && !error; count--) {
		error = dm_text(*device++, DM_INFO, text, sizeof(text));
		if (!error)
			puts(text);
	}
	return error;
}

static int hand_name(const char *device)
{
	char path[32];
	int error = dm_path(device, path, sizeof(path));

	if (!error)
		puts(strrchr(path, '/') + 1);
	return error;
}

static void hand_device(const char *name, void *data)
{
	const char *kind = data;
	int is;

	is = !kind ? 1 : !strcmp(kind, "suspended") ? dm_is_suspended(name) : dm_has_target(name, kind);
	/* one that has gone meanwhile is none of them */
	if (is > 0)
		puts(name);
}

static int hand_do(int count, char **word)
{
	if (count == 6 && !strcmp(word[0], "write"))
		return data_write(word[1], word[2], word[3], word[4], word[5]);
	if (count == 3 && !strcmp(word[0], "compare"))
		return data_compare(word[1], word[2]);
	if (count == 2 && !strcmp(word[0], "flush"))
		return data_flush(word[1]);
	if (count > 2 && !strcmp(word[0], "message"))
		return hand_message(count - 1, word + 1);
	if (count > 1 && !strcmp(word[0], "status"))
		return hand_status(count - 1, word + 1);
	if (count == 2 && !strcmp(word[0], "name"))
		return hand_name(word[1]);
	if ((count == 1 || count == 2) && !strcmp(word[0], "devices"))
		return dm_list(hand_device, count == 2 ? word[1] : NULL);
	if (count == 1 && (!strcmp(word[0], "log") || !strcmp(word[0], "skip")))
		return log_print(word[0][0] == 's');
	return -EINVAL;
}

static int hand_line(char *line)
{
	char *word[MAX_WORDS], *rest;
	int count = 0;

	for (rest = strtok(line, " \n"); rest && count < MAX_WORDS; rest = strtok(NULL, " \n"))
		word[count++] = rest;
	return rest ? -E2BIG : count ? hand_do(count, word) : 0;
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;
	int error;

	if (argc > 1) {
		error = hand_do(argc - 1, argv + 1);
		if (error < 0)
			fprintf(stderr, "%s: %s\n", argv[1], strerror(-error));
		return error ? 1 : 0;
	}
	error = log_open();
	do {
		if (error)
			printf("!%s\n", error < 0 ? strerror(-error) : "");
		else
			puts(".");
		fflush(stdout);
		if (getline(&line, &room, stdin) < 0)
			break;
		error = hand_line(line);
	} while (true);
	free(line);
	return 0;
}
