package discover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
)

// triangle returns the matrix of the rows of an upper triangle. Nodes are n0, n1 and so on.
func triangle(rows string) *latency.Matrix {
	lines := strings.Fields(rows)
	names := make([]string, len(lines)+1)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	m := latency.New(names)
	for a, line := range lines {
		for i, field := range strings.Split(line, ",") {
			us, err := strconv.ParseFloat(field, 64)
			if err != nil {
				panic(err)
			}
			m.Set(a, a+1+i, us)
		}
	}
	return m
}

// splits returns the bipartitions of a network's nodes by its links between switches, as the side without node 0.
func splits(n *network.Network) []string {
	var all []string
	for i, cut := range n.Links {
		if !n.IsSwitch(cut.A) {
			continue
		}
		reached := map[int]bool{0: true}
		for grown := true; grown; {
			grown = false
			for j, l := range n.Links {
				if j != i && reached[l.A] != reached[l.B] {
					reached[l.A], reached[l.B], grown = true, true, true
				}
			}
		}
		var side []string
		for v := range n.Nodes {
			if !reached[v] {
				side = append(side, strconv.Itoa(v))
			}
		}
		all = append(all, strings.Join(side, ","))
	}
	slices.Sort(all)
	return all
}

const westmere = `
53.253,53.252,53.263,53.377,53.362,54.658,53.457,53.647,53.335
53.127,53.022,53.348,53.437,53.406,54.417,53.311,53.167
53.394,53.409,53.176,53.954,53.318,54.457,53.453
53.356,53.176,54.039,53.349,53.462,54.387
54.263,53.632,53.634,53.343,53.403
54.504,54.595,54.614,54.543
53.522,53.377,53.875
53.366,53.156
53.328`

const threeSwitches = "2,2,4,4,4,4,4,4 2,4,4,4,4,4,4 4,4,4,4,4,4 2,2,4,4,4 2,4,4,4 4,4,4 2,2 2"

func TestLiteralX(t *testing.T) {
	for _, c := range []struct {
		name, rows string
		epsilons   []float64
		splits     []string
	}{
		{"table 2.2", threeSwitches, []float64{0, .1, .2, .3, .4, .5}, []string{"1,2", "3,4,5", "6,7,8"}},
		{"table 2.3", "2,3,4 3,4 5", []float64{0, .1, .2, .3, .35, .4}, nil},
		{"225", "2,2,3,3,3 2,3,3,3 3,3,3 4,4 4", []float64{0, .1, .2, .3, .35, .4}, nil},
		{"225b", "2,2,3.5 2,3.5 3.5", []float64{0, .1, .2, .3, .4, .5, .6}, nil},
		{"westmere", westmere, []float64{.01, .02, .03, .04, .05, .1, .2, .3, .4, .5, .6, .7}, nil},
	} {
		m := triangle(c.rows)
		for _, epsilon := range c.epsilons {
			got, err := Literal(m, epsilon)
			if err != nil {
				t.Errorf("%s at epsilon %v: %v", c.name, epsilon, err)
				continue
			}
			fmt.Println(c.name, epsilon, got.Kind, got.Network.Names[got.Network.Nodes:], splits(got.Network), len(got.Network.Links))
			if len(got.Network.Links) < 15 {
				fmt.Println(got.Network.Links)
			}
		}
	}
}

func TestLiteralTime(t *testing.T) {
	for _, n := range []int{64, 256, 1024} {
		for _, sigma := range []float64{0, .02, .05} {
			r := rand.New(rand.NewPCG(1, 1))
			names := make([]string, n)
			m := latency.New(names)
			for _, p := range allPairs(n) {
				us := 1.8
				if p.A/8 == p.B/8 {
					us = 1
				} else if p.A/(n/4) == p.B/(n/4) {
					us = 1.4
				}
				m.Set(p.A, p.B, us*math.Exp(sigma*r.NormFloat64()))
			}
			for _, e := range []float64{.1, .3} {
				start := time.Now()
				got, err := Literal(m, e)
				sw := 0
				if err == nil {
					sw = len(got.Network.Names) - n
				}
				fmt.Println(n, sigma, e, err != nil, sw, got.Kind, time.Since(start))
			}
		}
	}
}
