package totals

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// survey lists the archive. The caller holds the lock.
func (m *maker) survey() error {
	files, err := sink.Files(filepath.Dir(sink.DatePath(m.Dir, "")), m.Topic)
	if err != nil {
		return err
	}
	m.files, m.holes, m.inputs, m.known = map[string][]sink.File{}, sink.Holes(files), map[string]lookedUp{}, nil
	for _, f := range files {
		if m.files[f.Date] == nil {
			m.known = append(m.known, f.Date)
		}
		m.files[f.Date] = append(m.files[f.Date], f)
	}
	rolled, err := compact.RollupDates(m.Dir)
	m.known = append(m.known, rolled...)
	slices.Sort(m.known)
	m.known = slices.Compact(m.known)
	return err
}

// archived returns how far the archive is.
func (m *maker) archived() Archived {
	a := Archived{Positions: map[int32]int64{}}
	for _, date := range m.known {
		for _, f := range m.files[date] {
			a.Positions[f.Partition] = max(a.Positions[f.Partition], f.Start, f.Footer.Next)
			a.TopicID = cmp.Or(f.Footer.TopicID, a.TopicID)
		}
	}
	return a
}

// look returns the sources of a date's hours.
func (m *maker) look(date string) (compact.Inputs, error) {
	if err := cmp.Or(m.holes[""], m.holes[date]); err != nil {
		return compact.Inputs{}, err
	}
	found, is := m.inputs[date]
	if !is {
		found.Inputs, found.err = compact.InputsOf(m.Dir, m.Topic, date, m.files[date])
		m.inputs[date] = found
	}
	return found.Inputs, found.err
}

// relist lists dates anew: a compaction may have replaced them since. The caller holds the lock.
func (m *maker) relist(dates []compact.Inputs) error {
	for _, in := range dates {
		files, err := sink.FilesIn(sink.DatePath(m.Dir, in.Date), m.Topic, in.Date)
		if err != nil {
			return err
		}
		m.files[in.Date] = files
		delete(m.inputs, in.Date)
	}
	return nil
}

// plan lists the jobs and the sources for a date's totals.
type plan struct {
	jobs    []picked
	waiting []picked
	inputs  []compact.Inputs
	recipe  recipe
	same    map[schemas.JobKey]bool // jobs with copied totals
}

func (m *maker) plan(date string) (p plan, err error) {
	ended, err := jobs.Lives(m.Dir, date)
	if err != nil {
		return p, err
	}
	final := func(j *picked) bool { return m.frontier.final(j.Life, j.to) }
	if p.jobs, p.waiting = pick(ended, m.namesakes, final, m.Interim); len(p.waiting) > 0 {
		was, err := finals(Path(m.Dir, date))
		if err != nil {
			return p, err
		}
		p.jobs, p.waiting = pick(ended, m.namesakes, func(j *picked) bool { // a final life stays final
			return final(j) || slices.ContainsFunc(was[j.JobKey], j.has)
		}, m.Interim)
	}
	err = m.find(&p)
	return p, err
}

// whose returns the life of a job that contains an interval; nil if that life gets no totals.
func (p *plan) whose(k schemas.JobKey, ms int64) *picked {
	at, _ := slices.BinarySearchFunc(p.jobs, k, func(j picked, k schemas.JobKey) int {
		return compact.CompareJobs(j.JobKey, k)
	})
	for ; at < len(p.jobs) && p.jobs[at].JobKey == k; at++ {
		if p.jobs[at].has(ms) {
			return &p.jobs[at]
		}
	}
	return nil
}

// find sets the inputs and the recipe of the plan.
func (m *maker) find(p *plan) error {
	dates, of := touched(p.jobs, m.known)
	cuts := map[schemas.JobKey][]int64{}
	for _, j := range p.jobs {
		if len(j.cuts) > 0 {
			cuts[j.JobKey] = slices.Compact(slices.Sorted(slices.Values(append(cuts[j.JobKey], j.cuts...))))
		}
	}
	for _, d := range dates {
		in, err := m.look(d)
		if err != nil {
			return err
		}
		in.Jobs, in.Cuts = of[d], cuts
		p.inputs = append(p.inputs, in)
	}
	p.recipe = recipeOf(m.Topic, p.jobs, p.inputs)
	p.recipe.interim = m.Interim
	for i := range p.waiting {
		p.recipe.waiting = append(p.recipe.waiting, p.waiting[i].name())
	}
	return nil
}

func (m *maker) planAnew(date string, list func() error) (plan, error) {
	if err := list(); err != nil {
		return plan{}, err
	}
	return m.plan(date)
}

func (m *maker) decide(there *recipe, p plan) (verdict, string) {
	return decide(there, p.recipe, len(p.jobs), func(date string) bool { return len(m.files[date]) > 0 })
}
