package source

import (
	"bytes"
	"slices"
	"strings"
)

// cgroupFile is a file of a job's cgroup. parse writes the numbers that it finds to a row. It is nil for the list of
// CPUs.
type cgroupFile struct {
	controller, name string // the controller is empty for version 2
	metrics          string // that are made of it
	parse            func(row []uint64, text []byte)
}

const ofMemory = "job_mem_used job_mem_anon job_mem_file job_mem_shmem"

var files2 = []cgroupFile{
	{"", "memory.stat", ofMemory, parseMemory2},
	{"", "memory.peak", "job_mem_peak", oneNumber(jobPeak)},
	{"", "memory.max", "job_mem_limit", oneNumber(jobLimit)},
	{"", "memory.events", "job_mem_fails", parseEvents},
	{"", "cpu.stat", "job_throttled job_cpu", parseCPU2},
	{"", "cpu.pressure", "job_psi_cpu", waited(jobPSICPU)},
	{"", "memory.pressure", "job_psi_memory", waited(jobPSIMemory)},
	{"", "io.pressure", "job_psi_io", waited(jobPSIIO)},
	{"", "cpuset.cpus.effective", "", nil},
}

var files1 = []cgroupFile{
	{"memory", "memory.stat", ofMemory + " job_mem_limit", parseMemory1},
	{"memory", "memory.max_usage_in_bytes", "job_mem_peak", oneNumber(jobPeak)},
	{"memory", "memory.failcnt", "job_mem_fails", oneNumber(jobFails)},
	{"cpu", "cpu.stat", "job_throttled", parseCPU1},
	{"cpuacct", "cpuacct.usage", "job_cpu", oneNumber(jobUsage)},
	{"cpuset", "cpuset.cpus", "", nil},
}

// neededFiles returns the files that a measured metric is computed from, and the list of CPUs.
func neededFiles(files []cgroupFile, measures func(metric string) bool) []cgroupFile {
	return slices.DeleteFunc(slices.Clone(files), func(f cgroupFile) bool {
		return f.parse != nil && !slices.ContainsFunc(strings.Fields(f.metrics), measures)
	})
}

// keyed returns the key and the number of the first line of a text, and the lines after it. The key is empty if the
// line is not a key, a space and a number. It is also empty if the line has no end, because more digits may follow.
func keyed(text []byte) (key []byte, v uint64, rest []byte) {
	line, rest, ended := bytes.Cut(text, []byte{'\n'})
	key, digits, _ := bytes.Cut(line, []byte{' '})
	v, left, ok := number(digits)
	if !ended || !ok || len(left) > 0 || v == unread {
		return nil, 0, rest
	}
	return key, v, rest
}

// parseMemory2 reads memory.stat of version 2. Of the kernel's memory it counts only the part that nothing but the end
// of the job frees. The caches of inodes and directories, slab_reclaimable, belong to the job's need as little as its
// page cache does.
func parseMemory2(row []uint64, text []byte) {
	file := uint64(unread)
	kernel, known := uint64(0), false
	for len(text) > 0 {
		var key []byte
		var v uint64
		switch key, v, text = keyed(text); string(key) {
		case "anon":
			row[jobAnon] = v
		case "file":
			file = v
		case "shmem":
			row[jobShmem] = v
		case "kernel_stack", "pagetables", "percpu", "slab_unreclaimable":
			kernel, known = kernel+v, true
		}
	}
	if known {
		row[jobKernel] = kernel
	}
	row[jobFile] = without(file, row[jobShmem])
}

// parseMemory1 reads memory.stat of version 1. Its totals count the cgroups below too.
func parseMemory1(row []uint64, text []byte) {
	cache := uint64(unread)
	for len(text) > 0 {
		var key []byte
		var v uint64
		switch key, v, text = keyed(text); string(key) {
		case "total_rss":
			row[jobAnon] = v
		case "total_cache":
			cache = v
		case "total_shmem":
			row[jobShmem] = v
		case "hierarchical_memory_limit":
			if v < 1<<62 { // the kernel's largest number of pages stands for no limit
				row[jobLimit] = v
			}
		}
	}
	row[jobFile] = without(cache, row[jobShmem])
}

// without subtracts a part from a whole. Both are read while they change, so the part may seem larger.
func without(whole, part uint64) uint64 {
	if whole == unread || part == unread {
		return unread
	}
	return whole - min(part, whole)
}

func parseEvents(row []uint64, text []byte) {
	for len(text) > 0 {
		var key []byte
		var v uint64
		if key, v, text = keyed(text); string(key) == "max" {
			row[jobFails] = v
		}
	}
}

// parseCPU2 reads cpu.stat of version 2, in microseconds.
func parseCPU2(row []uint64, text []byte) {
	for len(text) > 0 {
		var key []byte
		var v uint64
		switch key, v, text = keyed(text); {
		case v > unread/1000:
		case string(key) == "usage_usec":
			row[jobUsage] = v * 1000
		case string(key) == "throttled_usec":
			row[jobThrottled] = v * 1000
		}
	}
}

func parseCPU1(row []uint64, text []byte) {
	for len(text) > 0 {
		var key []byte
		var v uint64
		if key, v, text = keyed(text); string(key) == "throttled_time" {
			row[jobThrottled] = v
		}
	}
}

// oneNumber reads a file that contains one number. The text "max", for no limit, leaves the field unread.
func oneNumber(field int) func(row []uint64, text []byte) {
	return func(row []uint64, text []byte) {
		if v, rest, ok := number(text); ok && len(rest) == 1 && rest[0] == '\n' {
			row[field] = v
		}
	}
}

// waited reads the microseconds for which at least one task has waited.
func waited(field int) func(row []uint64, text []byte) {
	return func(row []uint64, text []byte) {
		line, _, ended := bytes.Cut(text, []byte{'\n'})
		_, total, found := bytes.Cut(line, []byte(" total="))
		if !ended || !found || !bytes.HasPrefix(line, []byte("some ")) {
			return
		}
		if v, rest, ok := number(total); ok && len(rest) == 0 {
			row[field] = v
		}
	}
}

// parseCPUList reads a list such as 0-3,8. It returns nil if the text is not a list.
func parseCPUList(text []byte) (cpus []int32) {
	text = bytes.TrimSuffix(text, []byte{'\n'})
	for len(text) > 0 {
		var item []byte
		item, text, _ = bytes.Cut(text, []byte{','})
		first, rest, ok := number(item)
		last := first
		if len(rest) > 0 && rest[0] == '-' {
			var both bool
			last, rest, both = number(rest[1:])
			ok = ok && both
		}
		if !ok || len(rest) > 0 || last >= maxCPUs || first > last || len(cpus) > 0 &&
			first <= uint64(cpus[len(cpus)-1]) {
			return nil
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, int32(c))
		}
	}
	return cpus
}
