package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/weirhpc/weir/naming"
)

// errNotListed is returned for a node that the list of addresses does not have.
var errNotListed = errors.New("--hosts does not list it")

// ReadHosts reads addresses of nodes, a line each as in /etc/hosts: an address, and the names that have it. A name may
// have several addresses. Names that are not listed may not take part.
func ReadHosts(r io.Reader) (Lookup, error) {
	addresses := map[string][]netip.Addr{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %.60q is no IP address", n, fields[0])
		}
		for _, name := range fields[1:] {
			if !naming.Valid(name) {
				return nil, fmt.Errorf("line %d: %.80q is not a node's name", n, name)
			}
			addresses[name] = append(addresses[name], address.Unmap().WithZone(""))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading addresses of nodes: %w", err)
	}
	return func(_ context.Context, name string) ([]netip.Addr, error) {
		if len(addresses[name]) == 0 {
			return nil, errNotListed
		}
		return addresses[name], nil
	}, nil
}

// Resolve is the Lookup that asks this host's resolver. A name without an answer yields no addresses.
func Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	known, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, nil //nolint:nilerr // a name that cannot be resolved is allowed, and Warnings lists it
	}
	for i, address := range known {
		known[i] = address.Unmap().WithZone("")
	}
	return known, nil
}
