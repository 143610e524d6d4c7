package datachannel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The types of messages.
const (
	TypeInput       = "input_stream_data"  // from the client
	TypeOutput      = "output_stream_data" // to the client
	TypeAcknowledge = "acknowledge"
	TypeClosed      = "channel_closed"
)

// Kind is what the payload of a message from or to a program is.
type Kind uint32

// The kinds of payloads.
const (
	KindData              Kind = 1 // what is typed or printed
	KindSize              Kind = 3
	KindHandshakeRequest  Kind = 5
	KindHandshakeResponse Kind = 6
	KindHandshakeComplete Kind = 7
	KindFlag              Kind = 10
)

// Message is a message of the channel, in a frame of its own.
type Message struct {
	Type string
	// Created is the time in milliseconds since 1970.
	Created  uint64
	Sequence int64
	Flags    uint64
	ID       [16]byte // a UUID
	Kind     Kind
	Payload  []byte
}

// MaxFrame is how long a frame of a client may be, in bytes. The plugin sends 1024 bytes of
// input at most, and a handshake of some hundreds.
const MaxFrame = 32 << 10

// The places of the fields; numbers are big endian.
const (
	atType      = 4
	atSchema    = 36
	atCreated   = 40
	atSequence  = 48
	atFlags     = 56
	atID        = 64 // the second half of the UUID, then the first
	atDigest    = 80 // SHA-256 of the payload
	atKind      = 112
	atLength    = 116 // also what the header's length says: itself without this field
	atPayload   = 120
	sizeOfType  = atSchema - atType
	theSchema   = 1
	sizeOfHalf  = 8
	sizeOfWhole = 2 * sizeOfHalf
)

// Bytes is the frame of a message.
func (m Message) Bytes() []byte {
	b := make([]byte, atPayload, atPayload+len(m.Payload))
	binary.BigEndian.PutUint32(b, atLength)
	copy(b[atType:atSchema], m.Type+strings.Repeat(" ", max(0, sizeOfType-len(m.Type))))
	binary.BigEndian.PutUint32(b[atSchema:], theSchema)
	binary.BigEndian.PutUint64(b[atCreated:], m.Created)
	binary.BigEndian.PutUint64(b[atSequence:], uint64(m.Sequence))
	binary.BigEndian.PutUint64(b[atFlags:], m.Flags)
	copy(b[atID:], m.ID[sizeOfHalf:])
	copy(b[atID+sizeOfHalf:], m.ID[:sizeOfHalf])
	sum := sha256.Sum256(m.Payload)
	copy(b[atDigest:], sum[:])
	binary.BigEndian.PutUint32(b[atKind:], uint32(m.Kind))
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(m.Payload)))
	return append(b, m.Payload...)
}

// Parse reads a frame. The payload is a part of it.
func Parse(frame []byte) (m Message, err error) {
	switch {
	case len(frame) > MaxFrame:
		return m, fmt.Errorf("the message has %d bytes, more than %d", len(frame), MaxFrame)
	case len(frame) < atPayload:
		return m, fmt.Errorf("the message has %d bytes, and its header alone has %d", len(frame), atPayload)
	}
	if n := binary.BigEndian.Uint32(frame); n != atLength {
		return m, fmt.Errorf("the header says that it has %d bytes, not %d", n, atLength)
	}
	if n := binary.BigEndian.Uint32(frame[atLength:]); uint64(n) != uint64(len(frame)-atPayload) {
		return m, fmt.Errorf("the header says that the payload has %d bytes, and it has %d", n, len(frame)-atPayload)
	}
	m = Message{
		Type:     strings.TrimRight(string(bytes.TrimRight(frame[atType:atSchema], "\x00")), " "),
		Created:  binary.BigEndian.Uint64(frame[atCreated:]),
		Sequence: int64(binary.BigEndian.Uint64(frame[atSequence:])),
		Flags:    binary.BigEndian.Uint64(frame[atFlags:]),
		Kind:     Kind(binary.BigEndian.Uint32(frame[atKind:])),
		Payload:  frame[atPayload:],
	}
	copy(m.ID[sizeOfHalf:], frame[atID:])
	copy(m.ID[:sizeOfHalf], frame[atID+sizeOfHalf:atID+sizeOfWhole])
	if sum := sha256.Sum256(m.Payload); len(m.Payload) > 0 && !bytes.Equal(sum[:], frame[atDigest:atKind]) {
		return m, errors.New("the payload does not have the digest that the header says")
	}
	return m, nil
}

// uuid is the text of an ID.
func uuid(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
