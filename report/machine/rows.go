package machine

import (
	"strings"
	"time"
)

// Row is a number of the report for --json and --csv. View names the table, and with it the columns in use. In the
// other columns texts are empty and numbers null.
type Row struct {
	View      string `json:"view"`
	From      string `json:"from"`
	To        string `json:"to"`
	Name      string `json:"name"` // the counted or measured thing: busy, peak_flops, a rule
	Unit      string `json:"unit"`
	Month     string `json:"month"`
	Date      string `json:"date"`
	SizeClass *int64 `json:"size_class"`
	Account   string `json:"account"`
	User      string `json:"user"`
	JobID     string `json:"job_id"`
	Cores     *int64 `json:"cores"`

	Jobs        *int64   `json:"jobs"`
	CoreHours   *float64 `json:"core_hours"`
	GPUHours    *float64 `json:"gpu_hours"`
	EnergyJ     *float64 `json:"energy_j"`
	Share       *float64 `json:"share"`
	P25         *float64 `json:"p25"`
	Median      *float64 `json:"median"`
	P75         *float64 `json:"p75"`
	Mean        *float64 `json:"mean"`
	MeanCores   *float64 `json:"mean_cores"`
	MeanWithout *float64 `json:"mean_without"` // without the users above their class
	Weighted    *float64 `json:"weighted_mean"`
	Value       *float64 `json:"value"`
	Severity    *float64 `json:"severity"`
	Cost        *float64 `json:"severity_core_hours"`
	Measured    *bool    `json:"measured"`
}

// Rows returns the report as rows, table by table.
func (r *Report) Rows() (all []Row) {
	add := func(rows ...Row) { all = append(all, rows...) }
	add(Row{View: "jobs", Name: "counted", Jobs: &r.Jobs, CoreHours: &r.CoreHours, GPUHours: &r.GPUHours})
	add(Row{View: "jobs", Name: "left out", Jobs: &r.Left.Jobs})
	for i := range r.Left.Reasons {
		add(Row{View: "left_out", Name: r.Left.Reasons[i].Text, Jobs: &r.Left.Reasons[i].Jobs})
	}
	add(r.Cores.rows("")...)
	for i := range r.Days {
		add(r.Days[i].rows(r.Days[i].Date)...)
	}
	if r.GPUs.Seen > 0 {
		add(gpuRows(r.GPUs.rows(""))...)
	}
	for i := range r.GPUDays {
		add(gpuRows(r.GPUDays[i].rows(r.GPUDays[i].Date))...)
	}
	if r.Energy.Of != "" {
		add(Row{View: "energy", Name: r.Energy.Of, Unit: "J", EnergyJ: &r.Energy.Joules})
	}
	for i := range r.Figures {
		add(r.Figures[i].rows()...)
	}
	for i := range r.Sizes {
		m := &r.Sizes[i]
		add(Row{
			View: "job_size", Name: "cores", Month: m.Month, Jobs: &m.Jobs, CoreHours: &m.CoreHours, P25: &m.P25,
			Median: &m.Median, P75: &m.P75, Mean: &m.Mean, Weighted: &m.Weighted,
		})
	}
	for i := range r.Kernel {
		k := &r.Kernel[i]
		add(Row{
			View: "kernel", Name: "cpu_system", Unit: "1", JobID: k.Job, User: k.User, Cores: &k.Cores, Mean: &k.System,
		}, Row{
			View: "kernel", Name: "disk_bytes", Unit: "B/s", JobID: k.Job, User: k.User, Cores: &k.Cores, Mean: k.Disk,
		})
	}
	for i := range r.Accounts {
		add(r.Accounts[i].rows("accounts", r.Rules)...)
	}
	for i := range r.Worst {
		add(r.Worst[i].rows("worst_jobs", r.Rules)...)
	}
	for i := range all {
		all[i].From, all[i].To = instant(r.FromMs), instant(r.ToMs)
	}
	return all
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// rows returns the rows of a date, or of the whole span. The rows of a date have no shares.
func (c *Cores) rows(date string) []Row {
	view := "cores_by_date"
	if date == "" {
		view = "cores"
	}
	row := func(name string, hours *float64, share *float64) Row {
		return Row{View: view, Date: date, Name: name, CoreHours: hours, Share: share}
	}
	all := []Row{row("seen", &c.Seen, nil)}
	if c.Machine != nil {
		all = append(all, row("machine", c.Machine, nil))
	}
	busy, wasted, free, notSeen, ok := c.Shares()
	share := func(v *float64) *float64 {
		if !ok || date != "" {
			return nil
		}
		return v
	}
	all = append(all, row("busy", &c.Busy, share(&busy)), row("wasted", &c.Wasted, share(&wasted)),
		row("free", &c.Free, share(&free)))
	if c.NotSeen != nil {
		all = append(all, row("not seen", c.NotSeen, share(&notSeen)))
	}
	return all
}

// gpuRows makes rows of cores rows of GPUs: views gpus and gpus_by_date.
func gpuRows(rows []Row) []Row {
	for i := range rows {
		r := &rows[i]
		r.View, r.GPUHours, r.CoreHours = strings.Replace(r.View, "cores", "gpus", 1), r.CoreHours, nil
	}
	return rows
}

func (f *Figure) rows() (all []Row) {
	for i := range f.Sizes {
		s := &f.Sizes[i]
		all = append(all, Row{
			View: "sizes", Name: f.ID, Unit: f.Unit, SizeClass: &s.Cores, Jobs: &s.Jobs, CoreHours: &s.CoreHours,
			P25: &s.P25, Median: &s.Median, P75: &s.P75, Mean: &s.Mean, MeanWithout: s.MeanWithout,
		})
		all = append(all, userRows("users_above_p75", f, s, s.High)...)
		all = append(all, userRows("users_below_p25", f, s, s.Low)...)
	}
	for i := range f.Months {
		m := &f.Months[i]
		all = append(all, Row{
			View: "months", Name: f.ID, Unit: f.Unit, Month: m.Month, Jobs: &m.Jobs, Mean: &m.Mean, Median: &m.Median,
			MeanCores: &m.MeanCores,
		})
	}
	for i := range f.Points {
		p := &f.Points[i]
		all = append(all, Row{
			View: "points", Name: f.ID, Unit: f.Unit, JobID: p.Job, User: p.User, Cores: &p.Cores, Value: &p.Value,
		})
	}
	return all
}

func userRows(view string, f *Figure, s *Size, users []OffUser) (all []Row) {
	for i := range users {
		u := &users[i]
		all = append(all, Row{
			View: view, Name: f.ID, Unit: f.Unit, SizeClass: &s.Cores, User: u.User, Jobs: &u.Jobs, Share: &u.Share,
		})
	}
	return all
}

func (l *Line) rows(view string, rules []Rule) []Row {
	head := Row{View: view, Account: l.Account, User: l.User, JobID: l.Job}
	all := head
	all.Jobs, all.CoreHours, all.Cost = &l.Jobs, &l.CoreHours, &l.Cost
	rows := []Row{all}
	for i := range l.Cells {
		c, one := &l.Cells[i], head
		one.Name, one.Measured, one.Jobs = rules[i].ID, &c.Measured, &c.Jobs
		if c.Jobs > 0 {
			one.Severity, one.Cost = &c.Severity, &c.Cost
		}
		rows = append(rows, one)
	}
	return rows
}
