package services

import (
	"context"
	"debug/elf"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/kafka"
)

// startTime is how long a process needs at most what only its start needs.
const startTime = 10 * time.Second

// DropStartPages waits until the start is over. Then it takes the pages of the program that only the start needed out
// of this process, and the free part of the heap. The binary has every part of weir, and the start touches most of it.
// Of 26 MB that an agent had, 10 MB were such pages.
func DropStartPages(ctx context.Context, log *slog.Logger) {
	if !kafka.Pause(ctx, startTime) {
		return
	}
	debug.FreeOSMemory()
	if err := dropProgram("/proc/self/exe"); err != nil {
		log.Debug("pages of the program stay in memory", "err", err)
	}
}

// dropProgram takes all pages of the program that nobody can have written out of this process. The kernel brings back
// each that is used again, from its cache of the file. A program that is placed anywhere is left as it is: the linker
// may have written to its pages.
func dropProgram(file string) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("reading the program's own headers: %w", err)
	}
	defer program.Close()
	if program.Type != elf.ET_EXEC {
		return nil
	}
	page := uint64(os.Getpagesize())
	for _, p := range program.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W != 0 {
			continue
		}
		begin := p.Vaddr / page * page
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(p.Vaddr+p.Memsz-begin),
			unix.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("giving pages back: %w", errno)
		}
	}
	return nil
}
