package usage

import "time"

// Row is a number of the report for --json and --csv. View names the table, and with it the columns in use. In the
// other columns texts are empty and numbers null.
type Row struct {
	View  string `json:"view"` // month, months_before, findings, worst_jobs
	Kind  string `json:"kind"` // user, account
	Name  string `json:"name"`
	Month string `json:"month"`
	Rule  string `json:"rule"`
	Class string `json:"class"`
	JobID string `json:"job_id"`
	User  string `json:"user"`

	Jobs           *int64   `json:"jobs"`
	CoreHours      *float64 `json:"core_hours"`
	CoresMeasured  *float64 `json:"core_hours_measured"`
	CoresWasted    *float64 `json:"core_hours_wasted"`
	GPUHours       *float64 `json:"gpu_hours"`
	GPUsMeasured   *float64 `json:"gpu_hours_measured"`
	GPUsWasted     *float64 `json:"gpu_hours_wasted"`
	EnergyJ        *float64 `json:"energy_j"`
	JobsWithEnergy *int64   `json:"jobs_with_energy"`
	Severity       *float64 `json:"severity"`
	Change         string   `json:"change"` // the line of the job script to change, or the hint
}

// Rows returns the report as rows, table by table.
func (r *Report) Rows() []Row {
	all := []Row{sumRow("month", &r.Sum)}
	for i := range r.Before {
		all = append(all, sumRow("months_before", &r.Before[i]))
	}
	for i := range r.Rules {
		f := &r.Rules[i]
		all = append(all, Row{
			View: "findings", Rule: f.ID, Class: f.Class, Jobs: &f.Jobs, CoreHours: &f.CoreHours, GPUHours: &f.GPUHours,
		})
	}
	for i := range r.Worst {
		w := &r.Worst[i]
		cores, gpus := w.hours()
		all = append(all, Row{
			View: "worst_jobs", Rule: w.Finding.Rule, Class: w.Finding.Class, JobID: w.JobID, User: w.User,
			CoreHours: &cores.Held, CoresMeasured: &cores.Measured, CoresWasted: w.WastedH, GPUHours: &gpus.Held,
			GPUsMeasured: &gpus.Measured, GPUsWasted: w.GPUWastedH, Severity: &w.Finding.Severity, Change: w.Change(),
		})
	}
	for i := range all {
		all[i].Kind, all[i].Name = r.Kind, r.Name
		if all[i].Month == "" {
			all[i].Month = r.Month.Format(monthForm)
		}
	}
	return all
}

// monthForm is the form of a month in rows and in --month.
const monthForm = "2006-01"

// ParseMonth reads a month such as 2026-11. It is in UTC, as all times.
func ParseMonth(text string) (time.Time, error) { return time.Parse(monthForm, text) }

func sumRow(view string, s *Sum) Row {
	row := Row{
		View: view, Month: s.Month.Format(monthForm), Jobs: &s.Jobs, CoreHours: &s.Cores.Held, GPUHours: &s.GPUs.Held,
	}
	if s.Cores.Measured > 0 {
		row.CoresMeasured, row.CoresWasted = &s.Cores.Measured, &s.Cores.Wasted
	}
	if s.GPUs.Measured > 0 {
		row.GPUsMeasured, row.GPUsWasted = &s.GPUs.Measured, &s.GPUs.Wasted
	}
	if s.Powered > 0 {
		row.EnergyJ, row.JobsWithEnergy = &s.Energy, &s.Powered
	}
	return row
}

// Change returns the one thing to change: the line of the job script, or the hint if there is no line.
func (w *Worst) Change() string {
	if w.Finding.Slurm != "" {
		return w.Finding.Slurm
	}
	return w.Finding.Hint
}
