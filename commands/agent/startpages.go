package agent

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/retry"
)

// startTime is an upper bound for the start of a process, after which the pages that only the start needed can go.
const startTime = 10 * time.Second

// dropStartPages waits until the start is over, and then releases the program's pages that only the start needed and
// the free part of the heap. The binary contains every part of weir, and the start touches most of it: 10 MB of the 26
// MB that an agent used were such pages.
func dropStartPages(ctx context.Context, log *slog.Logger) {
	if !retry.Pause(ctx, startTime) {
		return
	}
	debug.FreeOSMemory()
	if err := dropProgram("/proc/self/exe"); err != nil {
		log.Debug("pages of the program stay in memory", "err", err)
	}
}

// dropProgram releases the program's pages that cannot have been written to. The kernel reads a page again, from its
// cache of the file, when the process uses it. A position-independent program is left alone, because the linker may
// have written to its pages.
func dropProgram(file string) error {
	segments, err := fixedSegments(file)
	if err != nil {
		return fmt.Errorf("reading the program's own headers: %w", err)
	}
	page := uint64(os.Getpagesize())
	for _, p := range segments {
		if elf.ProgType(p.Type) != elf.PT_LOAD || elf.ProgFlag(p.Flags)&elf.PF_W != 0 {
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

var errNoProgram = errors.New("not a program of 64 bits")

// fixedSegments returns the headers of a program's segments, or none of a position-independent program. elf.Open would
// link readers of compressed sections and debug information: 150 kB of weir-agent.
func fixedSegments(file string) ([]elf.Prog64, error) {
	program, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	var header elf.Header64
	if err := binary.Read(program, binary.NativeEndian, &header); err != nil {
		return nil, err
	}
	if string(header.Ident[:len(elf.ELFMAG)]) != elf.ELFMAG ||
		elf.Class(header.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return nil, errNoProgram
	}
	if elf.Type(header.Type) != elf.ET_EXEC {
		return nil, nil
	}
	segments := make([]elf.Prog64, header.Phnum)
	at := io.NewSectionReader(program, int64(header.Phoff), int64(binary.Size(segments)))
	return segments, binary.Read(at, binary.NativeEndian, segments)
}
