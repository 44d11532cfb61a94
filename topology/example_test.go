package topology_test

import (
	"fmt"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// Two islands of a machine: nodes of one island are neighbours.
func ExampleReadYAML() {
	tree, err := topology.ReadYAML(strings.NewReader(`
root: machine
islands:
  - {name: a, nodes: [a1, a2]}
  - {name: b, nodes: [b1]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	island, _ := tree.Island("b1")
	fmt.Println(tree.Nodes(), tree.Islands()[island])
	// Output: [a1 a2 b1] b
}

// Slurm writes many nodes as one hostlist.
func ExampleExpandHosts() {
	hosts, err := topology.ExpandHosts("n[08-10],login")
	fmt.Println(hosts, err, topology.FoldHosts(hosts))
	// Output: [n08 n09 n10 login] <nil> login,n[08-10]
}
