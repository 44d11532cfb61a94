package page

import (
	"regexp"
	"strconv"
	"testing"
)

// TestRoofLabelIsOffTheAxis: the label of the memory roof lies within the figure, and on no label of the axis.
func TestRoofLabelIsOffTheAxis(t *testing.T) {
	label := regexp.MustCompile(`<text class="(tick|tick end)" x="([0-9.]+)" y="[0-9.]+">(memory [^<]*)</text>`)
	for _, peaks := range [][2]float64{{3e12, 3e11}, {1e12, 1e12}, {5e10, 2e11}, {1e13, 1e10}, {2e11, 9e11}} {
		for _, intensity := range []float64{.01, .3, 1, 20, 300} {
			rate := min(peaks[0], peaks[1]*intensity) / 2
			svg := string(drawRoofline([]roofPoint{{0, intensity, intensity / 2, intensity * 2, rate}}, peaks[0], peaks[1], ""))
			found := label.FindStringSubmatch(svg)
			if found == nil {
				t.Fatalf("no label: %s", svg)
			}
			from, err := strconv.ParseFloat(found[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			to := from + 6*float64(len(found[3]))
			if found[1] == "tick end" {
				from, to = from-6*float64(len(found[3])), from
			}
			if from < roofLeft || to > roofRight {
				t.Errorf("peaks %v, intensity %v: %q from %v to %v", peaks, intensity, found[3], from, to)
			}
		}
	}
}
