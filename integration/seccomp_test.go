package integration

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inUnit names the unit file in the environment of this test program when it stands in for systemd.
const inUnit = "WEIR_TEST_IN_UNIT"

// lenient and strict are the first argument of this program in that case.
const (
	lenient = "lenient"
	strict  = "strict"
)

// TestMain runs the tests. With inUnit it restricts this process as systemd does, and becomes the program of its
// arguments.
func TestMain(m *testing.M) {
	if dir, is := os.LookupEnv(inFakeSlurm); is {
		if err := runFakeSlurm(dir, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	file, is := os.LookupEnv(inUnit)
	if !is {
		os.Exit(RunTests(m))
	}
	err := becomeUnit(file, os.Args[1] == lenient, os.Args[2:])
	fmt.Fprintln(os.Stderr, "becoming a unit:", err)
	os.Exit(70)
}

// becomeUnit only returns with an error.
func becomeUnit(file string, lenient bool, args []string) error {
	u, err := readUnit(file)
	if err != nil {
		return err
	}
	u.lenient = lenient
	filter, err := u.filter()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // capabilities and filters belong to the thread that executes the program
	if err := u.limit(); err != nil {
		return err
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, inUnit+"=") {
			env = append(env, e)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("installing a filter of %d instructions: %w", len(filter), errno)
	}
	return fmt.Errorf("executing %q: %w", args, syscall.Exec(args[0], args, env))
}

// limit sets the resource limits, and drops the capabilities that the unit does not grant.
func (u unit) limit() error {
	for key, resource := range map[string]int{
		"LimitCORE": unix.RLIMIT_CORE, "LimitNOFILE": unix.RLIMIT_NOFILE,
		"LimitMEMLOCK": unix.RLIMIT_MEMLOCK,
	} {
		if text := u.last(key); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
				return fmt.Errorf("setting %s: %w", key, err)
			}
		}
	}
	if os.Geteuid() != 0 {
		return nil // there are no capabilities to drop
	}
	keep := map[string]int{"CAP_PERFMON": unix.CAP_PERFMON}
	kept := map[int]bool{}
	for name := range strings.FieldsSeq(u.last("CapabilityBoundingSet")) {
		c, known := keep[name]
		if !known {
			return fmt.Errorf("CapabilityBoundingSet=%s: add its number to this test", name)
		}
		kept[c] = true
	}
	for c := range unix.CAP_LAST_CAP + 1 {
		if !kept[c] {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
				return fmt.Errorf("dropping capability %d: %w", c, err)
			}
		}
	}
	return nil
}

// filter is the program by which the kernel judges each call. A refused call kills the process: a unit that answers
// with an error number would hide it. If u is lenient, the answer is the one of the unit.
func (u unit) filter() ([]unix.SockFilter, error) {
	calls, err := u.calls()
	if err != nil {
		return nil, err
	}
	deny := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	if number := u.last("SystemCallErrorNumber"); number != "" && u.lenient {
		if number != "EPERM" {
			return nil, fmt.Errorf("SystemCallErrorNumber=%s: add it to this test", number)
		}
		deny = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	}
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K

		number, arch, arg = 0, 4, 16 // offsets in struct seccomp_data; its arguments have 8 bytes, the lower 4 first
	)
	p := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equal, K: unix.AUDIT_ARCH_X86_64, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: load, K: number},
	}
	// only refuses a call unless one of its arguments, masked, is among the allowed values.
	only := func(call, argument int, mask uint32, allowed ...uint32) {
		body := []unix.SockFilter{{Code: load, K: uint32(arg + 8*argument)}, {Code: and, K: mask}}
		for i, value := range allowed {
			body = append(body, unix.SockFilter{Code: equal, K: value, Jt: uint8(len(allowed) - i)})
		}
		body = append(body, unix.SockFilter{Code: result, K: deny}, unix.SockFilter{Code: load, K: number})
		p = append(p, unix.SockFilter{Code: equal, K: uint32(call), Jf: uint8(len(body))})
		p = append(p, body...)
	}
	if families := strings.Fields(u.last("RestrictAddressFamilies")); len(families) > 0 {
		numbers := map[string]uint32{"AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_UNIX": unix.AF_UNIX}
		var allowed []uint32
		for _, name := range families {
			n, known := numbers[name]
			if !known {
				return nil, fmt.Errorf("RestrictAddressFamilies=%s: add its number to this test", name)
			}
			allowed = append(allowed, n)
		}
		only(unix.SYS_SOCKET, 0, ^uint32(0), allowed...)
	}
	if u.last("MemoryDenyWriteExecute") == "yes" {
		only(unix.SYS_MMAP, 2, unix.PROT_WRITE|unix.PROT_EXEC, 0, unix.PROT_WRITE, unix.PROT_EXEC)
		only(unix.SYS_MPROTECT, 2, unix.PROT_EXEC, 0)
		only(unix.SYS_PKEY_MPROTECT, 2, unix.PROT_EXEC, 0)
	}
	if u.last("RestrictNamespaces") == "yes" {
		only(unix.SYS_CLONE, 0,
			unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|unix.CLONE_NEWUSER|
				unix.CLONE_NEWPID|unix.CLONE_NEWNET, 0)
		for _, call := range []int{unix.SYS_CLONE3, unix.SYS_UNSHARE, unix.SYS_SETNS} {
			delete(calls, uint32(call))
		}
		// Systemd answers clone3 so, since its flags are in memory. A C library then makes threads by clone.
		p = append(p, unix.SockFilter{Code: equal, K: unix.SYS_CLONE3, Jf: 1},
			unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	for call := range calls {
		p = append(p, unix.SockFilter{Code: equal, K: call, Jf: 1},
			unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW})
	}
	return append(p, unix.SockFilter{Code: result, K: deny}), nil
}
