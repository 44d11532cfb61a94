package measure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// A packet begins with a word for the protocol and its version, and with its kind. All other bytes of the header depend
// on the kind:
//
//	open   nonce (16), MAC (32)              a request to be answered, signed by the session's key
//	grant  nonce (16), token (16), MAC (32)  the answer: pings from this address carry the token from now on
//	ping   token (16), number (8), padding   sent back as it is, as a pong
//
// Only open and grant are signed, so the measurement contains no hashing. A pong is as long as its ping, and only a
// sender that knows the key is granted a token: no one else gets an answer.
const (
	protocol  = "weirping1"
	kindAt    = len(protocol)
	nonceAt   = kindAt + 1
	tokenSize = 16
	macSize   = sha256.Size

	openSize   = nonceAt + tokenSize + macSize
	grantSize  = openSize + tokenSize
	numberAt   = nonceAt + tokenSize
	pingHeader = numberAt + 8
)

// Kinds of packets.
const (
	kindOpen  = 'o'
	kindGrant = 'g'
	kindPing  = 'p'
	kindPong  = 'q'
)

// Sizes of a ping in bytes, without the headers of UDP and IP.
const (
	minSize = pingHeader
	maxSize = 65_000
)

// token is a random number: a nonce, or the right to be answered for a while.
type token [tokenSize]byte

// kindOf returns the kind of a packet, 0 if it is none of ours.
func kindOf(packet []byte) byte {
	if len(packet) < pingHeader || string(packet[:kindAt]) != protocol {
		return 0
	}
	return packet[kindAt]
}

// tokenOf returns the token of a ping or pong, or the nonce of another packet.
func tokenOf(packet []byte) token { return token(packet[nonceAt:numberAt]) }

func appendHeader(packet []byte, kind byte, t token) []byte {
	return append(append(append(packet, protocol...), kind), t[:]...)
}

func newOpen(key []byte, nonce token) []byte {
	return sign(key, appendHeader(nil, kindOpen, nonce))
}

func newGrant(key []byte, nonce, granted token) []byte {
	return sign(key, append(appendHeader(nil, kindGrant, nonce), granted[:]...))
}

func newPing(size int, granted token) []byte {
	return append(appendHeader(nil, kindPing, granted), make([]byte, size-numberAt)...)
}

// number and setNumber access the number of a ping or a pong.
func number(packet []byte) uint64       { return binary.BigEndian.Uint64(packet[numberAt:]) }
func setNumber(packet []byte, n uint64) { binary.BigEndian.PutUint64(packet[numberAt:], n) }

func sign(key, packet []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(packet)
	return mac.Sum(packet)
}

// signed reports whether a packet has the length of its kind, and the signature of this key.
func signed(key, packet []byte, size int) bool {
	if len(packet) != size {
		return false
	}
	body := packet[:size-macSize]
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), packet[len(body):])
}

// grantOf returns the token of a grant that answers an open message with this nonce.
func grantOf(key, packet []byte, nonce token) (token, bool) {
	if kindOf(packet) != kindGrant || !signed(key, packet, grantSize) || tokenOf(packet) != nonce {
		return token{}, false
	}
	return token(packet[numberAt : numberAt+tokenSize]), true
}
