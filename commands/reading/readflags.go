// Package reading holds the flags and checks that several groups of commands share: the archive to read, the rules of
// the site, the metrics in use, and simulated nodes.
package reading

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"

	"github.com/weirhpc/weir/commands/cli"
)

// ReadFlags select the archive or the topics that a report reads, and whether a person or a program reads it.
type ReadFlags struct {
	cli.ConfigFlags
	cli.CSVFlags
	Dir    string
	AsJSON bool
}

// Add adds the flags to a command.
func (f *ReadFlags) Add(c *cobra.Command) {
	f.Reads = true // the configuration of a running weir up counts
	f.ConfigFlags.Add(c)
	c.Flags().StringVar(&f.Dir, "dir", "",
		"read the archive in `DIR`, and ask no broker (default: sink.dir, and the topic)")
	c.Flags().BoolVar(&f.AsJSON, "json", false, "print one JSON object a line")
	f.CSVFlags.Add(c)
	cli.OfferDirectories(c, "dir")
}

// Load returns the configuration. With --dir, no configuration file is needed.
func (f *ReadFlags) Load() (config.Config, error) {
	if f.Dir == "" {
		return f.ConfigFlags.Load()
	}
	dir, err := filepath.Abs(f.Dir)
	if err == nil {
		_, err = os.Stat(dir) // a missing archive would look like an empty one
	}
	if err != nil {
		return config.Config{}, cli.Usage(fmt.Errorf("--dir %s: %w", f.Dir, naming.Pathless(err)))
	}
	if err := cli.Directory("--dir", dir); err != nil {
		return config.Config{}, cli.Usage(err)
	}
	f.Dir = dir
	return f.Local()
}

// Where returns the archive's directory, and whether brokers are asked too. If they are, an archive that the user may
// not read is left out with a message, since the topics alone still answer.
func (f *ReadFlags) Where(c *cobra.Command, cfg config.Config) (dir string, topic bool, err error) {
	dir, topic = analysis.Where(cfg, f.Dir)
	err = analysis.Readable(dir)
	if errors.Is(err, fs.ErrPermission) && topic {
		cli.Say(c.ErrOrStderr(), "weir: %v; what follows is of the topics alone", err)
		return analysis.NoArchive, topic, nil
	}
	return dir, topic, err
}

// Exclusive refuses --json with --csv, and --raw without it.
func (f *ReadFlags) Exclusive() error {
	if f.AsJSON && f.AsCSV {
		return errors.New("--json and --csv: name one of them")
	}
	if f.Raw && !f.AsCSV {
		return errors.New("--raw is for --csv")
	}
	return nil
}
