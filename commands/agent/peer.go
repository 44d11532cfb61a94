package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/topology/discovery/measure"

	"github.com/weirhpc/weir/commands/cli"
)

// peerPatience is the time for which a node tries to reach the coordinator.
const peerPatience = 30 * time.Second

// NewPeer returns the command weir topology peer, which an agent starts to take part in a measurement. The command
// reads a measure.Member from standard input, which stays open as long as the agent wants it to run.
func NewPeer() *cobra.Command {
	again := false
	c := &cobra.Command{
		Use: "peer", Short: "Take part in a measurement that standard input describes", Hidden: true, Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := shed(again); err != nil {
				return err
			}
			in := json.NewDecoder(c.InOrStdin())
			in.DisallowUnknownFields()
			var m measure.Member
			if err := in.Decode(&m); err != nil {
				return cli.Usage(fmt.Errorf("standard input contains no measure.Member: %w", err))
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, c.InOrStdin())
				cancel()
			}()
			return m.Join(ctx, peerPatience)
		},
	}
	c.Flags().BoolVar(&again, "unprivileged", false, "the process has shed its privileges")
	return c
}

// errPrivileged is returned if the kernel left a process a privilege that it had shed.
var errPrivileged = errors.New("this process listens to other nodes, and could not shed its capabilities")

// shed drops all capabilities of this process for good. It listens to other nodes, which must not profit from the
// agent's CAP_PERFMON. Each thread has capabilities of its own, and Go has started several. So one thread sheds its
// own, and then starts the program anew in this process. The function returns in the new program only.
func shed(already bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if bare, err := unprivileged(); err != nil || bare {
		return err
	}
	if already {
		return errPrivileged
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil {
		err = unix.Capset(&header, &none[0])
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", append(os.Args, "--unprivileged"), os.Environ())
	}
	return fmt.Errorf("%w: %w", errPrivileged, err)
}

// unprivileged reports whether this thread has no capabilities and cannot get any. Ambient capabilities count as
// permitted ones.
func unprivileged() (bare bool, err error) {
	header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return false, fmt.Errorf("asking for this process's capabilities: %w", err)
	}
	locked, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return false, fmt.Errorf("asking whether this process may get privileges: %w", err)
	}
	return locked == 1 && caps == [2]unix.CapUserData{}, nil
}
