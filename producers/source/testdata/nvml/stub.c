// A stand-in for NVIDIA's libnvidia-ml.so.1. It has the names, layouts and numbers of the public header, and answers what
// a test sets by stub_set. STUB_GPUS in the environment is the number of GPUs, 2 without it. With -DOLD it lacks what
// drivers before 510 lack.
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u32 gpu, memory; } utilization;
typedef struct { u64 total, free, used; } memory;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef union { double d; u32 u; u64 ull; } value;
typedef struct { u32 id, scope; long long timestamp, latency; int type, result; value value; } field_value;
typedef struct { u32 version, supported; } gpm_support;
typedef struct { u32 id; int result; double value; struct { char *shortName, *longName, *unit; } info; } gpm_metric;
typedef struct { u32 version, count; void *sample1, *sample2; gpm_metric metrics[333]; } gpm_get;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT = 7, MISMATCH = 25 };

static struct entry { char key[64]; int gpu; u64 value; } entries[256];
static volatile int known;
static int initialized;

// stub_set sets a value of a GPU; -1 stands for all GPUs. "error" makes every call about a GPU return that number,
// "error:NAME" one function. "hang" makes calls wait until it is 0 again.
void stub_set(const char *key, int gpu, u64 v) {
	for (int i = 0; i < known; i++)
		if (entries[i].gpu == gpu && !strcmp(entries[i].key, key)) {
			((volatile struct entry *)entries)[i].value = v;
			return;
		}
	strncpy(entries[known].key, key, 63);
	entries[known].gpu = gpu;
	entries[known].value = v;
	known++;
}

static u64 get(const char *key, int gpu, u64 otherwise) {
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < known; i++)
			if (entries[i].gpu == (pass ? -1 : gpu) && !strcmp(entries[i].key, key))
				return ((volatile struct entry *)entries)[i].value;
	return otherwise;
}

static int check(const char *function, void *device, int *gpu) {
	char key[96] = "error:";
	strncat(key, function, 80);
	*gpu = device ? *(int *)device : -1;
	while (get("hang", *gpu, 0)) {
		struct timespec t = {0, 1000000};
		nanosleep(&t, 0);
	}
	if (!initialized)
		return UNINITIALIZED;
	u64 e = get("error", *gpu, 0);
	return e ? (int)e : (int)get(key, *gpu, 0);
}

#define ENTER(device)                              \
	int gpu;                                       \
	int e = check(__func__, (void *)(device), &gpu); \
	if (e)                                         \
		return e;

static int numbers[64];

int nvmlInit_v2(void) {
	u64 e = get("error:nvmlInit_v2", -1, 0);
	if (e)
		return (int)e;
	initialized++;
	return OK;
}
int nvmlShutdown(void) {
	if (initialized)
		initialized--;
	return OK;
}
int stub_initialized(void) { return initialized; }
int nvmlDeviceGetCount_v2(u32 *n) {
	ENTER(0)
	const char *text = getenv("STUB_GPUS");
	*n = (u32)get("count", -1, text ? (u64)atoi(text) : 2);
	return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **device) {
	numbers[index] = (int)index;
	ENTER(&numbers[index])
	*device = &numbers[index];
	return OK;
}
int nvmlDeviceGetMinorNumber(void *device, u32 *n) {
	ENTER(device)
	*n = (u32)get("minor", gpu, (u64)gpu);
	return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *u) {
	ENTER(device)
	u->gpu = (u32)get("gpu", gpu, 0);
	u->memory = (u32)get("memory", gpu, 0);
	return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *m) {
	ENTER(device)
	m->used = get("used", gpu, 0) + get("reserved", gpu, 0);
	return OK;
}
int nvmlDeviceGetPowerUsage(void *device, u32 *milliwatt) {
	ENTER(device)
	*milliwatt = (u32)get("power", gpu, 0);
	return OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, u32 *celsius) {
	ENTER(device)
	if (sensor != 0)
		return INVALID;
	*celsius = (u32)get("temperature", gpu, 0);
	return OK;
}
int nvmlDeviceGetClockInfo(void *device, int type, u32 *megahertz) {
	ENTER(device)
	*megahertz = type == 1 ? (u32)get("sm_clock", gpu, 0) : 1;
	return OK;
}
static int processes(u64 n, u32 *count, void *infos) {
	if (*count || infos)
		return INVALID; // the agent has no room for any
	*count = (u32)n;
	return n ? INSUFFICIENT : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, void *infos) {
	ENTER(device)
	return processes(get("compute", gpu, 0), count, infos);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, u32 *count, void *infos) {
	ENTER(device)
	return processes(get("graphics", gpu, 0), count, infos);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, u64 *reasons) {
	ENTER(device)
	*reasons = get("reasons", gpu, 0);
	return OK;
}
#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *m) {
	ENTER(device)
	if (m->version != (sizeof *m | 2 << 24))
		return MISMATCH;
	m->used = get("used", gpu, 0);
	m->reserved = get("reserved", gpu, 0);
	return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, u64 *millijoule) {
	ENTER(device)
	*millijoule = get("energy", gpu, 0);
	return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, u64 *reasons) {
	ENTER(device)
	*reasons = get("reasons", gpu, 0);
	return OK;
}
int nvmlDeviceGetFieldValues(void *device, int n, field_value *v) {
	ENTER(device)
	for (int i = 0; i < n; i++) {
		const char *key = v[i].id == 138 ? "nvlink_tx" : v[i].id == 139 ? "nvlink_rx" : v[i].id == 197 ? "pcie_tx" : "pcie_rx";
		int wide = v[i].id == 138 || v[i].id == 139;
		if (v[i].scope != (wide ? 0xFFFFFFFFu : 0) || v[i].id < 138 || v[i].id > 198)
			return INVALID;
		v[i].result = (int)get(wide ? "error:nvlink" : "error:pcie", gpu, OK);
		v[i].type = (int)get(wide ? "nvlink_type" : "pcie_type", gpu, 3);
		v[i].value.ull = get(key, gpu, 0);
	}
	return OK;
}

// A sample is the number of its taking. Metric ID of two samples is the percentage set as gpm_ID, and 0 where the
// samples are not two that follow each other.
typedef struct { int gpu; u64 taken; } sample;
static u64 taken;
static int allocated;

int nvmlGpmQueryDeviceSupport(void *device, gpm_support *s) {
	ENTER(device)
	if (s->version != 1)
		return MISMATCH;
	s->supported = (u32)get("gpm", gpu, 1);
	return OK;
}
int nvmlGpmSampleAlloc(sample **s) {
	*s = calloc(1, sizeof **s);
	allocated++;
	return OK;
}
int nvmlGpmSampleFree(sample *s) {
	free(s);
	allocated--;
	return OK;
}
int stub_allocated(void) { return allocated; }
int nvmlGpmSampleGet(void *device, sample *s) {
	ENTER(device)
	s->gpu = gpu;
	s->taken = ++taken;
	return OK;
}
int nvmlGpmMetricsGet(gpm_get *g) {
	sample *a = g->sample1, *b = g->sample2;
	if (g->version != 1 || a->gpu != b->gpu || a->taken >= b->taken)
		return INVALID;
	for (u32 i = 0; i < g->count; i++) {
		char key[16] = "gpm_";
		char *at = key + 4;
		if (g->metrics[i].id >= 10)
			*at++ = (char)('0' + g->metrics[i].id / 10);
		*at = (char)('0' + g->metrics[i].id % 10);
		u64 v = get(key, a->gpu, ~0ULL);
		g->metrics[i].result = v == ~0ULL ? NOT_SUPPORTED : OK;
		g->metrics[i].value = (double)v;
	}
	return OK;
}
#endif
