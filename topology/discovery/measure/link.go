package measure

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// maxLine bounds a message of the rendezvous in bytes.
const maxLine = 4096

// handshakeWait bounds how long a connection may take to show that it knows the secret.
const handshakeWait = 10 * time.Second

// Sides of a link. They sign differently, so that no message can be sent back to who wrote it.
const (
	fromCoordinator = 'c'
	fromMember      = 'm'
)

var (
	errLongLine  = fmt.Errorf("a message is longer than %d bytes", maxLine)
	errSignature = errors.New("a message has a wrong signature: the secrets differ, or somebody interferes")
)

// link is a connection between the coordinator and a member. A message is a line: its MAC, and JSON. The MAC covers the
// side that wrote it and its number. So nobody else can make messages up, repeat them, or change their order.
type link struct {
	conn     net.Conn
	reader   *bufio.Reader
	key      []byte
	own      byte
	received uint64

	mu   sync.Mutex // guards writes
	sent uint64
}

func newLink(conn net.Conn, own byte) *link {
	return &link{conn: conn, reader: bufio.NewReaderSize(conn, maxLine), own: own}
}

// derive returns a key for one use from a secret. Parts are not mixed up: each is preceded by its length.
func derive(secret []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

func (l *link) mac(side byte, n uint64, body string) string {
	return hex.EncodeToString(derive(l.key, string(side), string(binary.BigEndian.AppendUint64(nil, n)), body))
}

// write sends a message. Any goroutine may.
func (l *link) write(message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.mac(l.own, l.sent, string(body)) + " " + string(body) + "\n"
	if len(line) > maxLine {
		return errLongLine
	}
	l.sent++
	_, err = io.WriteString(l.conn, line)
	return err
}

// tell sends a message with a deadline, since the node may have stopped reading.
func (l *link) tell(message any, longest time.Duration) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(longest))
	return l.write(message)
}

// read receives a message. One goroutine does.
func (l *link) read(message any) error {
	text, err := l.line()
	if err != nil {
		return err
	}
	mac, body, _ := strings.Cut(text, " ")
	other := byte(fromCoordinator)
	if l.own == fromCoordinator {
		other = fromMember
	}
	if !hmac.Equal([]byte(mac), []byte(l.mac(other, l.received, body))) {
		return errSignature
	}
	l.received++
	return unmarshal(body, message)
}

// line returns the next line without its end.
func (l *link) line() (string, error) {
	text, err := l.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errLongLine
	}
	if err != nil {
		return "", err
	}
	return string(text[:len(text)-1]), nil
}

func unmarshal(text string, message any) error {
	if err := json.Unmarshal([]byte(text), message); err != nil {
		return fmt.Errorf("a message that is not understood: %w", err)
	}
	return nil
}

// Messages before the key of a link is known are not signed as lines are.
type (
	greeting struct { // of the coordinator
		Protocol string `json:"protocol"`
		Nonce    string `json:"nonce"`
	}
	introduction struct { // of a member
		Name  string `json:"name"`
		Nonce string `json:"nonce"`
		MAC   string `json:"mac"`
	}
)

// rendezvousProtocol names the protocol and its version.
const rendezvousProtocol = "weir-rendezvous-2"

// minNonce is the least length of a nonce, in characters.
const minNonce = 32

func newNonce() string {
	t := newToken()
	return hex.EncodeToString(t[:])
}

// plain sends a message that is not signed.
func (l *link) plain(message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	_, err = l.conn.Write(append(body, '\n'))
	return err
}

// admit is the coordinator's side of the handshake. It returns who the member is.
func (l *link) admit(secret []byte) (who introduction, err error) {
	nonce := newNonce()
	if err := l.plain(greeting{rendezvousProtocol, nonce}); err != nil {
		return who, err
	}
	text, err := l.line()
	if err != nil {
		return who, err
	}
	if err := unmarshal(text, &who); err != nil {
		return who, err
	}
	if len(who.Nonce) < minNonce {
		return who, errSignature
	}
	l.key = derive(secret, "link", nonce, who.Nonce, who.Name)
	if !hmac.Equal([]byte(who.MAC), []byte(hex.EncodeToString(derive(l.key, "introduction")))) {
		return who, errSignature
	}
	return who, nil
}

// introduce is the member's side of the handshake. The coordinator's next message shows that it knows the secret too.
func (l *link) introduce(secret []byte, name string) error {
	text, err := l.line()
	if err != nil {
		return err
	}
	var hello greeting
	if err := unmarshal(text, &hello); err != nil {
		return err
	}
	if hello.Protocol != rendezvousProtocol || len(hello.Nonce) < minNonce {
		return fmt.Errorf("the process at that address speaks %.40q, not %s", hello.Protocol, rendezvousProtocol)
	}
	who := introduction{Name: name, Nonce: newNonce()}
	l.key = derive(secret, "link", hello.Nonce, who.Nonce, who.Name)
	who.MAC = hex.EncodeToString(derive(l.key, "introduction"))
	return l.plain(who)
}
