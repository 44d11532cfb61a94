package config

// MetricList is a file metrics.yaml: which metrics the agents measure, and why. `weir metrics select` writes it, the
// agent takes it as agent.metrics_file, and `weir metrics drift` watches it.
type MetricList struct {
	Version   int       `yaml:"version"` // 1
	Created   string    `yaml:"created"` // RFC 3339, UTC
	Source    string    `yaml:"source"`  // the data that it was selected from
	Rows      int       `yaml:"rows"`
	Blocks    int       `yaml:"blocks"`
	Responses []string  `yaml:"responses,omitempty"` // empty: selected for coverage
	Method    string    `yaml:"method"`
	Seed      int64     `yaml:"seed"`
	Canary    float64   `yaml:"canary"` // share of the nodes that continue to measure everything
	Keep      []string  `yaml:"keep"`   // measured on every node; every other metric is measured on canary nodes alone
	Kept      []Kept    `yaml:"kept,omitempty"`
	Dropped   []Dropped `yaml:"dropped,omitempty"`
	// Drift is the reference of `weir metrics drift`; nil: nothing can be watched.
	Drift *MetricDrift `yaml:"drift,omitempty"`
}

// Kept names a metric to keep, and the reason.
type Kept struct {
	Name string `yaml:"name"`
	Why  string `yaml:"why"` // response, coverage, or in use: and the user
}

// Dropped is a metric that is not measured, and its representative.
type Dropped struct {
	Name           string  `yaml:"name"`
	Representative string  `yaml:"representative,omitempty"` // empty: none
	R              float64 `yaml:"r"`                        // correlation with the representative
	R2             float64 `yaml:"r2"`                       // held-out, from kept metrics
}
