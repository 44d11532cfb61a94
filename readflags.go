package main

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
)

// readFlags say where a report is read from, and whether a program reads it.
type readFlags struct {
	configFlags
	csvFlags
	dir    string
	asJSON bool
}

func (f *readFlags) add(c *cobra.Command) {
	f.reads = true // it finds a running weir up
	f.configFlags.add(c)
	c.Flags().StringVar(&f.dir, "dir", "",
		"read the archive in `DIR`, and ask no broker (default: sink.dir, and the topic)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	f.csvFlags.add(c)
	offerDirectories(c, "dir")
}

// load returns the configuration. With --dir none need be there.
func (f *readFlags) load() (config.Config, error) {
	if f.dir == "" {
		return f.configFlags.load()
	}
	dir, err := filepath.Abs(f.dir)
	if err == nil {
		_, err = os.Stat(dir) // an archive that is not there would look like an empty one
	}
	if err != nil {
		return config.Config{}, usageError{fmt.Errorf("--dir %s: %w", f.dir, naming.Pathless(err))}
	}
	if err := directory("--dir", dir); err != nil {
		return config.Config{}, usageError{err}
	}
	f.dir = dir
	return f.local()
}

// where returns which archive is read, and whether brokers are asked too. Where they are, an archive that the user may
// not read is left out, with a word.
func (f *readFlags) where(c *cobra.Command, cfg config.Config) (dir string, topic bool, err error) {
	dir, topic = analysis.Where(cfg, f.dir)
	err = analysis.Readable(dir)
	if errors.Is(err, fs.ErrPermission) && topic {
		say(c.ErrOrStderr(), "weir: %v; what follows is of the topics alone", err)
		return analysis.NoArchive, topic, nil
	}
	return dir, topic, err
}

// exclusive refuses --json with --csv, and --raw without it.
func (f *readFlags) exclusive() error {
	if f.asJSON && f.asCSV {
		return errors.New("--json and --csv: name one of them")
	}
	if f.raw && !f.asCSV {
		return errors.New("--raw is for --csv")
	}
	return nil
}
