package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are chosen below the range that the system uses for outgoing connections (on Linux from 32768 on). Kafka must
// find them still free when it opens them a little later.
const (
	firstPort = 20_000
	lastPort  = 30_000
)

// errPorts is returned when too few loopback ports are free.
var errPorts = errors.New("no free ports")

// freePorts finds count different free ports.
func freePorts(count int) ([]int, error) {
	ports := probe(rand.IntN(lastPort-firstPort), count) // two that start at once hardly meet
	if len(ports) < count {
		const format = "%w: %d wanted between %d and %d, %d found"
		return nil, fmt.Errorf(format, errPorts, count, firstPort, lastPort, len(ports))
	}
	return ports, nil
}

// probe returns up to count free ports, starting the search at firstPort + offset. It holds each until it returns.
func probe(offset, count int) []int {
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	size := lastPort - firstPort
	for i := 0; i < size && len(ports) < count; i++ {
		port := firstPort + (offset+i)%size
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return ports
}
