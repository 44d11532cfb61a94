package compact

import (
	"errors"
	"io/fs"

	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"
)

// datesBeside returns the dates that have jobs or findings.
func datesBeside(dir string) ([]string, error) {
	ended, err := jobs.Dates(dir)
	if err != nil {
		return nil, err
	}
	found, err := findings.Dates(dir)
	return append(ended, found...), err
}

// statBeside adds the numbers of the jobs that ended on each date, and of their findings.
func statBeside(dir string, byDate map[string]*DateStats) error {
	dates, err := datesBeside(dir)
	if err != nil {
		return err
	}
	for _, date := range dates {
		if byDate[date] == nil {
			byDate[date] = &DateStats{Date: date}
		}
	}
	for date, s := range byDate {
		var fault error
		if s.Jobs, s.JobBytes, fault = jobs.Stat(dir, date); fault != nil {
			s.Damaged++
		}
		if s.Findings, s.FindingBytes, fault = findings.Stat(dir, date); fault != nil {
			s.Damaged++
		}
	}
	return nil
}

// readBeside reads the jobs that ended on the date, and their findings.
func (v *Verified) readBeside(dir string) {
	n, err := jobs.Check(dir, v.Date)
	if v.Jobs = n; err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.Faults = append(v.Faults, err.Error())
	}
	err = findings.Each(dir, v.Date, func(*findings.Row) error { v.Findings++; return nil })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.Faults = append(v.Faults, err.Error())
	}
}
