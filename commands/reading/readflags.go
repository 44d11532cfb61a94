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

// ReadFlags say where a report is read from, and whether a program reads it.
type ReadFlags struct {
	cli.ConfigFlags
	cli.CSVFlags
	Dir    string
	AsJSON bool
}

func (f *ReadFlags) Add(c *cobra.Command) {
	f.Reads = true // it finds a running weir up
	f.ConfigFlags.Add(c)
	c.Flags().StringVar(&f.Dir, "dir", "",
		"read the archive in `DIR`, and ask no broker (default: sink.dir, and the topic)")
	c.Flags().BoolVar(&f.AsJSON, "json", false, "print one JSON object a line")
	f.CSVFlags.Add(c)
	cli.OfferDirectories(c, "dir")
}

// Load returns the configuration. With --dir none need be there.
func (f *ReadFlags) Load() (config.Config, error) {
	if f.Dir == "" {
		return f.ConfigFlags.Load()
	}
	dir, err := filepath.Abs(f.Dir)
	if err == nil {
		_, err = os.Stat(dir) // an archive that is not there would look like an empty one
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

// Where returns which archive is read, and whether brokers are asked too. Where they are, an archive that the user may
// not read is left out, with a word.
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
