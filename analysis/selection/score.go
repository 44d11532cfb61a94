package selection

// Fit is a ridge regression on standardised columns.
type Fit struct {
	Intercept    float64
	Coefficients []float64 // of the columns as they were given
	Low, High    float64   // predictions are clipped to the training range ± 25 %
}

// HeldOut is R² on rows of test, with coefficients from rows of train: ridge by generalised cross-validation,
// standardised inside the training rows. x has a slice for each column.
func HeldOut(x [][]float64, y []float64, train, test []int) (float64, Fit) { return 0, Fit{} }

// InSample is R² on the rows it was fitted on, and the same adjusted for the number of columns.
func InSample(x [][]float64, y []float64, rows []int) (r2, adjusted float64) { return 0, 0 }

// Refit is the information in a set of columns: new coefficients for each chunk, 4-fold by time inside it, the mean R².
func Refit(x [][]float64, y []float64, chunks [][]int) float64 { return 0 }
