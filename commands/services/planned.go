package services

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/commands/cli"
)

// CheckJobs returns an error if the job file of a key or flag cannot be read as a list of jobs. Faults of single jobs
// do not count, and no file is no error.
func CheckJobs(key, path string) error {
	if err := cli.Readable(key, path); path == "" || err != nil {
		return err
	}
	_, faults := scheduler.NewFileSource(path).Jobs(time.Now())
	if err := unreadable(faults); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// CheckTree returns nil if the tree can be read, or no file is named.
func CheckTree(cfg config.Config) error {
	if _, err := treeOf(cfg, nil); err != nil {
		return fmt.Errorf("balance.tree_file: %w", err)
	}
	return nil
}

// unreadable returns the fault of a list of jobs as a whole, or nil.
func unreadable(faults []scheduler.Fault) error {
	for _, f := range faults {
		if f.JobID == "" && !f.Followed {
			return errors.New(f.Reason)
		}
	}
	return nil
}

// treeOf returns the tree of the machine: the tree of balance.tree_file if set, otherwise a flat one of the nodes.
func treeOf(cfg config.Config, nodes []string) (*topology.Tree, error) {
	if cfg.Balance.TreeFile == "" {
		return topology.Flat(nodes), nil
	}
	return config.Answer(cfg.Balance.TreeFile, func() (*topology.Tree, error) {
		return topology.ReadFile(cfg.Balance.TreeFile)
	})
}
