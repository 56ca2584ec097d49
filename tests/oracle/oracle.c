// SPDX-License-Identifier: GPL-2.0-only
/*
 * A workload that knows what each page may hold after a power cut.
 *
 * The contract it holds a device to is that of a disk with a volatile write
 * cache, page (4 KiB) by page:
 *
 *  - each page holds something that was written to it, whole;
 *  - a read returns the last write that ended before the read began, or one
 *    that overlapped with it in time, or with the read;
 *  - a write is durable once it was acknowledged with FUA, or acknowledged before
 *    a flush began that succeeded.  After a power cut a page holds a write that
 *    no durable write came after.
 *
 * Time is a counter that goes up by one at every issue and every acknowledgement.
 * A write is the interval [issued, acked]; acked is NEVER while it is in flight,
 * and stays so if it failed: then it may take effect, or not.  Write B comes after
 * write A if B was issued when A had been acknowledged; neither comes after the
 * other if they overlap, and then either may last.
 *
 * A discard of a whole block is a write of zeros.  A page of a block that is only
 * discarded in part may become zeros or not: such a write comes after others, but
 * no other is over because of it.
 *
 * Each page written says whose it is: see struct page.  What is known is written
 * to a file at the end of a run, for the verification after the restart.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;

#define PAGE		4096u
#define WORDS		(PAGE / sizeof(u64))
#define NEVER		UINT64_MAX
#define ZEROS		0	/* instead of a sequence number */
#define MAX_DEVS	16
#define MAX_THREADS	64
#define MAX_ERRORS	20
#define CHUNK_PAGES	256u
#define UNREAD		0xb5	/* each byte of a buffer that is read to */

static const char usage_text[] =
"Usage: oracle run --state FILE --seed N [OPTION...] DEV...\n"
"       oracle verify --state FILE DEV...\n"
"       oracle show --state FILE\n"
"\n"
"run     writes, zeroes, flushes, discards and reads at random, and checks what it\n"
"        reads, until I/O fails, a signal comes, or a limit is reached; then writes what\n"
"        it knows to FILE.  If there is no FILE yet, the devices must be zeros.\n"
"verify  checks every page after a power cut, twice; what it finds is then known\n"
"        to be durable, and written to FILE.\n"
"show    what FILE says: for each device its pages, those that have more than\n"
"        one possible content, and the sequence numbers in use.\n"
"\n"
"  --ops N              end after this many operations (no limit)\n"
"  --seconds S          end after this time (no limit)\n"
"  --threads N          (4)\n"
"  --max-size BYTES     largest I/O (1572864)\n"
"  --discard-block B    discards take effect on whole blocks of B bytes; 0: do not\n"
"                       discard (65536)\n"
"  --final-flush        flush all devices at the end\n"
"  --ready FILE         made when the first flush of every device has ended\n"
"  --torn               below, a page that is read while it is written may be part of what\n"
"                       it was and part of what it becomes, as of an emulator's disk\n"
"\n"
"Exit status: 0, even if I/O failed (the last line says how it ended); 1: a device\n"
"broke its contract; 2: the oracle could not do its work.\n";

/* What a page that was written begins with; pseudo-random words follow. */
struct page {
	u64 magic;
	u64 id;			/* of this oracle's state */
	u64 device;
	u64 page;
	u64 seq;		/* of the write */
	u64 sum;		/* over all words, this one as zero */
};

#define PAGE_MAGIC	0x6f7261636c657067ULL
#define STATE_MAGIC	0x6f7261636c653031ULL

/* A write to one page. */
struct write {
	struct write *next;
	u64 seq;		/* or ZEROS */
	u64 issued, acked;
	bool fua;
	bool maybe;		/* a discard that need not do anything */
};

struct device {
	const char *path;
	int fd;
	u64 pages;
	u64 durable;		/* writes acked before this are */
	struct write **page;	/* the writes that may still matter */
	struct write *initial;	/* a write for each page, for the start */
};

static struct device dev[MAX_DEVS];
static unsigned int ndevs;
static u64 state_id, next_seq = 1, seed;

static const char *state_path, *ready_path;
static u64 limit_ops, max_size = 1536 << 10, discard_block = 64 << 10;
static double limit_seconds;
static unsigned int nthreads = 4;
static bool final_flush, may_be_torn;

/* Guards all knowledge: the clock, the lists of writes, next_seq. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static u64 now = 1;
static u64 read_issued[MAX_THREADS];	/* NEVER: the thread does not read */
static unsigned int errors;
/* of these, by what verify found: no write to this page; one that is over; each time another */
static unsigned int garbage, lost, unstable;

static atomic_bool stop;
static atomic_ullong ops;
static _Atomic(const char *) reason;
static atomic_int reason_errno;
static atomic_ullong count_write, count_fua, count_flush, count_discard, count_zeroes,
	count_read;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("oracle: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static void *allocate(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		die("out of memory");
	return p;
}

static void *allocate_aligned(size_t bytes)
{
	void *p;

	if (posix_memalign(&p, PAGE, bytes))
		die("out of memory");
	return p;
}

static void stop_because(const char *why, int error)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong(&reason, &none, why))
		reason_errno = error;
	stop = true;
}

static u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* ---- pages ---- */

static u64 page_sum(const void *data)
{
	const u64 *word = data;
	u64 sum = 0x243f6a8885a308d3ULL;
	unsigned int i;

	for (i = 0; i < WORDS; i++) {
		u64 w = i == offsetof(struct page, sum) / sizeof(u64) ? 0 : word[i];

		sum = (sum ^ w) * 0x9fb21c651e98df25ULL;
		sum ^= sum >> 32;
	}
	return sum;
}

static void page_fill(void *data, unsigned int device, u64 page, u64 seq)
{
	struct page *head = data;
	u64 *word = data, x = mix(seq ^ mix(page ^ mix(state_id + device)));
	unsigned int i;

	for (i = sizeof(*head) / sizeof(u64); i < WORDS; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		word[i] = x;
	}
	head->magic = PAGE_MAGIC;
	head->id = state_id;
	head->device = device;
	head->page = page;
	head->seq = seq;
	head->sum = page_sum(data);
}

static bool page_is_zeros(const void *data)
{
	const u64 *word = data;

	return !word[0] && !memcmp(data, word + 1, PAGE - sizeof(*word));
}

/* 0: @seq is the write (or ZEROS) that it is from; else what is wrong. */
static const char *page_decode(const void *data, unsigned int device, u64 page, u64 *seq,
			       char *text, size_t size)
{
	const struct page *head = data;

	if (page_is_zeros(data)) {
		*seq = ZEROS;
		return NULL;
	}
	if (head->magic != PAGE_MAGIC || head->sum != page_sum(data)) {
		snprintf(text, size, "garbage (begins with %016" PRIx64 " %016" PRIx64 ")",
			 ((const u64 *)data)[0], ((const u64 *)data)[1]);
		return text;
	}
	if (head->id != state_id)
		return "a page of another oracle's life";
	if (head->device != device || head->page != page) {
		snprintf(text, size, "page %" PRIu64 " of device %" PRIu64 " (write %" PRIu64 ")",
			 head->page, head->device, head->seq);
		return text;
	}
	*seq = head->seq;
	return NULL;
}

/* ---- knowledge; under the lock while threads run ---- */

static bool comes_after(const struct write *b, const struct write *a)
{
	return b != a && !b->maybe && a->acked != NEVER && b->issued > a->acked;
}

static bool is_durable(const struct device *d, const struct write *w)
{
	return w->acked != NEVER && (w->fua || w->acked < d->durable);
}

/* May a read that began at @began return @w? */
static bool readable(const struct device *d, u64 page, const struct write *w, u64 began)
{
	const struct write *other;

	for (other = d->page[page]; other; other = other->next)
		if (other->acked < began && comes_after(other, w))
			return false;
	return true;
}

/* May the page hold @w after a power cut now? */
static bool survivable(const struct device *d, u64 page, const struct write *w)
{
	const struct write *other;

	for (other = d->page[page]; other; other = other->next)
		if (is_durable(d, other) && comes_after(other, w))
			return false;
	return true;
}

static u64 oldest_read(void)
{
	u64 oldest = NEVER;
	unsigned int i;

	for (i = 0; i < nthreads; i++)
		if (read_issued[i] < oldest)
			oldest = read_issued[i];
	return oldest;
}

/*
 * Forget the writes that can neither survive nor be read any more.  Of two that
 * came after a third both or none must go, or the rule would lose its ground:
 * that holds, because what is forgotten has a durable write after it, which then
 * is after all that the forgotten one came after.
 */
static void forget(struct device *d, u64 page)
{
	u64 oldest = oldest_read();
	struct write **p = &d->page[page], *w;

	while ((w = *p)) {
		if (survivable(d, page, w) || readable(d, page, w, oldest)) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		if (w != &d->initial[page])
			free(w);
	}
}

static struct write *add_write(struct device *d, u64 page, u64 seq, bool fua, bool maybe)
{
	struct write *w = allocate(sizeof(*w));

	w->seq = seq;
	w->issued = now;
	w->acked = NEVER;
	w->fua = fua;
	w->maybe = maybe;
	w->next = d->page[page];
	d->page[page] = w;
	return w;
}

static void __attribute__((format(printf, 1, 2))) report(const char *format, ...)
{
	va_list args;

	if (++errors > MAX_ERRORS)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}

static const char *time_text(u64 time, char *text)
{
	if (time == NEVER)
		return "-";
	sprintf(text, "%" PRIu64, time);
	return text;
}

static void report_page(const struct device *d, u64 page, const char *what, const char *found)
{
	char text[32];
	struct write *w;

	report("%s page %" PRIu64 ": %s: %s\n", d->path, page, what, found);
	if (errors > MAX_ERRORS)
		return;
	for (w = d->page[page]; w; w = w->next)
		printf("    known: write %" PRIu64 "%s issued %" PRIu64 " acknowledged %s%s%s\n",
		       w->seq, w->seq ? "" : " (zeros)", w->issued, time_text(w->acked, text),
		       is_durable(d, w) ? ", durable" : "", w->maybe ? ", maybe" : "");
	fflush(stdout);
}

/*
 * A page that is no write's may be of several, word by word.  Says in @text of which; is each
 * word of one that may be read, and was one of them under way?
 */
static bool is_torn(unsigned int device, u64 page, const void *data, u64 began, char *text, size_t size)
{
	static u64 of[WORDS], whole[WORDS];
	const u64 *word = data;
	bool under_way = false, all = true;
	const struct write *w;
	unsigned int i, first;
	size_t length = 0;

	for (i = 0; i < WORDS; i++)
		of[i] = NEVER;
	for (w = dev[device].page[page]; w; w = w->next) {
		if (!readable(&dev[device], page, w, began))
			continue;
		if (w->seq)
			page_fill(whole, device, page, w->seq);
		else
			memset(whole, 0, sizeof(whole));
		for (i = 0; i < WORDS; i++) {
			/* what all of them begin with says nothing */
			if (of[i] != NEVER || whole[i] != word[i])
				continue;
			of[i] = w->seq;
			under_way |= w->acked >= began;
		}
	}
	for (first = 0; first < WORDS && length < size; first = i) {
		for (i = first; i < WORDS && of[i] == of[first]; i++)
			;
		all &= of[first] != NEVER;
		if (of[first] == NEVER)
			length += snprintf(text + length, size - length, " %u words of none,", i - first);
		else
			length += snprintf(text + length, size - length, " %u of write %" PRIu64 ",",
					   i - first, of[first]);
	}
	return all && under_way;
}

/*
 * A read that began at @began has returned @data.  If nothing was going on with
 * this page and one of several writes that overlapped was found, that one is the
 * last: it counts as issued only when the others were acknowledged.
 */
static void check_read(unsigned int device, u64 page, const void *data, u64 began)
{
	struct device *d = &dev[device];
	struct write *w, *found = NULL;
	unsigned int matches = 0;
	char text[160], parts[400] = "";
	bool quiet = true;
	const char *wrong;
	u64 seq;

	wrong = page_decode(data, device, page, &seq, text, sizeof(text));
	if (wrong) {
		if (is_torn(device, page, data, began, parts, sizeof(parts)) && may_be_torn)
			return;
		report_page(d, page, "read", wrong);
		printf("    it is:%s and began %" PRIu64 "; now %" PRIu64 "\n", parts, began, now);
		return;
	}
	for (w = d->page[page]; w; w = w->next) {
		if (w->acked >= began)
			quiet = false;
		if (w->seq == seq && readable(d, page, w, began)) {
			found = w;
			matches++;
		}
	}
	if (!matches) {
		snprintf(text, sizeof(text), "write %" PRIu64 "%s, which is over (began %" PRIu64 ")",
			 seq, seq ? "" : " (zeros)", began);
		report_page(d, page, "read", text);
	} else if (quiet && matches == 1 && !found->maybe) {
		for (w = d->page[page]; w; w = w->next)
			if (w != found && readable(d, page, w, began))
				found->issued = began;
	}
}

/* ---- the state file ---- */

static void put(FILE *f, u64 value)
{
	if (fwrite(&value, sizeof(value), 1, f) != 1)
		die("%s: %s", state_path, strerror(errno));
}

static u64 get(FILE *f)
{
	u64 value;

	if (fread(&value, sizeof(value), 1, f) != 1)
		die("%s: damaged", state_path);
	return value;
}

/* For each page what it may hold after a power cut now. */
static void state_write(void)
{
	char *tmp = allocate(strlen(state_path) + 5);
	struct write *w;
	unsigned int i;
	u64 page, n;
	FILE *f;

	sprintf(tmp, "%s.tmp", state_path);
	f = fopen(tmp, "w");
	if (!f)
		die("%s: %s", tmp, strerror(errno));
	put(f, STATE_MAGIC);
	put(f, state_id);
	put(f, next_seq);
	put(f, ndevs);
	for (i = 0; i < ndevs; i++) {
		put(f, dev[i].pages);
		for (page = 0; page < dev[i].pages; page++) {
			for (n = 0, w = dev[i].page[page]; w; w = w->next)
				n += survivable(&dev[i], page, w);
			put(f, n);
			for (w = dev[i].page[page]; w; w = w->next)
				if (survivable(&dev[i], page, w))
					put(f, w->seq);
		}
	}
	if (fclose(f) || rename(tmp, state_path))
		die("%s: %s", state_path, strerror(errno));
	free(tmp);
}

/* One possible content is what is durable; of several any may be it. */
static void state_read_page(FILE *f, struct device *d, u64 page)
{
	u64 n = get(f);

	if (!n)
		die("%s: a page without content", state_path);
	d->page[page] = &d->initial[page];
	d->initial[page].seq = get(f);
	d->initial[page].fua = true;
	while (--n) {
		struct write *w = add_write(d, page, get(f), true, false);

		w->issued = 0;
		w->acked = 0;
	}
}

static bool state_read(bool need_devices)
{
	FILE *f = fopen(state_path, "r");
	unsigned int i;
	u64 page;

	if (!f && errno == ENOENT)
		return false;
	if (!f)
		die("%s: %s", state_path, strerror(errno));
	if (get(f) != STATE_MAGIC)
		die("%s: not a state of this program", state_path);
	state_id = get(f);
	next_seq = get(f);
	i = get(f);
	if (i > MAX_DEVS || (need_devices && i != ndevs))
		die("%s: is about %u devices", state_path, i);
	ndevs = i;
	for (i = 0; i < ndevs; i++) {
		u64 pages = get(f);

		if (need_devices && pages != dev[i].pages)
			die("%s: %s had another size", state_path, dev[i].path);
		dev[i].pages = pages;
		dev[i].page = allocate(pages * sizeof(*dev[i].page));
		dev[i].initial = allocate(pages * sizeof(*dev[i].initial));
		for (page = 0; page < pages; page++)
			state_read_page(f, &dev[i], page);
	}
	fclose(f);
	return true;
}

static void state_new(void)
{
	unsigned int i;
	u64 page;

	state_id = mix(seed ^ mix(time(NULL)) ^ mix(getpid()));
	for (i = 0; i < ndevs; i++) {
		dev[i].page = allocate(dev[i].pages * sizeof(*dev[i].page));
		dev[i].initial = allocate(dev[i].pages * sizeof(*dev[i].initial));
		for (page = 0; page < dev[i].pages; page++) {
			dev[i].page[page] = &dev[i].initial[page];
			dev[i].initial[page].fua = true;
		}
	}
}

static void open_devices(char **paths, int flags)
{
	u64 bytes;

	for (; *paths; paths++) {
		struct device *d = &dev[ndevs];

		if (ndevs == MAX_DEVS)
			die("more than %u devices", MAX_DEVS);
		d->path = *paths;
		d->fd = open(d->path, flags | O_DIRECT | O_CLOEXEC);
		if (d->fd < 0)
			die("%s: %s", d->path, strerror(errno));
		if (ioctl(d->fd, BLKGETSIZE64, &bytes))
			die("%s: %s", d->path, strerror(errno));
		d->pages = bytes / PAGE;
		if (!d->pages)
			die("%s: too small", d->path);
		ndevs++;
	}
}

/* ---- run ---- */

struct thread {
	pthread_t pthread;
	unsigned int index;
	u64 random;
	aio_context_t aio;
	char *buffer;
	struct write **writes;
};

static u64 draw(struct thread *t, u64 below)
{
	t->random += 0x9e3779b97f4a7c15ULL;
	return mix(t->random) % below;
}

/* Mostly small, now and then as large as may be. */
static u64 draw_pages(struct thread *t, u64 most)
{
	static const u64 bytes[] = { 4 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, UINT64_MAX };
	u64 limit = bytes[draw(t, sizeof(bytes) / sizeof(*bytes))] / PAGE;

	return 1 + draw(t, limit < most ? limit : most);
}

/* Half of all goes to a tenth of the device; half begins at a block. */
static u64 draw_start(struct thread *t, const struct device *d, u64 pages)
{
	u64 span = d->pages - pages + 1, align = (discard_block ? discard_block : 65536) / PAGE;
	u64 start;

	if (draw(t, 2))
		span = span / 10 + 1;
	start = draw(t, span);
	return draw(t, 2) ? start : start / align * align;
}

/* A synchronous write with O_DSYNC makes a flush follow; this one is FUA alone. */
static ssize_t write_fua(struct thread *t, int fd, u64 bytes, u64 offset)
{
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = fd,
		.aio_buf = (uintptr_t)t->buffer,
		.aio_nbytes = bytes,
		.aio_offset = offset,
		.aio_rw_flags = RWF_DSYNC,
	}, *cbs = &cb;
	struct io_event event;
	long r;

	if (syscall(SYS_io_submit, t->aio, 1, &cbs) != 1)
		return -1;
	do {
		r = syscall(SYS_io_getevents, t->aio, 1, 1, &event, NULL);
	} while (r < 0 && errno == EINTR);
	if (r != 1)
		die("io_getevents: %s", strerror(errno));
	if (event.res < 0) {
		errno = -event.res;
		return -1;
	}
	return event.res;
}

/* The write that is in t->writes has ended well. */
static void acknowledge(struct thread *t, struct device *d, u64 start, u64 pages)
{
	u64 i;

	pthread_mutex_lock(&lock);
	now++;
	for (i = 0; i < pages; i++)
		t->writes[i]->acked = now;
	for (i = 0; i < pages; i++)
		forget(d, start + i);
	pthread_mutex_unlock(&lock);
}

static void do_write(struct thread *t, unsigned int device, bool fua)
{
	struct device *d = &dev[device];
	u64 most = max_size / PAGE < d->pages ? max_size / PAGE : d->pages;
	u64 pages = draw_pages(t, most), start = draw_start(t, d, pages), seq, i;
	ssize_t done;

	pthread_mutex_lock(&lock);
	now++;
	seq = next_seq++;
	for (i = 0; i < pages; i++)
		t->writes[i] = add_write(d, start + i, seq, fua, false);
	pthread_mutex_unlock(&lock);

	for (i = 0; i < pages; i++)
		page_fill(t->buffer + i * PAGE, device, start + i, seq);
	if (fua)
		done = write_fua(t, d->fd, pages * PAGE, start * PAGE);
	else
		done = pwrite(d->fd, t->buffer, pages * PAGE, start * PAGE);
	if (done != (ssize_t)(pages * PAGE)) {
		stop_because("write failed", done < 0 ? errno : EIO);
		return;
	}
	acknowledge(t, d, start, pages);
	if (fua)
		count_fua++;
	else
		count_write++;
}

static void do_flush(unsigned int device)
{
	struct device *d = &dev[device];
	u64 began;

	pthread_mutex_lock(&lock);
	began = ++now;
	pthread_mutex_unlock(&lock);
	if (fsync(d->fd)) {
		stop_because("flush failed", errno);
		return;
	}
	pthread_mutex_lock(&lock);
	now++;
	if (d->durable < began)
		d->durable = began;
	pthread_mutex_unlock(&lock);
	count_flush++;
}

static void do_discard(struct thread *t, unsigned int device)
{
	struct device *d = &dev[device];
	u64 block = discard_block / PAGE, most = d->pages < 8 * block ? d->pages : 8 * block;
	u64 pages = 1 + draw(t, most), start = draw_start(t, d, pages), range[2], i;

	pthread_mutex_lock(&lock);
	now++;
	for (i = 0; i < pages; i++) {
		u64 first = (start + i) / block * block;
		bool whole = first >= start && first + block <= start + pages;

		t->writes[i] = add_write(d, start + i, ZEROS, false, !whole);
	}
	pthread_mutex_unlock(&lock);

	range[0] = start * PAGE;
	range[1] = pages * PAGE;
	if (ioctl(d->fd, BLKDISCARD, range)) {
		stop_because("discard failed", errno);
		return;
	}
	acknowledge(t, d, start, pages);
	count_discard++;
}

static void do_zeroes(struct thread *t, unsigned int device)
{
	struct device *d = &dev[device];
	u64 most = max_size / PAGE < d->pages ? max_size / PAGE : d->pages;
	u64 pages = draw_pages(t, most), start = draw_start(t, d, pages), range[2], i;

	pthread_mutex_lock(&lock);
	now++;
	for (i = 0; i < pages; i++)
		t->writes[i] = add_write(d, start + i, ZEROS, false, false);
	pthread_mutex_unlock(&lock);

	range[0] = start * PAGE;
	range[1] = pages * PAGE;
	if (ioctl(d->fd, BLKZEROOUT, range)) {
		stop_because("zeroing failed", errno);
		return;
	}
	acknowledge(t, d, start, pages);
	count_zeroes++;
}

/*
 * What was read is wrong: is it there, or was it read from elsewhere?  Under the lock, so that
 * nothing else begins meanwhile.
 */
static void read_again(struct thread *t, unsigned int device, u64 start, u64 pages, u64 began)
{
	unsigned int before = errors;
	u64 i;

	printf("    of a read of %" PRIu64 " pages from page %" PRIu64 " on; the same read again:\n",
	       pages, start);
	memset(t->buffer, UNREAD, pages * PAGE);
	if (pread(dev[device].fd, t->buffer, pages * PAGE, start * PAGE) !=
	    (ssize_t)(pages * PAGE)) {
		printf("    %s\n", strerror(errno));
		return;
	}
	for (i = 0; i < pages; i++)
		check_read(device, start + i, t->buffer + i * PAGE, began);
	if (errors == before)
		printf("    it is right\n");
}

static void do_read(struct thread *t, unsigned int device)
{
	struct device *d = &dev[device];
	u64 most = max_size / PAGE < d->pages ? max_size / PAGE : d->pages;
	u64 pages = draw_pages(t, most), start = draw_start(t, d, pages), began, i;
	ssize_t done;

	pthread_mutex_lock(&lock);
	began = ++now;
	read_issued[t->index] = began;
	pthread_mutex_unlock(&lock);

	/* what is not read is not to be what was there before */
	memset(t->buffer, UNREAD, pages * PAGE);
	done = pread(d->fd, t->buffer, pages * PAGE, start * PAGE);
	if (done != (ssize_t)(pages * PAGE))
		stop_because("read failed", done < 0 ? errno : EIO);

	pthread_mutex_lock(&lock);
	now++;
	if (done == (ssize_t)(pages * PAGE))
		for (i = 0; i < pages; i++)
			check_read(device, start + i, t->buffer + i * PAGE, began);
	if (errors)
		read_again(t, device, start, pages, began);
	read_issued[t->index] = NEVER;
	if (errors)
		stop_because("contract broken", 0);
	pthread_mutex_unlock(&lock);
	count_read++;
}

static void *work(void *arg)
{
	struct thread *t = arg;

	while (!stop) {
		unsigned int device = draw(t, ndevs), dice = draw(t, 100);

		if (limit_ops && atomic_fetch_add(&ops, 1) >= limit_ops)
			stop_because("limit", 0);
		else if (dice < 58)
			do_write(t, device, false);
		else if (dice < 66)
			do_write(t, device, true);
		else if (dice < 72)
			do_flush(device);
		else if (dice < 74)
			do_zeroes(t, device);
		else if (dice >= 78 || !discard_block)
			do_read(t, device);
		else
			do_discard(t, device);
	}
	return NULL;
}

static void on_signal(int number)
{
	(void)number;
	/* both are lock-free */
	stop_because("signal", 0);
}

static void start_thread(struct thread *t, unsigned int index)
{
	u64 largest = max_size / PAGE > 8 * discard_block / PAGE ?
		max_size / PAGE : 8 * discard_block / PAGE;
	int r;

	t->index = index;
	t->random = mix(seed) ^ mix(index + 1);
	t->buffer = allocate_aligned(max_size);
	t->writes = allocate(largest * sizeof(*t->writes));
	if (syscall(SYS_io_setup, 1, &t->aio))
		die("io_setup: %s", strerror(errno));
	r = pthread_create(&t->pthread, NULL, work, t);
	if (r)
		die("pthread_create: %s", strerror(r));
}

static void run_threads(void)
{
	static struct thread thread[MAX_THREADS];
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct timespec start, time, tick = { .tv_nsec = 10000000 };
	unsigned int i;

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < nthreads; i++)
		read_issued[i] = NEVER;
	for (i = 0; i < nthreads; i++)
		start_thread(&thread[i], i);
	while (!stop && limit_seconds) {
		nanosleep(&tick, NULL);
		clock_gettime(CLOCK_MONOTONIC, &time);
		if (time.tv_sec - start.tv_sec + (time.tv_nsec - start.tv_nsec) / 1e9 >=
		    limit_seconds)
			stop_because("limit", 0);
	}
	for (i = 0; i < nthreads; i++)
		pthread_join(thread[i].pthread, NULL);
}

static int run(char **paths)
{
	unsigned int i;

	open_devices(paths, O_RDWR);
	if (!state_read(true))
		state_new();
	if (ready_path) {
		for (i = 0; i < ndevs; i++)
			do_flush(i);
		if (!stop && close(creat(ready_path, 0644)))
			die("%s: %s", ready_path, strerror(errno));
	}
	run_threads();
	if (final_flush && !reason_errno)
		for (i = 0; i < ndevs; i++)
			do_flush(i);
	if (!errors)
		state_write();
	printf("%llu writes, %llu FUA, %llu flushes, %llu discards, %llu zeroed, %llu reads; ended by: %s%s%s\n",
	       (unsigned long long)count_write, (unsigned long long)count_fua,
	       (unsigned long long)count_flush, (unsigned long long)count_discard,
	       (unsigned long long)count_zeroes, (unsigned long long)count_read,
	       (const char *)reason,
	       reason_errno ? ": " : "", reason_errno ? strerror(reason_errno) : "");
	return errors ? 1 : 0;
}

/* ---- verify ---- */

static void verify_page(unsigned int device, u64 page, const char *data)
{
	struct device *d = &dev[device];
	const char *wrong;
	struct write *w;
	char text[160];
	u64 seq;

	wrong = page_decode(data, device, page, &seq, text, sizeof(text));
	if (!wrong) {
		for (w = d->page[page]; w; w = w->next)
			if (w->seq == seq)
				break;
		if (w) {
			d->page[page] = &d->initial[page];
			d->initial[page].next = NULL;
			d->initial[page].seq = seq;
			return;
		}
		snprintf(text, sizeof(text), "write %" PRIu64 "%s, which cannot be here any more",
			 seq, seq ? "" : " (zeros)");
		wrong = text;
		lost++;
	} else {
		garbage++;
	}
	report_page(d, page, "holds", wrong);
}

static void verify_chunk(unsigned int device, u64 start, u64 pages, char *first, char *again)
{
	u64 i;

	for (i = 0; i < pages; i++) {
		if (!again) {
			verify_page(device, start + i, first + i * PAGE);
		} else if (memcmp(first + i * PAGE, again + i * PAGE, PAGE)) {
			report("%s page %" PRIu64 ": read twice, and it differed\n",
			       dev[device].path, start + i);
			unstable++;
		}
	}
}

static void read_all(const struct device *d, u64 start, u64 pages, char *buffer)
{
	ssize_t done = pread(d->fd, buffer, pages * PAGE, start * PAGE);

	if (done != (ssize_t)(pages * PAGE))
		die("%s: cannot read page %" PRIu64 " and the next %" PRIu64 ": %s", d->path, start,
		    pages, done < 0 ? strerror(errno) : "too short");
}

static int verify(char **paths)
{
	char *again = allocate_aligned(CHUNK_PAGES * PAGE);
	u64 start, pages, several = 0, page;
	unsigned int i;
	char **first;

	open_devices(paths, O_RDONLY);
	if (!state_read(true))
		die("%s: %s", state_path, strerror(ENOENT));
	first = allocate(ndevs * sizeof(*first));
	for (i = 0; i < ndevs; i++)
		for (page = 0; page < dev[i].pages; page++)
			several += !!dev[i].page[page]->next;
	for (i = 0; i < ndevs; i++) {
		first[i] = allocate_aligned(dev[i].pages * PAGE);
		for (start = 0; start < dev[i].pages; start += pages) {
			pages = dev[i].pages - start < CHUNK_PAGES ? dev[i].pages - start : CHUNK_PAGES;
			read_all(&dev[i], start, pages, first[i] + start * PAGE);
			verify_chunk(i, start, pages, first[i] + start * PAGE, NULL);
		}
	}
	for (i = 0; i < ndevs; i++)
		for (start = 0; start < dev[i].pages; start += pages) {
			pages = dev[i].pages - start < CHUNK_PAGES ? dev[i].pages - start : CHUNK_PAGES;
			read_all(&dev[i], start, pages, again);
			verify_chunk(i, start, pages, first[i] + start * PAGE, again);
		}
	if (errors) {
		printf("%u garbage, %u lost, %u unstable\n", garbage, lost, unstable);
		printf("%u pages are wrong\n", errors);
		return 1;
	}
	state_write();
	printf("all pages are right; %" PRIu64 " had a choice\n", several);
	return 0;
}

static int show(void)
{
	unsigned int i;
	struct write *w;
	u64 page;

	if (!state_read(false))
		die("%s: %s", state_path, strerror(ENOENT));
	for (i = 0; i < ndevs; i++) {
		u64 zeros = 0, several = 0, newest = 0;

		for (page = 0; page < dev[i].pages; page++) {
			several += !!dev[i].page[page]->next;
			zeros += !dev[i].page[page]->next && !dev[i].page[page]->seq;
			for (w = dev[i].page[page]; w; w = w->next)
				if (w->seq > newest)
					newest = w->seq;
		}
		printf("device %u: %" PRIu64 " pages, %" PRIu64 " of zeros, %" PRIu64
		       " with a choice, newest write %" PRIu64 "\n",
		       i, dev[i].pages, zeros, several, newest);
	}
	return 0;
}

/* ---- arguments ---- */

static u64 number(const char *text)
{
	char *end;
	u64 value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end)
		die("'%s' is not a number", text);
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "state", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'r' },
		{ "ops", required_argument, NULL, 'o' },
		{ "seconds", required_argument, NULL, 't' },
		{ "threads", required_argument, NULL, 'j' },
		{ "max-size", required_argument, NULL, 'm' },
		{ "discard-block", required_argument, NULL, 'd' },
		{ "final-flush", no_argument, NULL, 'f' },
		{ "ready", required_argument, NULL, 'y' },
		{ "torn", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	const char *mode = argc > 1 ? argv[1] : "";
	int c;

	if (!strcmp(mode, "--help")) {
		fputs(usage_text, stdout);
		return 0;
	}
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': state_path = optarg; break;
		case 'r': seed = number(optarg); break;
		case 'o': limit_ops = number(optarg); break;
		case 't': limit_seconds = number(optarg); break;
		case 'j': nthreads = number(optarg); break;
		case 'm': max_size = number(optarg) / PAGE * PAGE; break;
		case 'd': discard_block = number(optarg); break;
		case 'f': final_flush = true; break;
		case 'y': ready_path = optarg; break;
		case 'p': may_be_torn = true; break;
		case 'h': fputs(usage_text, stdout); return 0;
		default: fputs(usage_text, stderr); return 2;
		}
	}
	if (!state_path)
		die("--state is missing; try --help");
	if (nthreads < 1 || nthreads > MAX_THREADS || !max_size || discard_block % PAGE)
		die("a number is out of range; try --help");
	optind++;	/* the mode, which getopt has put first */
	if (!strcmp(mode, "show"))
		return show();
	if (optind >= argc)
		die("no devices; try --help");
	if (!strcmp(mode, "run"))
		return run(argv + optind);
	if (!strcmp(mode, "verify"))
		return verify(argv + optind);
	die("'%s' is no command; try --help", mode);
}
