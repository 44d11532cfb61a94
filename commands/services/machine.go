package services

import (
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/commands/reading"
)

// CheckMachine returns an error if the hostlists of the node types cannot be read, or if they name a node twice.
func CheckMachine(cfg config.Config) error {
	_, err := nodetypes.New(cfg.Machine)
	return err
}

// runningMachine returns the machine of `weir up`: this host as the kernel describes it, and the simulated nodes. The
// agent reports the same facts. In the configuration they also serve commands that read the archive once all has ended.
func runningMachine(cfg config.Config, load reading.LoadFlags) []config.NodeType {
	host := config.NodeType{}
	if facts, err := hardware.Read(cfg.Agent.ProcPath, cfg.Agent.SysPath); err == nil {
		host = hardware.TypeOf(&facts)
	}
	host.Name, host.Nodes = "host", cfg.Agent.Node
	if load.Nodes == 0 {
		return []config.NodeType{host}
	}
	return []config.NodeType{host, {
		Name: "simulated", Nodes: topology.FoldHosts(load.Names()),
		CPUs: load.Cores, ThreadsPerCore: 1, GPUs: new(0),
	}}
}
