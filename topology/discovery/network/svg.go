package network

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// svgStyle defines the colours of light and dark pages.
const svgStyle = `<style>
svg{--page:#fff;--ink:#1f2328;--soft:#59636e;--line:#8c959f}
svg{--node:#ddf4ff;--edge:#54aeff;--switch:#fff8c5;--rim:#d4a72c}
@media(prefers-color-scheme:dark){svg{--page:#0d1117;--ink:#e6edf3;--soft:#9198a1;--line:#656c76;--node:#0c2d6b;` +
	`--edge:#388bfd;--switch:#3b2300;--rim:#bb8009}}
text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:var(--ink)}
.name{paint-order:stroke;stroke:var(--page);stroke-width:3px}
.soft{font-size:10px;fill:var(--soft)}
.page{fill:var(--page)} .node{fill:var(--node);stroke:var(--edge)} .switch{fill:var(--switch);stroke:var(--rim)}
.link{fill:none;stroke:var(--line)}
</style>
`

// Sizes of the drawing of a tree, in pixels.
const (
	svgLetter  = 6.7 // the width of a letter
	svgCell    = 18. // the height of a node
	svgGap     = 8.  // between the rows of two switches
	svgLink    = 74. // the length of a link
	svgMargin  = 16.
	svgRow     = 900. // the greatest width of the nodes of a switch
	svgPerRow  = 16   // the most nodes beside each other
	maxSVGTree = 5000 // above, the nodes of a switch are a list
)

// WriteSVG draws the network: a tree from left to right with the nodes of each switch, or the vertices and links of
// another network. Pages in light and dark mode can show it.
func (n *Network) WriteSVG(w io.Writer) error {
	if n.Nodes == 0 {
		return errNothing
	}
	out := bufio.NewWriter(w)
	t, err := n.rootedTree()
	if err != nil {
		if err := n.svgGraph(out); err != nil {
			return err
		}
		return out.Flush()
	}
	d := t.layout()
	svgBegin(out, d.width, d.height, fmt.Sprintf("Tree of %s and %s", counted(t.net.Nodes, "node"),
		counted(len(t.net.Names)-t.net.Nodes, "switch")))
	d.draw(out)
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// counted returns a number with a noun.
func counted(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func svgBegin(w io.Writer, width, height float64, title string) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `+
		`role="img">`, width, height, width, height)
	fmt.Fprintf(w, "\n<title>%s</title>\n%s<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n", title, svgStyle)
}

// drawing holds the positions of a tree's switches.
type drawing struct {
	*rootedTree
	nodes, switches [][]int
	x, y            []float64
	cell            float64 // the width of a node
	perRow          int
	box             float64 // the width of a switch
	asList          bool
	width, height   float64
}

func (t *rootedTree) layout() *drawing {
	d := &drawing{rootedTree: t, x: make([]float64, len(t.parent)), y: make([]float64, len(t.parent))}
	d.nodes, d.switches = t.below()
	d.asList = t.net.Nodes > maxSVGTree
	longest, box := 1, 1
	for v, name := range t.net.Names {
		if t.net.IsSwitch(v) {
			box = max(box, len(name))
		} else {
			longest = max(longest, len(name))
		}
	}
	d.box, d.cell = svgLetter*float64(box)+14, svgLetter*float64(longest)+10
	d.perRow = max(1, min(svgPerRow, int(svgRow/d.cell)))
	d.height = svgMargin
	d.place(t.order[0], svgMargin)
	d.height += svgMargin - svgGap
	d.width += svgMargin
	return d
}

// place puts a switch and all below it at the end of the drawing.
func (d *drawing) place(v int, x float64) {
	d.x[v] = x
	right := x + d.box
	var middles []float64
	if len(d.nodes[v]) > 0 {
		rows := (len(d.nodes[v]) + d.perRow - 1) / d.perRow
		right += svgLink/2 + d.cell*float64(min(d.perRow, len(d.nodes[v])))
		if d.asList {
			rows = 1
			right = x + d.box + svgLink/2 + svgLetter*float64(len(d.list(v)))
		}
		middles = append(middles, d.height+svgCell/2)
		d.height += svgCell*float64(rows) + svgGap
	}
	for _, s := range d.switches[v] {
		d.place(s, x+d.box+svgLink)
		middles = append(middles, d.y[s])
	}
	d.y[v] = (middles[0] + middles[len(middles)-1]) / 2
	if len(d.nodes[v]) > 0 {
		d.y[v] = middles[0] // its nodes stand beside it
	}
	d.width = max(d.width, right)
}

// list returns the nodes of a switch as one text.
func (d *drawing) list(v int) string {
	list := topology.FoldHosts(d.net.names(d.nodes[v]))
	if len(list) > 120 {
		list = list[:117] + "..."
	}
	return list
}

func (d *drawing) draw(w io.Writer) {
	for _, v := range d.order[1:] {
		if !d.net.IsSwitch(v) {
			continue
		}
		p, l := d.parent[v], d.net.Links[d.up[v]]
		x, turn := d.x[p]+d.box, d.x[v]-svgLink+12
		fmt.Fprintf(w, `<path class="link" d="M%.1f %.1fH%.1fV%.1fH%.1f"/>`+"\n", x, d.y[p], turn, d.y[v], d.x[v])
		if label := linkText(Link{LatencyUs: l.LatencyUs, Throughput: math.NaN()}, "", ""); label != "" {
			fmt.Fprintf(w, `<text class="soft" x="%.1f" y="%.1f">%s</text>`+"\n", turn+4, d.y[v]-3, label)
		}
	}
	for _, v := range d.order {
		if !d.net.IsSwitch(v) {
			continue
		}
		if len(d.nodes[v]) > 0 {
			d.drawNodes(w, v)
		}
		fmt.Fprintf(w, `<g><title>%s</title><rect class="switch" rx="4" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+
			`<text x="%.1f" y="%.1f">%s</text></g>`+"\n", d.title(v), d.x[v], d.y[v]-svgCell/2, d.box, svgCell,
			d.x[v]+7, d.y[v]+4, d.net.Names[v])
	}
}

// drawNodes draws the nodes of a switch in rows beside it.
func (d *drawing) drawNodes(w io.Writer, v int) {
	x, y := d.x[v]+d.box+svgLink/2, d.y[v]-svgCell/2
	fmt.Fprintf(w, `<path class="link" d="M%.1f %.1fH%.1f"/>`+"\n", d.x[v]+d.box, d.y[v], x)
	if d.asList {
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x+4, d.y[v]+4, d.list(v))
		return
	}
	for i, node := range d.nodes[v] {
		cx, cy := x+d.cell*float64(i%d.perRow), y+svgCell*float64(i/d.perRow)
		fmt.Fprintf(w, `<g><title>%s</title><rect class="node" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+
			`<text x="%.1f" y="%.1f">%s</text></g>`+"\n", d.title(node), cx, cy, d.cell-2, svgCell-2, cx+4, cy+12,
			d.net.Names[node])
	}
}

// title returns a description of a vertex and the link above it.
func (d *drawing) title(v int) string {
	text := d.net.Names[v]
	if up := d.up[v]; up >= 0 {
		text += linkText(d.net.Links[up], ": ", " to "+d.net.Names[d.parent[v]])
	}
	return text
}

// Sizes of the drawing of a graph, in pixels.
const (
	svgHop      = 64. // between two neighbours, about
	maxSVGGraph = 1500
	maxLabelled = 300 // above, names are only shown under the pointer
)

// svgGraph draws vertices and links, near vertices near each other.
func (n *Network) svgGraph(w io.Writer) error {
	net := n.withoutEmpty()
	net.nameSwitches()
	if len(net.Names) > maxSVGGraph {
		return fmt.Errorf("a drawing of %d nodes and switches that are no tree: at most %d are drawn; "+
			"write the form tgf for another program", len(net.Names), maxSVGGraph)
	}
	p := net.positions()
	left, top, right, bottom := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, at := range p {
		left, right = min(left, at[0]), max(right, at[0])
		top, bottom = min(top, at[1]), max(bottom, at[1])
	}
	const around = 2 * svgMargin
	longest := 0.
	for _, name := range net.Names {
		longest = max(longest, svgLetter*float64(len(name)))
	}
	place := func(v int) (x, y float64) { return p[v][0] - left + around, p[v][1] - top + around }
	svgBegin(w, right-left+2*around+longest, bottom-top+2*around, fmt.Sprintf("Network of %s, %s and %s",
		counted(net.Nodes, "node"), counted(len(net.Names)-net.Nodes, "switch"), counted(len(net.Links), "link")))
	for _, l := range net.Links {
		x1, y1 := place(l.A)
		x2, y2 := place(l.B)
		fmt.Fprintf(w, `<path class="link" d="M%.1f %.1fL%.1f %.1f"><title>%s - %s%s</title></path>`+"\n", x1, y1,
			x2, y2, net.Names[l.A], net.Names[l.B], linkText(l, ": ", ""))
	}
	for v, name := range net.Names {
		x, y := place(v)
		shape := fmt.Sprintf(`<circle class="node" cx="%.1f" cy="%.1f" r="6"/>`, x, y)
		if net.IsSwitch(v) {
			shape = fmt.Sprintf(`<rect class="switch" x="%.1f" y="%.1f" width="12" height="12"/>`, x-6, y-6)
		}
		label := ""
		if len(net.Names) <= maxLabelled {
			label = fmt.Sprintf(`<text class="name" x="%.1f" y="%.1f">%s</text>`, x+8, y-5, name)
		}
		fmt.Fprintf(w, "<g><title>%s</title>%s%s</g>\n", name, shape, label)
	}
	fmt.Fprintln(w, "</svg>")
	return nil
}

// positions places vertices at distances of about as many hops as the network has between them. It begins on a circle
// in the order of a walk, and moves each vertex to the position that suits the others best (stress majorization).
func (n *Network) positions() [][2]float64 {
	hops := n.hops()
	p := make([][2]float64, len(n.Names))
	order := n.depthFirst()
	radius := svgHop * float64(len(p)) / (2 * math.Pi)
	for i, v := range order {
		angle := 2 * math.Pi * float64(i) / float64(len(p))
		p[v] = [2]float64{radius * math.Cos(angle), radius * math.Sin(angle)}
	}
	rounds := min(300, max(30, 60_000_000/max(1, len(p)*len(p))))
	for range rounds {
		for v := range p {
			var sum [2]float64
			weights := 0.
			for u := range p {
				if u == v {
					continue
				}
				want := svgHop * float64(hops[v][u])
				dx, dy := p[v][0]-p[u][0], p[v][1]-p[u][1]
				far := max(math.Hypot(dx, dy), 1e-6)
				weight := 1 / (want * want)
				sum[0] += weight * (p[u][0] + want*dx/far)
				sum[1] += weight * (p[u][1] + want*dy/far)
				weights += weight
			}
			if weights > 0 {
				p[v] = [2]float64{sum[0] / weights, sum[1] / weights}
			}
		}
	}
	return p
}

// hops counts the links between each two vertices. Vertices without a path are as far apart as the network is long.
func (n *Network) hops() [][]int32 {
	ends := n.neighbours()
	hops := make([][]int32, len(n.Names))
	for v := range hops {
		hops[v] = make([]int32, len(n.Names))
		t := walk(ends, v)
		for _, u := range t.order[1:] {
			hops[v][u] = hops[v][t.parent[u]] + 1
		}
	}
	longest := int32(2)
	for _, row := range hops {
		longest = max(longest, slices.Max(row))
	}
	for v, row := range hops {
		for u := range row {
			if u != v && row[u] == 0 {
				row[u] = longest
			}
		}
	}
	return hops
}

// depthFirst returns the vertices in the order of a walk that goes on as far as it can.
func (n *Network) depthFirst() []int {
	ends, seen := n.neighbours(), make([]bool, len(n.Names))
	var order []int
	for first := range ends {
		for stack := []int{first}; len(stack) > 0; {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			order = append(order, v)
			for _, e := range slices.Backward(ends[v]) {
				stack = append(stack, e.vertex)
			}
		}
	}
	return order
}
