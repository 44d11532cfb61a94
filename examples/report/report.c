/*
 * Reports how many steps a second a program makes: cc -O2 report.c -o report && ./report
 * An application needs the function report alone. docs/report.md says what becomes of the values.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Appends one line, in one write: lines of several processes do not mix. Without the variable it does nothing. */
static void report(const char *name, double value, const char *unit)
{
	const char *path = getenv("WEIR_REPORT_FILE");
	char line[256];
	int length = snprintf(line, sizeof line, "%s %.17g %s\n", name, value, unit);
	int file;

	if (path == NULL || length < 0 || length >= (int)sizeof line)
		return;
	file = open(path, O_WRONLY | O_APPEND);
	if (file < 0)
		return; /* a job goes on, whether somebody measures it or not */
	if (write(file, line, (size_t)length) != length)
		fprintf(stderr, "the report of %s was not written\n", name);
	close(file);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	double start = now(), last = start;
	long steps = 0;

	while (now() - start < seconds) {
		struct timespec work = {0, 1000000};

		nanosleep(&work, NULL); /* what the application does in a step */
		steps++;
		if (now() - last >= 0.2) {
			report("c_steps_per_second", (double)steps / (now() - last), "1/s");
			steps = 0;
			last = now();
		}
	}
	return 0;
}
