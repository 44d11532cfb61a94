package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// file is the form of a network in JSON.
type file struct {
	Nodes    []string   `json:"nodes"`
	Switches []string   `json:"switches"`
	Root     string     `json:"root,omitempty"` // one of the switches
	BaseUs   float64    `json:"base_us,omitempty"`
	Links    []fileLink `json:"links"`
}

type fileLink struct {
	A          string   `json:"a"`
	B          string   `json:"b"`
	LatencyUs  *float64 `json:"latency_us,omitempty"`
	Throughput *float64 `json:"throughput_mb_s,omitempty"`
}

// known returns nil for NaN, which JSON lacks.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// MarshalJSON returns the network as an object with nodes, switches and links by name.
func (n *Network) MarshalJSON() ([]byte, error) {
	net := n.withoutEmpty()
	if t, err := n.rootedTree(); err == nil {
		net = t.net
	} else {
		net.nameSwitches()
	}
	f := file{
		Nodes: net.Names[:net.Nodes], Switches: append([]string{}, net.Names[net.Nodes:]...), BaseUs: net.BaseUs,
		Links: []fileLink{},
	}
	if net.IsSwitch(net.Root) {
		f.Root = net.Names[net.Root]
	}
	for _, l := range net.sortedLinks() {
		f.Links = append(f.Links, fileLink{net.Names[l.A], net.Names[l.B], known(l.LatencyUs), known(l.Throughput)})
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads the output of MarshalJSON. It ignores further keys, such as the ones of weir topology build.
func (n *Network) UnmarshalJSON(text []byte) error {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if len(f.Nodes) == 0 {
		return errors.New("no nodes: the key nodes is missing or empty")
	}
	a, at := &assembly{root: -1, baseUs: f.BaseUs}, map[string]int{}
	for i, name := range append(f.Nodes, f.Switches...) {
		if _, twice := at[name]; twice {
			return fmt.Errorf("%.80q is there twice", name)
		}
		at[name] = len(a.names)
		a.names, a.switches = append(a.names, name), append(a.switches, i >= len(f.Nodes))
	}
	for i, l := range f.Links {
		u, known := at[l.A]
		v, also := at[l.B]
		if !known || !also || u == v {
			return fmt.Errorf("link %d: %.80q and %.80q must be two of the nodes and switches", i+1, l.A, l.B)
		}
		link := Link{u, v, math.NaN(), math.NaN()}
		for to, from := range map[*float64]*float64{&link.LatencyUs: l.LatencyUs, &link.Throughput: l.Throughput} {
			if from == nil {
				continue
			}
			if !(*from >= 0) {
				return fmt.Errorf("link %d between %s and %s: %v must be at least 0", i+1, l.A, l.B, *from)
			}
			*to = *from
		}
		a.links = append(a.links, link)
	}
	if f.Root != "" {
		root, known := at[f.Root]
		if !known || !a.switches[root] {
			return fmt.Errorf("root %.80q is none of the switches", f.Root)
		}
		a.root = root
	}
	read, err := a.network()
	if err != nil {
		return err
	}
	*n = *read
	return nil
}
