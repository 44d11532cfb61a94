package selection

import "errors"

// Drift is what is known of a selection when it is made, and what later rows are compared with: a model of each
// response, and for each dropped metric how it goes with its representative.
type Drift struct {
	Models   []DriftModel
	Canaries []Canary
}

// DriftModel is the model of a response.
type DriftModel struct {
	Model
	// Renewed: each job has coefficients of its own, so new rows get new ones. LogMSE is of 1 − R² of the terms then.
	Renewed bool
}

// Canary is a dropped metric. Where a node still measures it, its scaled value is Slope times that of the
// representative, with this mean squared error in training.
type Canary struct {
	Metric                  string
	Statistic               string
	Scaling                 Scaling
	Representative          string
	RepresentativeStatistic string
	RepresentativeScaling   Scaling
	Slope, Error            float64
}

// NewDrift makes what drift watches from a selection and the design of its rows.
func NewDrift(d *Design, s *Selection) (*Drift, error) { return nil, errors.New("not written yet") }

// Verdicts of Watch.
const (
	VerdictHold    = "hold"    // what was watched is as it was when the metrics were selected
	VerdictRedo    = "redo"    // the selection no longer holds: select anew
	VerdictUnknown = "unknown" // too few rows to tell
)

// DriftReport is the verdict on later rows, and the evidence.
type DriftReport struct {
	Verdict   string          `json:"verdict"`
	Why       []string        `json:"why"`
	Rows      int             `json:"rows"`
	Responses []ResponseDrift `json:"responses"`
	Canaries  []CanaryDrift   `json:"canaries"`
	Notes     []string        `json:"notes,omitempty"`
}

// ResponseDrift is what became of a response.
type ResponseDrift struct {
	Response  string  `json:"response"`
	Stretches int     `json:"stretches"`          // of 60 rows that were judged
	Rows      int     `json:"rows"`               // that have the response and all terms
	Missing   int     `json:"missing"`            // rows with the response but not all terms
	Sum       float64 `json:"sum"`                // highest value of the CUSUM; above 4 it is an alarm
	AlarmMs   int64   `json:"alarm_ms,omitempty"` // start of the row at which it was raised first
	Why       string  `json:"why,omitempty"`      // why it was not judged
}

// CanaryDrift is what became of a dropped metric.
type CanaryDrift struct {
	Metric         string  `json:"metric"`
	Representative string  `json:"representative"`
	Stretches      int     `json:"stretches"` // of 60 rows that were judged
	Parted         int     `json:"parted"`    // stretches whose error is more than 10 times that of training
	Chance         int     `json:"chance"`    // most that chance explains
	Worst          float64 `json:"worst"`     // highest error, as a multiple of that of training
	SinceMs        int64   `json:"since_ms,omitempty"`
}

// Watch compares later rows with what was known when the metrics were selected.
func (w *Drift) Watch(t *Table) *DriftReport { return nil }
