package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bridge carries the traffic among brokers, as brokers and as controllers, and can cut one broker off from the others.
// Clients do not use it, and reach that broker as before.
type bridge struct {
	file string       // names the broker to cut, by its id; there is none: nobody is cut
	cut  atomic.Int64 // the broker that is cut; 0: nobody

	mu   sync.Mutex
	pids map[int]int // of the brokers, by id
	open map[net.Conn]bool
}

// front is the port at which other brokers reach a listener of a node.
type front struct{ node, port, behind int }

// newBridge opens the fronts of the nodes.
func newBridge(dir string, nodes []node) (*bridge, error) {
	b := &bridge{file: filepath.Join(dir, "cut"), pids: map[int]int{}, open: map[net.Conn]bool{}}
	for _, n := range nodes {
		for _, f := range []front{{n.id, n.peersFront, n.peers}, {n.id, n.controllerFront, n.controller}} {
			l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", f.port))
			if err != nil {
				return nil, fmt.Errorf("opening a bridge between brokers: %w", err)
			}
			go b.accept(l, f)
		}
	}
	return b, nil
}

// look updates the broker to cut, and the brokers' processes.
func (b *bridge) look(nodes []node, processes []process) {
	b.mu.Lock()
	for i, p := range processes {
		b.pids[nodes[i].id] = p.pid
	}
	b.mu.Unlock()
	text, err := os.ReadFile(b.file)
	id, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || bad != nil {
		id = 0
	}
	if b.cut.Swap(id) != 0 && id == 0 {
		b.drop()
	}
}

// drop closes all connections, because some have lost bytes during the cut.
func (b *bridge) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		c.Close()
	}
}

func (b *bridge) accept(l net.Listener, f front) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go b.serve(c, f)
	}
}

// serve carries one connection until an end of it closes.
func (b *bridge) serve(c net.Conn, f front) {
	from := b.sender(c, f.port)
	to, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", f.behind))
	if err != nil {
		c.Close()
		return
	}
	b.mu.Lock()
	b.open[c], b.open[to] = true, true
	b.mu.Unlock()
	severed := func() bool {
		id := int(b.cut.Load())
		return id != 0 && from != f.node && (id == from || id == f.node)
	}
	var both sync.WaitGroup
	both.Go(func() { carry(to, c, severed) })
	both.Go(func() { carry(c, to, severed) })
	both.Wait()
	b.mu.Lock()
	delete(b.open, c)
	delete(b.open, to)
	b.mu.Unlock()
}

// carry copies bytes. During a cut all bytes are lost, and neither end notices: the connection stays open. Bytes after
// a loss would make no sense, so they are lost too.
func carry(to, from net.Conn, severed func() bool) {
	buffer, lost := make([]byte, 64<<10), false
	for {
		n, err := from.Read(buffer)
		lost = lost || severed()
		if n > 0 && !lost {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			for errors.Is(err, io.EOF) && severed() {
				<-time.After(100 * time.Millisecond)
			}
			break
		}
	}
	from.Close()
	to.Close()
}

// sender finds the broker that opened a connection, by the socket that it holds.
func (b *bridge) sender(c net.Conn, port int) int {
	inode := inodeOf(c.RemoteAddr().(*net.TCPAddr).Port, port)
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, pid := range b.pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil && inode != "" && to == "socket:["+inode+"]" {
				return id
			}
		}
	}
	return 0
}

// inodeOf returns the inode of the local end of a TCP connection between two ports.
func inodeOf(local, remote int) string {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			f := strings.Fields(lines.Text())
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local)) &&
				strings.HasSuffix(f[2], fmt.Sprintf(":%04X", remote)) {
				return f[9]
			}
		}
	}
	return ""
}
