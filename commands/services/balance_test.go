package services_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/services"
)

// TestSlurmsMachineIsWaitedFor: a balancer that knows its nodes from Slurm alone begins when Slurm answers, and ends
// when it is asked to before that.
func TestSlurmsMachineIsWaitedFor(t *testing.T) {
	cfg := config.Default()
	cfg.Balance.Slurm.Enabled, cfg.Balance.Slurm.Bin, cfg.Balance.Slurm.Poll = true, t.TempDir(), 50*time.Millisecond
	slurm := scheduler.StartSlurm(t.Context(), cfg)
	var said kafkatest.Log
	log := slog.New(slog.NewTextHandler(&said, nil))

	ctx, interrupt := context.WithCancel(t.Context())
	got := make(chan []string, 1)
	go func() { got <- services.Machine(ctx, cfg, slurm, log) }()
	kafkatest.Eventually(t, "a word of it", func() bool { return strings.Contains(said.String(), "waiting for Slurm") })
	interrupt()
	if nodes := <-got; nodes != nil {
		t.Errorf("it was to end, and returned %v", nodes)
	}
	go func() { got <- services.Machine(t.Context(), cfg, slurm, log) }()
	for name, script := range map[string]string{
		// A row of squeue ends with a text that is drawn anew each time: without rows there is none.
		"sinfo": "echo 'n1|4|1|4|1'; echo 'n2|4|1|4|1'", "squeue": "", "scontrol": "",
	} {
		if err := os.WriteFile(filepath.Join(cfg.Balance.Slurm.Bin, name), []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	if nodes := <-got; !slices.Equal(nodes, []string{"n1", "n2"}) {
		t.Errorf("nodes %v", nodes)
	}
}
