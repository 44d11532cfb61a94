package selection

import "errors"

// CompareOptions are the choices of a comparison.
type CompareOptions struct {
	Select Options  // of the forward method; Quadratic holds for all methods
	Main   []string // metrics that a person would choose; empty: none
	Chunks int      // equal stretches of time; 0: 12
	Train  int      // the first chunks choose, the others verify; 0: half of them; the paper has 1 or 2
	Draws  int      // random sets for RAND; 0: 20
}

// Verified is R² of a set of metrics on one chunk that took no part in choosing it, or the mean of several.
type Verified struct {
	Chunk    string  `json:"chunk,omitempty"` // its number, and its unit where a chunk is one
	Rows     int     `json:"rows"`
	InSample float64 `json:"in_sample"` // coefficients from this chunk, as the paper has it
	Adjusted float64 `json:"adjusted"`  // InSample, less what noise alone would reach
	HeldOut  float64 `json:"held_out"`  // coefficients from the training chunks
	Refit    float64 `json:"refit"`     // new coefficients within this chunk, held out in four parts
}

// Swept is the literal method at one threshold: a point of the paper's figures 2 and 4.
type Swept struct {
	Threshold float64  `json:"threshold"`
	Clusters  int      `json:"clusters"`
	Metrics   int      `json:"metrics"`
	Reduction float64  `json:"reduction_degree"`
	InSample  float64  `json:"in_sample"` // on the training chunks
	Adjusted  float64  `json:"adjusted"`
	Verified  Verified `json:"verified"` // mean over the verification chunks
	Refused   string   `json:"refused,omitempty"`
}

// Contender is one method: a bar of each group in the paper's figures 3, 5 and 6.
type Contender struct {
	Method   string     `json:"method"`  // literal, RAND, MAIN or forward
	Metrics  int        `json:"metrics"` // how many it takes
	Names    []string   `json:"names,omitempty"`
	InSample float64    `json:"in_sample"` // on the training chunks
	Adjusted float64    `json:"adjusted"`
	Chunks   []Verified `json:"chunks"`
	Mean     Verified   `json:"mean"`
	Low      Verified   `json:"low"` // the least of each
	High     Verified   `json:"high"`
	Refused  string     `json:"refused,omitempty"`
}

// Comparison is what each method keeps, and how well that explains a response it was not chosen on.
type Comparison struct {
	Response   string      `json:"response"`
	Model      string      `json:"model"` // linear or quadratic
	Rows       int         `json:"rows"`
	Metrics    int         `json:"metrics"`
	Chunks     int         `json:"chunks"`
	Train      int         `json:"train"`
	Threshold  float64     `json:"threshold"` // of the literal method: the best in-sample R² in training
	Sweep      []Swept     `json:"sweep"`
	Contenders []Contender `json:"contenders"`
	Warnings   []string    `json:"warnings,omitempty"`
}

// Compare runs every method on the first chunks of a table, and scores what it selects on the others.
func Compare(t *Table, o CompareOptions) (*Comparison, error) {
	return nil, errors.New("not written yet")
}
