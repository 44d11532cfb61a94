package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weirhpc/weir/analysis/audit"
)

// addServices describes all services but the broker. One of two has a name in its group: started again, it gets its
// partitions back at once. The other has to wait until its predecessor is given up.
func (m *machine) addServices(file string) map[string]*process {
	services := map[string]*process{}
	add := func(kind, instance string, more ...string) {
		var env []string
		if instance == "a" {
			env = []string{"WEIR_INSTANCE=" + instance}
		}
		name := kind + "-" + instance
		services[name] = m.add(name, env, append([]string{kind, "--config", file}, more...)...)
	}
	nodes := fmt.Sprint(simulated)
	add("simulate", "a", "--nodes", nodes)
	for _, instance := range []string{"a", "b"} {
		add("balance", instance, "--simulate", nodes)
		add("collect", instance)
		add("merge", instance)
		add("find", instance, "--live")
		add("sink", instance)
	}
	return services
}

// drain ends everything in the order in which data flows, each part once it has read to the end of what is before it.
func (s *system) drain(services map[string]*process) {
	s.t.Helper()
	both := func(kind string) {
		endAll(services[kind+"-a"], services[kind+"-b"])
	}
	endAll(services["simulate-a"])
	s.awaitTicks(s.newest())
	both("balance")
	s.awaitCollect()
	both("collect")
	s.awaitMerge()
	both("merge")
	if services["find-a"].runs() {
		s.awaitFind()
		both("find")
	}
	sinks := []*process{services["sink-a"], services["sink-b"]}
	endSinks(func() int { return sinks[0].count(cutShort) + sinks[1].count(cutShort) },
		func() { endAll(sinks...) }, func() { sinks[0].start(); sinks[1].start() })
	if s.leftovers() > 0 { // of sinks that were killed: the next one to start removes them
		services["sink-a"].start()
		s.eventually("a sink removes what killed ones left", func() bool { return s.leftovers() == 0 })
		services["sink-a"].end()
	}
}

// leftovers is how many temporary files there are in the archive.
func (s *system) leftovers() int {
	s.t.Helper()
	n := 0
	err := filepath.WalkDir(s.cfg.Sink.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), ".tmp-") {
			n++
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// audit runs `weir audit` as a user does, and returns its report and exit status.
func (m *machine) audit(file string) (*audit.Report, int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.binary, "audit", "--json", "--config", file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Errorf("weir audit: %v", err)
		return nil, -1
	}
	r := &audit.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		m.t.Errorf("weir audit: %v: %s%s", err, out.Bytes(), errs.Bytes())
		return nil, cmd.ProcessState.ExitCode()
	}
	for _, d := range r.Differences {
		m.t.Log(d)
	}
	return r, cmd.ProcessState.ExitCode()
}
