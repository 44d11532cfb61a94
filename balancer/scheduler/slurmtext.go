package scheduler

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// scontrolReader reads the allocation of one job from scontrol's text about this job alone. The text contains the job's
// name unquoted before the CPUs, and other texts of its user after them. So it may contain any lines, even lines about
// another job. But a user can only add lines to Slurm's own. So the text counts only if it contains one job, and each
// line that is read here once.
type scontrolReader struct {
	id      string
	jobs    int  // in the text
	other   bool // the last of them is another job
	found   rawAllocation
	state   string // of the job
	unclear bool   // a line is there twice
}

func newScontrolReader(id string) *scontrolReader {
	return &scontrolReader{id: id, found: *newRawAllocation()}
}

// line reads one line of `scontrol show job -d ID`.
func (p *scontrolReader) line(line string) error {
	if rest, ok := strings.CutPrefix(line, "JobId="); ok {
		id, _, _ := strings.Cut(rest, " ")
		p.jobs, p.other = p.jobs+1, id != p.id
	} else if rest, ok := strings.CutPrefix(line, "   JobState="); ok {
		p.unclear = p.unclear || p.state != ""
		p.state, _, _ = strings.Cut(rest, " ")
	} else if sluid, ok := strings.CutPrefix(line, "   SLUID="); ok && sluidForm.MatchString(sluid) {
		p.unclear = p.unclear || p.found.sluid != ""
		p.found.sluid = sluid
	} else if rest, ok := strings.CutPrefix(line, "     Nodes="); ok {
		p.found.addLine(rest)
	}
	return nil
}

// sluidForm is the form of a SLUID in Slurm's output. No cgroup of an older release has a name of this form.
var sluidForm = regexp.MustCompile(`^s[0-9A-Z]{13}$`)

// allocation returns the allocation that was read, or nil if the text contains no job. If a job holds no CPUs any more,
// Slurm may show none, and a user's text may contain a forged line.
func (p *scontrolReader) allocation() *rawAllocation {
	switch {
	case p.jobs == 0:
		return nil
	case p.jobs > 1 || p.unclear:
		p.found.refuse(unclearText)
	case p.other:
		p.found.refuse("it is about another job")
	case p.state != "" && !keepsCPUs(p.state):
		p.found.refuse(fmt.Sprintf("the job is %.40q by now", p.state))
	}
	return &p.found
}

// unclearText names the remedy: the owner gives the job other texts.
const unclearText = "a name, comment or path of the job looks like scontrol's own lines: submit it with another one"

// addLine reads nodes and their CPUs, as in n[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:1(IDX:0).
func (s *rawAllocation) addLine(rest string) {
	list, rest, ok := strings.Cut(rest, " CPU_IDs=")
	ids, rest, _ := strings.Cut(rest, " ")
	_, gres, _ := strings.Cut(rest, " GRES=")
	hosts, err := topology.ExpandHosts(list)
	cpus, wrong := parseCPUs(ids)
	if !ok || err != nil || wrong != nil {
		s.refuse("a line with nodes and CPUs is unreadable")
		return
	}
	s.add(hosts, cpus, gpusOf(gres))
}
