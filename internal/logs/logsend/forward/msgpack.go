package forward

import (
	"encoding/binary"
	"errors"
	"time"
)

// The part of MessagePack that the forward protocol needs.

// head begins a kind of value: with a size below fixed in its first byte, in two bytes behind
// long, or in four behind the one after long.
type head struct {
	fix   byte
	fixed int
	long  byte
}

func (h head) append(b []byte, n int) []byte {
	switch {
	case n < h.fixed:
		return append(b, h.fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, h.long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, h.long+1), uint32(n))
}

func appendArray(b []byte, n int) []byte { return head{0x90, 16, 0xdc}.append(b, n) }

func appendMap(b []byte, n int) []byte { return head{0x80, 16, 0xde}.append(b, n) }

func appendString(b []byte, s string) []byte {
	if n := len(s); n >= 32 && n < 256 {
		return append(append(b, 0xd9, byte(n)), s...)
	}
	return append(head{0xa0, 32, 0xda}.append(b, len(s)), s...)
}

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

// appendTime appends seconds, or an EventTime with nanoseconds.
func appendTime(b []byte, t time.Time, nanos bool) []byte {
	if !nanos {
		return appendUint(b, uint64(max(0, t.Unix())))
	}
	b = binary.BigEndian.AppendUint32(append(b, 0xd7, 0), uint32(t.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// errShort: the value has not come to its end.
var errShort = errors.New("the value is cut")

// errValue: it is not MessagePack, or too deep or big.
var errValue = errors.New("the value is not MessagePack as forward has it")

const deepest = 16

// Acknowledgement returns the answer of a server to a chunk.
func Acknowledgement(chunk string) []byte {
	return appendString(appendString(appendMap(nil, 1), "ack"), chunk)
}

// Decode reads a value: nil, bool, uint64, int64, string, time.Time, []any or map[string]any.
// The error is errShort if b is only its beginning.
func Decode(b []byte) (value any, rest []byte, err error) {
	d := decoder{b}
	value, err = d.value(deepest)
	return value, d.b, err
}

// Short reports whether an error of Decode says that more bytes are needed.
func Short(err error) bool { return errors.Is(err, errShort) }

type decoder struct{ b []byte }

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.b)) {
		return nil, errShort
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken, nil
}

// number reads an unsigned number of n bytes.
func (d *decoder) number(n int) (v uint64, err error) {
	b, err := d.take(uint64(n))
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, err
}

func (d *decoder) value(deep int) (any, error) {
	if deep == 0 {
		return nil, errValue
	}
	first, err := d.take(1)
	if err != nil {
		return nil, err
	}
	switch c := first[0]; {
	case c < 0x80:
		return uint64(c), nil
	case c < 0x90:
		return d.object(uint64(c&0x0f), deep)
	case c < 0xa0:
		return d.array(uint64(c&0x0f), deep)
	case c < 0xc0:
		return d.text(uint64(c & 0x1f))
	case c == 0xc0:
		return nil, nil
	case c == 0xc2, c == 0xc3:
		return c == 0xc3, nil
	case c >= 0xe0:
		return int64(int8(c)), nil
	default:
		return d.sized(c, deep)
	}
}

// sized reads a value whose size or number follows its head.
func (d *decoder) sized(c byte, deep int) (any, error) {
	bytes := map[byte]int{
		0xc4: 1, 0xc5: 2, 0xc6: 4, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
		0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd7: 1,
	}[c]
	if bytes == 0 {
		return nil, errValue
	}
	n, err := d.number(bytes)
	if err != nil {
		return nil, err
	}
	switch {
	case c <= 0xc6, c >= 0xd9 && c <= 0xdb:
		return d.text(n)
	case c <= 0xcf:
		return n, nil
	case c <= 0xd3:
		shift := 64 - 8*bytes
		return int64(n<<shift) >> shift, nil
	case c == 0xd7:
		return d.time()
	case c <= 0xdd:
		return d.array(n, deep)
	}
	return d.object(n, deep)
}

func (d *decoder) time() (any, error) {
	s, err := d.number(4)
	if err != nil {
		return nil, err
	}
	n, err := d.number(4)
	return time.Unix(int64(s), int64(n)), err
}

func (d *decoder) text(n uint64) (any, error) {
	b, err := d.take(n)
	return string(b), err
}

func (d *decoder) array(n uint64, deep int) (any, error) {
	all := []any{}
	for range n {
		v, err := d.value(deep - 1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (d *decoder) object(n uint64, deep int) (any, error) {
	all := map[string]any{}
	for range n {
		k, err := d.value(deep - 1)
		if err != nil {
			return nil, err
		}
		name, ok := k.(string)
		if !ok {
			return nil, errValue
		}
		if all[name], err = d.value(deep - 1); err != nil {
			return nil, err
		}
	}
	return all, nil
}
