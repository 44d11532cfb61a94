package notify

import (
	"bytes"
	_ "embed" // the shipped text
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

//go:embed message.txt
var shipped string

// content is the data of a template.
type content struct {
	ID, Cluster, User, From, Every string
	Digest                         bool
	Job                            *jobText // the first of Jobs
	Jobs                           []*jobText
}

// jobText is a job in words. All texts have one line, without control characters.
type jobText struct {
	What, Kind, ID, Name, Ended    string // What: Job or Array
	Rule, Title, Hint, Slurm, Link string
	Cost                           string
	More                           int // jobs of a digest with the same rule
	MoreCost                       string
	lost, more                     loss
}

var errNoText = errors.New("a subject in the first line, and a text below it")

// texts makes the text of messages.
type texts struct {
	cluster string
	cfg     config.Notify
	of      *template.Template
}

// newTexts reads the template, and tries it.
func newTexts(cluster string, cfg config.Notify) (*texts, error) {
	text := shipped
	if cfg.Template != "" {
		read, err := config.ReadFile(cfg.Template)
		if err != nil {
			return nil, fmt.Errorf("notify.template: %w", err)
		}
		text = string(read)
	}
	of, err := template.New("notify.template").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("notify.template: %w", err)
	}
	t := &texts{cluster, cfg, of}
	try := schemas.Notice{JobID: "1", Task: "1", Tasks: 2, User: "u", Name: "n", Title: "t", Hint: "h", Slurm: "s"}
	if _, _, err := t.write(message{id: "0", user: "u", notices: []*schemas.Notice{&try}}, true); err != nil {
		return nil, err
	}
	return t, nil
}

// write returns subject and text of a message. The subject has one line.
func (t *texts) write(m message, digest bool) (subject, text string, err error) {
	c := content{
		ID: m.id, Cluster: t.cluster, User: printable(m.user), From: t.cfg.From, Every: duration(t.cfg.RuleEvery),
		Digest: digest, Jobs: t.jobs(m.notices),
	}
	c.Job = c.Jobs[0]
	var b bytes.Buffer
	if err := t.of.Execute(&b, c); err != nil {
		return "", "", fmt.Errorf("notify.template: %w", err)
	}
	subject, text, _ = strings.Cut(b.String(), "\n")
	subject, text = strings.TrimSpace(printable(subject)), strings.TrimSpace(text)
	if subject == "" || text == "" {
		return "", "", fmt.Errorf("notify.template: %w", errNoText)
	}
	return subject, text + "\n", nil
}

// jobs returns the jobs of a message in words. Of several with the same rule, the costliest stands for all.
func (t *texts) jobs(notices []*schemas.Notice) (all []*jobText) {
	byRule := map[string]int{}
	for _, n := range notices {
		one := t.job(n)
		i, is := byRule[n.Rule]
		if !is {
			byRule[n.Rule] = len(all)
			all = append(all, one)
			continue
		}
		first := all[i]
		if one.lost.cores+one.lost.gpus > first.lost.cores+first.lost.gpus {
			one.More, one.more = first.More, first.more
			all[i], one, first = one, first, one
		}
		first.More++
		first.more = first.more.plus(one.lost)
		first.MoreCost = first.more.String()
	}
	return all
}

func (t *texts) job(n *schemas.Notice) *jobText {
	j := &jobText{
		What: "Job", Kind: "job", ID: printable(n.JobID), Name: printable(n.Name), Rule: n.Rule,
		Ended: time.UnixMilli(n.Ended).UTC().Format("2006-01-02 15:04"),
		Title: printable(n.Title), Hint: printable(n.Hint), Slurm: printable(n.Slurm),
		Link: t.link(n), lost: lossOf(n),
	}
	j.Cost = j.lost.String()
	if n.Task != n.JobID {
		j.What, j.Kind = "Array", "array of jobs"
		j.Cost += fmt.Sprintf(", of %d tasks", n.Tasks)
	}
	return j
}

// link fills the site's link. Names are escaped: a job's name must not lead elsewhere.
func (t *texts) link(n *schemas.Notice) string {
	return strings.NewReplacer("{cluster}", url.PathEscape(t.cluster), "{job}", url.PathEscape(n.Task),
		"{user}", url.PathEscape(n.User)).Replace(t.cfg.Link)
}

func lossOf(n *schemas.Notice) loss {
	return loss{n.WastedCoreHours, n.WastedGPUHours, n.HeldCoreHours, n.HeldGPUHours}
}

func (l loss) plus(o loss) loss {
	return loss{l.cores + o.cores, l.gpus + o.gpus, l.heldCores + o.heldCores, l.heldGPUs + o.heldGPUs}
}

// String returns the hours in words. GPU-hours come first: whoever holds GPUs holds the cores beside them.
func (l loss) String() string {
	if l.gpus > 0 {
		return fmt.Sprintf("%s of %s GPU-hours without work", hours(l.gpus), hours(l.heldGPUs))
	}
	return fmt.Sprintf("%s of %s core-hours without work", hours(l.cores), hours(l.heldCores))
}

func hours(h float64) string { return strconv.FormatFloat(math.Round(h), 'f', -1, 64) }

func duration(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 0 {
		return strconv.Itoa(int(days)) + " days"
	}
	return strconv.Itoa(int(d/time.Hour)) + " hours"
}

// printable makes a text of one line, without control characters.
func printable(s string) string { return schemas.CleanText(s, schemas.MaxFindingText) }

// mostComment bounds a comment in Slurm's accounting.
const mostComment = 200

// commentMark is the beginning of every comment of weir's.
const commentMark = "weir: "

// comment returns the line for Slurm's accounting: at most 200 bytes.
func (t *texts) comment(n *schemas.Notice) string {
	text := commentMark + lossOf(n).String() + ": " + n.Title
	if n.Slurm != "" {
		text += "; " + n.Slurm
	}
	return schemas.CleanText(strings.NewReplacer(`"`, "'", "|", "/").Replace(text), mostComment)
}
