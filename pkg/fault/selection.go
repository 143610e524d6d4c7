package fault

import (
	"fmt"
	"strings"
)

// instruction is one of classic BPF (kernel: Documentation/networking/filter.rst).
type instruction struct {
	code   uint16
	jt, jf uint8 // how many instructions are skipped if a comparison is true, and if not
	k      uint32
}

// The instructions that selection uses. A is the accumulator, X the index register.
const (
	loadByte  = 0x30 // A = the byte at k
	loadWord  = 0x20 // A = the four bytes at k
	loadConst = 0x00 // A = k
	copyToX   = 0x07 // X = A
	xorX      = 0xac // A ^= X
	multiply  = 0x24 // A *= k
	shift     = 0x74 // A >>= k
	modulo    = 0x94 // A %= k
	jump      = 0x05
	ifEqual   = 0x15 // A == k
	ifAtLeast = 0x35 // A >= k
	answer    = 0x06 // return k
)

// network is the offset at which the header of IPv4 or IPv6 begins, whatever the link has before it (SKF_NET_OFF).
const network = 0xfff00000

// The protocols with ports that selection knows.
const protocolTCP, protocolUDP = 6, 17

// selection is a program for the classifier bpf of tc that selects the packets of as many connections in a hundred as
// percent says. A connection is the protocol, the addresses and, for TCP and UDP, the ports.
//
// The classifier flow, which is made for that, refuses these in a user namespace: the kernel takes the numbers of
// other keys for their bits (cls_flow.c, FLOW_KEY_SKUID).
func selection(percent uint32) []instruction {
	// In the header of each version: the protocol, the last four bytes of the addresses, and the ports after it.
	four, six := mix(9, 12, 16, 20), mix(6, 20, 36, 40)
	program := []instruction{
		{code: loadByte, k: network},
		{code: shift, k: 4},
		{code: ifEqual, k: 6, jt: uint8(len(four) + 1)},
	}
	program = append(program, four...)
	program = append(program, instruction{code: jump, k: uint32(len(six))})
	program = append(program, six...)
	return append(program,
		instruction{code: multiply, k: 0x9e3779b1}, // the golden ratio spreads what differs in a few bits
		instruction{code: shift, k: 16},
		instruction{code: modulo, k: 100},
		instruction{code: ifAtLeast, k: percent, jt: 1},
		instruction{code: answer, k: 0xffffffff}, // selected
		instruction{code: answer, k: 0},
	)
}

// mix is a part of a program that leaves in A what a connection has, from these places in the header.
func mix(protocol, source, destination, ports uint32) []instruction {
	return []instruction{
		{code: loadByte, k: network + protocol},
		{code: copyToX},
		{code: loadWord, k: network + source},
		{code: xorX},
		{code: copyToX},
		{code: loadWord, k: network + destination},
		{code: xorX},
		{code: copyToX},
		{code: loadByte, k: network + protocol},
		{code: ifEqual, k: protocolTCP, jt: 1},
		{code: ifEqual, k: protocolUDP, jf: 2},
		{code: loadWord, k: network + ports},
		{code: jump, k: 1},
		{code: loadConst, k: 0},
		{code: xorX},
	}
}

// bytecode writes a program as tc reads it.
func bytecode(program []instruction) string {
	words := []string{fmt.Sprint(len(program))}
	for _, i := range program {
		words = append(words, fmt.Sprintf("%d %d %d %d", i.code, i.jt, i.jf, i.k))
	}
	return strings.Join(words, ",")
}
