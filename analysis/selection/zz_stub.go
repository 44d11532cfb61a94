package selection

import "errors"

type LiteralOptions struct {
	Threshold, FToRemove             float64
	Quadratic, DropAliased, PerBlock bool
}
type Literal struct{ 
Threshold float64; Model string; FToRemove float64; Constant []string; Clusters [][]string; Representatives []string; RowsUsed int;
Selected []string; R2, ReductionDegree float64
}

func SelectLiteral(t *Table, response int, o LiteralOptions) (*Literal, error) {
	return nil, errors.New("stub")
}
