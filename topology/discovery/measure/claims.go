package measure

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// claims decide which address owns a node's name. If addresses of the node are known, only they may claim the name. If
// two addresses claim a name without a known address, neither gets it.
type claims struct {
	pinned map[netip.Addr]string // the name that an address claimed first, the only one that it may claim
	names  map[string]claim
}

type claim struct {
	from    netip.Addr
	rival   netip.Addr   // another address that claimed it
	known   []netip.Addr // of the node; none: nobody knows them
	here    bool         // it came from this host
	owned   bool         // from is a known address of the node
	refused string       // why nobody may have the name any more; "": it may be had
}

// unknown reports whether nothing but its being first gave the claimant the name.
func (c claim) unknown() bool { return !c.owned && !c.here }

func newClaims() claims {
	return claims{pinned: map[netip.Addr]string{}, names: map[string]claim{}}
}

// pin returns an error if an address has claimed another name before. This keeps one node from claiming the names of
// many.
func (c *claims) pin(name string, from netip.Addr) error {
	first, is := c.pinned[from]
	switch {
	case is && first != name:
		return fmt.Errorf("%v is node %s already, and cannot be %s too: start one process on each node",
			from, first, name)
	case !is && len(c.pinned) >= MaxMembers:
		return fmt.Errorf("nodes came from more than %d addresses", MaxMembers)
	}
	c.pinned[from] = name
	return nil
}

// release forgets a claim that was refused. So a node with many addresses does not use up the places of others. An
// address that contests a name cannot claim another name.
func (c *claims) release(name string, from netip.Addr) {
	if first := c.names[name]; first.from != from && first.rival != from {
		delete(c.pinned, from)
	}
}

// stake claims a name from an address, if nothing speaks against it. Contested is true if nobody may have the name from
// now on, not even its present owner.
func (c *claims) stake(name string, from netip.Addr, here bool, known []netip.Addr) (contested bool, err error) {
	first, is := c.names[name]
	if is {
		known = first.known
	}
	owned := slices.Contains(known, from)
	if here && len(known) > 0 && !owned { // a host's own name is often an address of the loopback, and nothing else
		owned = !slices.ContainsFunc(known, func(a netip.Addr) bool { return !a.IsLoopback() })
	}
	if len(known) > 0 && !owned {
		return false, fmt.Errorf("node %s was refused: it comes from %v, and its addresses are %v: list the right "+
			"ones with --hosts", name, from, known)
	}
	switch {
	case first.refused != "":
		return false, errors.New(first.refused)
	case is && !owned && first.from != from:
		first.rival = from
		c.names[name] = first
		return true, fmt.Errorf("conflict: %v and %v both claim to be node %s, which takes no part: list the right "+
			"address with --hosts", first.from, from, name)
	case !is:
		c.names[name] = claim{from: from, known: known, here: here, owned: owned}
	}
	return false, nil
}

// refuse gives a name to nobody from now on.
func (c *claims) refuse(name, why string) {
	first := c.names[name]
	first.refused = why
	c.names[name] = first
}
