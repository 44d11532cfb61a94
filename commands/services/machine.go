package services

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/commands/reading"
)

// CheckMachine returns an error if the hostlists of the node types cannot be read, or if they name a node twice.
func CheckMachine(cfg config.Config) error {
	_, err := nodetypes.New(cfg.Machine)
	return err
}

// runningMachine returns the machine of `weir up`: this host with its CPUs and memory, and the simulated nodes.
func runningMachine(cfg config.Config, load reading.LoadFlags) []config.NodeType {
	host := config.NodeType{Name: "host", Nodes: cfg.Agent.Node}
	if online, err := os.ReadFile(filepath.Join(cfg.Agent.SysPath, "devices/system/cpu/online")); err == nil {
		if cpus, err := config.CPUList(strings.TrimSpace(string(online))); err == nil {
			host.CPUs = len(cpus)
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		host.Memory = int64(info.Totalram * uint64(info.Unit))
	}
	if load.Nodes == 0 {
		return []config.NodeType{host}
	}
	return []config.NodeType{host, {
		Name: "simulated", Nodes: topology.FoldHosts(load.Names()),
		CPUs: load.Cores, ThreadsPerCore: 1, GPUs: new(0),
	}}
}
