// Package freeport chooses ports for servers of tests.
//
// A port that the kernel has chosen and that was closed again may soon be given away again, also as the port of an
// outgoing connection. These ports are below the range from which the kernel chooses (ip_local_port_range, 32768 to
// 60999 by default), and each is given out once by a process.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// first and last are the ports that are given out. Most well-known ports are below.
const first, last = 20000, 32000

// next is the next port, counted from first. Processes that run at the same time begin at different ports.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(last - first)) }

// Port returns a port at which nothing listens, by tcp and udp, on any address of this host. It fails if
// all are taken. It is safe for concurrent use.
func Port() (uint16, error) {
	for range last - first {
		port := uint16(first + next.Add(1)%(last-first))
		if isFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no port from 20000 to 31999 is free")
}

// For returns a port for a test, as Port does.
func For(t testing.TB) uint16 {
	t.Helper()
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func isFree(port uint16) bool {
	at := ":" + strconv.Itoa(int(port))
	l, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer l.Close()
	conn, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
