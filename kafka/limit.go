package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

const (
	// maxRequestBytes bounds a request to the embedded broker, as socket.request.max.bytes of Kafka does by default.
	maxRequestBytes = 100 << 20
	// reserved is the number of bytes that the broker may reserve for a request before it arrives.
	reserved = 1 << 20
)

// limitedListener filters the requests that reach the embedded broker. The broker reserves the memory that the first
// four bytes of a request announce, up to 4 GiB. So the listener holds back a longer request until all of it has
// arrived, and closes the connection if no client of Kafka sends such a request.
type limitedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller compares it with net.ErrClosed
	}
	return &limitedConn{Conn: conn}, nil
}

// limitedConn is a connection of a client: four bytes of size and a body of that size, again and again. The broker
// reads it in one goroutine at a time.
type limitedConn struct {
	net.Conn
	held bytes.Buffer // bytes not yet read by the broker
	rest int64        // bytes of the request that are still to come
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.held.Len() == 0 && c.rest > 0 {
		n, err := c.Conn.Read(p[:min(int64(len(p)), c.rest)])
		c.rest -= int64(n)
		return n, err //nolint:wrapcheck // the caller compares it with io.EOF
	}
	if c.held.Len() == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.held.Read(p)
	if c.held.Len() == 0 && c.held.Cap() > reserved {
		c.held = bytes.Buffer{}
	}
	return n, err //nolint:wrapcheck // it is nil
}

// next takes the size of the next request, and the request too if it is long.
func (c *limitedConn) next() error {
	if _, err := io.CopyN(&c.held, c.Conn, 4); err != nil {
		return err //nolint:wrapcheck // the caller compares it with io.EOF
	}
	c.rest = int64(binary.BigEndian.Uint32(c.held.Bytes()))
	if c.rest > maxRequestBytes {
		return fmt.Errorf("a request of %d bytes: at most %d are read", c.rest, maxRequestBytes)
	}
	if c.rest <= reserved {
		return nil
	}
	_, err := io.CopyN(&c.held, c.Conn, c.rest)
	c.rest = 0
	return err //nolint:wrapcheck // as above
}
