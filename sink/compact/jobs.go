package compact

import (
	"errors"
	"io/fs"

	"github.com/weirhpc/weir/sink/jobs"
)

// statJobs adds the numbers of the jobs that ended on each date.
func statJobs(dir string, byDate map[string]*DateStats) error {
	dates, err := jobs.Dates(dir)
	if err != nil {
		return err
	}
	for _, date := range dates {
		if byDate[date] == nil {
			byDate[date] = &DateStats{Date: date}
		}
		s := byDate[date]
		var fault error
		if s.Jobs, s.JobBytes, fault = jobs.Stat(dir, date); fault != nil {
			s.Damaged++
		}
	}
	return nil
}

// readJobs reads the jobs that ended on the date.
func (v *Verified) readJobs(dir string) {
	n, err := jobs.Check(dir, v.Date)
	if v.Jobs = n; err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.Faults = append(v.Faults, err.Error())
	}
}
