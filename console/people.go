package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

const (
	// keepPeople is how long a user's name and roles are kept. An unknown user is kept as long, so that a flood of
	// questions starts no flood of processes.
	keepPeople = 60 * time.Second
	// lookupLimit bounds the commands for one user. A directory that is away must not hold up users whom it knows.
	lookupLimit = 5 * time.Second
	// lookupsAtOnce bounds the processes that ask the directory.
	lookupsAtOnce = 4
	// coordinatorsEach is the time between two readings of Slurm's coordinators.
	coordinatorsEach = 10 * time.Minute
	// coordinatorsLast is how long the last coordinators count while Slurm does not answer.
	coordinatorsLast = time.Hour
	// maxLookupBytes bounds the output of a command. A group with all users of a site is a line of some 100 KB.
	maxLookupBytes = 4 << 20
)

// errStranger is returned for a uid that belongs to nobody.
var errStranger = errors.New("this user is not known where the archive is")

// people finds users by their uid, and decides what they may see. It asks getent and id, because weir is built without
// cgo: Go's own os/user would read /etc/passwd alone, and users of LDAP would be strangers.
type people struct {
	cfg   config.Console
	slots chan struct{} // one for each lookup that runs

	mu           sync.Mutex
	known        map[uint32]person
	coordinators map[string][]string // accounts by user
	coordinated  time.Time           // when Slurm named them
}

// person is a user at a moment.
type person struct {
	viewer analysis.Viewer
	err    error // errStranger, or nil
	until  time.Time
}

func newPeople(cfg config.Console) *people {
	return &people{cfg: cfg, slots: make(chan struct{}, lookupsAtOnce), known: map[uint32]person{}}
}

// viewer returns the rights of the user with a uid. An error other than errStranger means that nobody knows now.
func (p *people) viewer(ctx context.Context, uid uint32) (analysis.Viewer, error) {
	p.mu.Lock()
	one, known := p.known[uid]
	p.mu.Unlock()
	if known && time.Now().Before(one.until) {
		return one.viewer, one.err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return analysis.Viewer{}, fmt.Errorf("waiting for getent: %w", ctx.Err())
	}
	viewer, err := p.lookUp(ctx, uid)
	if err != nil && !errors.Is(err, errStranger) {
		return analysis.Viewer{}, err
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(_ uint32, one person) bool { return !now.Before(one.until) })
	p.known[uid] = person{viewer, err, now.Add(keepPeople)}
	return viewer, err
}

// lookUp asks the directory of this host.
func (p *people) lookUp(ctx context.Context, uid uint32) (analysis.Viewer, error) {
	number := strconv.FormatUint(uint64(uid), 10)
	out, err := output(ctx, "getent", "passwd", number)
	if err != nil {
		return analysis.Viewer{}, err
	}
	fields := strings.Split(strings.TrimSuffix(out, "\n"), ":")
	if len(fields) < 3 || fields[0] == "" || fields[2] != number {
		return analysis.Viewer{}, fmt.Errorf("getent passwd %s answered %.200q", number, out)
	}
	v := analysis.Viewer{User: fields[0], Accounts: p.leads(fields[0])}
	if v.All = slices.Contains(p.cfg.Support, v.User); !v.All && len(p.cfg.SupportGroups) > 0 {
		v.All, err = p.inSupport(ctx, v.User)
	}
	return v, err
}

// leads returns the accounts of which a user sees all jobs.
func (p *people) leads(user string) (accounts []string) {
	for _, l := range p.cfg.Leaders {
		if slices.Contains(l.Users, user) {
			accounts = append(accounts, l.Account)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.coordinated) < coordinatorsLast {
		accounts = append(accounts, p.coordinators[user]...)
	}
	return accounts
}

// inSupport reports whether a user is in one of the support groups. It compares numbers, since names of groups may hold
// spaces.
func (p *people) inSupport(ctx context.Context, user string) (bool, error) {
	out, err := output(ctx, "id", "-G", "--", user)
	if err != nil {
		return false, err
	}
	gids := strings.Fields(out)
	for _, group := range p.cfg.SupportGroups {
		out, err := output(ctx, "getent", "group", "--", group)
		if errors.Is(err, errStranger) {
			continue // the group is not there
		}
		if err != nil {
			return false, err
		}
		if f := strings.Split(out, ":"); len(f) > 2 && slices.Contains(gids, f[2]) {
			return true, nil
		}
	}
	return false, nil
}

// follow reads Slurm's coordinators again and again until ctx ends.
func (p *people) follow(ctx context.Context, log *slog.Logger) {
	var trouble retry.Trouble
	for {
		err := p.readCoordinators(ctx)
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return
		case err != nil && trouble.Worth(err, now):
			log.Warn("coordinators of accounts cannot be read, keeping the last ones for an hour", "err", err)
		case err == nil && trouble.Over():
			log.Info("coordinators of accounts can be read again")
		}
		if !retry.Pause(ctx, coordinatorsEach) {
			return
		}
	}
}

func (p *people) readCoordinators(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := output(ctx, p.cfg.Sacctmgr, "-nP", "show", "account", "withcoord", "format=account,coord")
	if err != nil {
		return err
	}
	of := map[string][]string{}
	for line := range strings.Lines(out) {
		account, users, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		for user := range strings.SplitSeq(users, ",") {
			if user != "" && account != "" {
				of[user] = append(of[user], account)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coordinators, p.coordinated = of, time.Now()
	return nil
}

// output returns the output of a command. When ctx ends, the command and all processes that it started are killed.
// getent ends with 2 if nobody has the name or number.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for a process outside the group that keeps the output open
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bounded{&out, maxLookupBytes}, &bounded{&said, 300}
	err := cmd.Run()
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s %s does not answer: %w", name, args[0], ctx.Err())
	case name == "getent" && errors.As(err, &status) && status.ExitCode() == 2:
		return "", errStranger
	case err != nil:
		return "", fmt.Errorf("%s %s: %w: %.200q", name, args[0], err, said.String())
	case out.Len() == maxLookupBytes:
		return "", fmt.Errorf("%s %s: an answer of more than %d bytes", name, args[0], maxLookupBytes)
	}
	return out.String(), nil
}

// bounded keeps the beginning of its input. It takes everything, since an error would end the command.
type bounded struct {
	to   *bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.to.Write(p[:min(len(p), b.most-b.to.Len())])
	return len(p), nil
}
