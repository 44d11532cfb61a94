package machine

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/report/view"
)

// Figure shows a measure of jobs by their size and by month. Figures 6 to 9 of NWPerf are of this kind.
type Figure struct {
	ID, Title string
	Unit      string // "1": a share
	Points    []Point
	Sizes     []Size
	Months    []Month
}

// Point is a job of a figure.
type Point struct {
	Job, User string
	Cores     int64
	Value     float64
}

// Size sums up the jobs of a size class.
type Size struct {
	Cores            int64 // the class: a power of 2
	Jobs             int64
	CoreHours        float64
	P25, Median, P75 float64
	Mean             float64
	MeanWithout      *float64 // without the users in High; nil if there are none, or no others
	High, Low        []OffUser
}

// OffUser is a user with most of the jobs in the highest or lowest quarter of their class.
type OffUser struct {
	User  string
	Jobs  int64   // in the class
	Share float64 // of these jobs in that quarter
}

// Month sums up the jobs that began in a month.
type Month struct {
	Month        string // for example 2026-10
	Jobs         int64
	Mean, Median float64
	MeanCores    float64
}

// measure is a number of a job; NaN: not measured.
type measure struct {
	id, title, unit string
	of              func(j *Job) float64
}

var measures = []measure{
	{"peak_flops", "Share of peak FLOPs", "1", (*Job).peakFlops},
	{"user_system", "User and system time", "1", (*Job).userAndSystem},
	{"bytes_per_cycle", "Memory bytes per cycle", "B", func(j *Job) float64 { return j.mean("bytes_per_cycle") }},
	{"busy", "Busy cores", "1", (*Job).busy},
}

// Metrics returns the metrics that the figures are computed from.
func Metrics() []string {
	return []string{
		"bytes_per_cycle", "cpu_idle", "cpu_system", "cpu_user", "disk_bytes", "flops_any", "peak_share_flops",
	}
}

func (j *Job) mean(metric string) float64 {
	if m, ok := j.Means[metric]; ok {
		return m.Mean
	}
	return math.NaN()
}

// userAndSystem adds the means of two metrics. Deciles could not be added.
func (j *Job) userAndSystem() float64 { return j.mean("cpu_user") + j.mean("cpu_system") }

// peakFlops returns the share of the peak FLOP/s. It is computed if the node's peak is known, since the metric
// peak_share_flops exists for jobs with whole nodes only.
func (j *Job) peakFlops() float64 {
	if m, ok := j.Means["flops_any"]; ok && j.Type.PeakFlops > 0 {
		return m.Mean * m.PerNode / j.Type.PeakFlops
	}
	return j.mean("peak_share_flops")
}

func (j *Job) busy() float64 { return view.Busy(j.mean("cpu_idle"), j.Type) }

// figure makes the figure of the jobs that have a value.
func (m *measure) figure(jobs []*Job) Figure {
	f := Figure{ID: m.id, Title: m.title, Unit: m.unit}
	bySize, byMonth := map[int64][]valued{}, map[string][]valued{}
	for _, j := range jobs {
		v := m.of(j)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		f.Points = append(f.Points, Point{j.JobID, j.User, j.Cores, v})
		size, month := view.SizeClass(j.Cores), monthOf(j.StartMs)
		bySize[size] = append(bySize[size], valued{j, v})
		byMonth[month] = append(byMonth[month], valued{j, v})
	}
	for size, of := range bySize {
		f.Sizes = append(f.Sizes, sizeOf(size, of))
	}
	for month, of := range byMonth {
		values, cores := values(of), 0.0
		for _, v := range of {
			cores += float64(v.job.Cores)
		}
		f.Months = append(f.Months, Month{
			month, int64(len(of)), mean(values), quantile(values, 0.5), cores / float64(len(of)),
		})
	}
	slices.SortFunc(f.Sizes, func(a, b Size) int { return cmp.Compare(a.Cores, b.Cores) })
	slices.SortFunc(f.Months, func(a, b Month) int { return cmp.Compare(a.Month, b.Month) })
	return f
}

// valued is a job with the value of a measure.
type valued struct {
	job   *Job
	value float64
}

// values are in ascending order.
func values(of []valued) []float64 {
	sorted := make([]float64, len(of))
	for i, v := range of {
		sorted[i] = v.value
	}
	slices.Sort(sorted)
	return sorted
}

func sizeOf(class int64, of []valued) Size {
	sorted := values(of)
	s := Size{
		Cores: class, Jobs: int64(len(of)), Mean: mean(sorted),
		P25: quantile(sorted, 0.25), Median: quantile(sorted, 0.5), P75: quantile(sorted, 0.75),
	}
	for _, v := range of {
		s.CoreHours += v.job.coreHours()
	}
	s.offUsers(of, sorted)
	return s
}

// From fewer jobs in a class, or of a user, nothing can be concluded about the user.
const (
	fewestInClass = 20
	fewestOfUser  = 5
)

// offUsers names the users with most of their jobs in the highest or the lowest quarter of the class.
func (s *Size) offUsers(of []valued, sorted []float64) {
	if len(of) < fewestInClass {
		return
	}
	byUser := map[string][]valued{}
	for _, v := range of {
		byUser[v.job.User] = append(byUser[v.job.User], v)
	}
	rest, n := 0.0, 0
	for _, user := range slices.Sorted(maps.Keys(byUser)) { // sums do not depend on the order of a map
		mine := byUser[user]
		high, low := 0, 0
		for _, v := range mine {
			below, _ := slices.BinarySearch(sorted, v.value)
			switch rank := float64(below) / float64(len(sorted)-1); {
			case rank > 0.75:
				high++
			case rank < 0.25:
				low++
			}
		}
		if up, down := off(user, mine, high), off(user, mine, low); up != nil {
			s.High = append(s.High, *up)
			continue
		} else if down != nil {
			s.Low = append(s.Low, *down)
		}
		for _, v := range mine {
			rest += v.value
			n++
		}
	}
	if len(s.High) > 0 && n > 0 {
		without := rest / float64(n)
		s.MeanWithout = &without
	}
	worstFirst := func(a, b OffUser) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.User, b.User)) }
	slices.SortFunc(s.High, worstFirst)
	slices.SortFunc(s.Low, worstFirst)
}

// off returns the user if more than 75 % of the jobs are in one quarter.
func off(user string, jobs []valued, in int) *OffUser {
	share := float64(in) / float64(len(jobs))
	if len(jobs) < fewestOfUser || share <= 0.75 {
		return nil
	}
	return &OffUser{user, int64(len(jobs)), share}
}

// MonthSize describes the sizes of the jobs that began in a month.
type MonthSize struct {
	Month            string
	Jobs             int64
	CoreHours        float64
	P25, Median, P75 float64 // of the jobs' cores
	Mean             float64
	Weighted         float64 // mean weighted by core-hours: the size at which the average core-hour is spent
}

func sizesByMonth(jobs []*Job) (all []MonthSize) {
	byMonth := map[string][]*Job{}
	for _, j := range jobs {
		byMonth[monthOf(j.StartMs)] = append(byMonth[monthOf(j.StartMs)], j)
	}
	for month, of := range byMonth {
		m := MonthSize{Month: month, Jobs: int64(len(of))}
		var sizes []float64
		for _, j := range of {
			sizes = append(sizes, float64(j.Cores))
			m.CoreHours += j.coreHours()
			m.Weighted += float64(j.Cores) * j.coreHours()
		}
		slices.Sort(sizes)
		m.Mean, m.P25, m.Median, m.P75 = mean(sizes), quantile(sizes, 0.25), quantile(sizes, 0.5), quantile(sizes, 0.75)
		m.Weighted /= m.CoreHours // never 0: jobs that count ran for a while
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b MonthSize) int { return cmp.Compare(a.Month, b.Month) })
	return all
}

func monthOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01") }

// KernelJob is a job with its time in the kernel. Much time in the kernel without I/O is worth a look.
type KernelJob struct {
	Job, User string
	Cores     int64
	System    float64
	Disk      *float64 // bytes a second of a node; nil: not measured
}

// mostKernel is the number of jobs that are named.
const mostKernel = 10

// kernel returns the jobs with most time in the kernel.
func kernel(jobs []*Job) (all []KernelJob) {
	for _, j := range jobs {
		if m, ok := j.Means["cpu_system"]; ok {
			k := KernelJob{Job: j.JobID, User: j.User, Cores: j.Cores, System: m.Mean}
			if d, ok := j.Means["disk_bytes"]; ok {
				k.Disk = &d.Mean
			}
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b KernelJob) int { return cmp.Compare(b.System, a.System) })
	return all[:min(mostKernel, len(all))]
}
