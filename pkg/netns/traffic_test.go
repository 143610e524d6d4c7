package netns

import (
	"testing"
	"testing/fstest"
)

const netDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0
  tap0:  123456     100    0    0    0     0          0         0      789       5    0    0    0     0       0          0
eth1:4 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0
`

func TestTrafficLeavesLoopbackOut(t *testing.T) {
	t.Parallel()
	got, err := ReadTraffic(fstest.MapFS{"proc/42/net/dev": {Data: []byte(netDev)}}, 42)
	if want := (Traffic{Received: 123460, Sent: 795}); got != want || err != nil {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	if _, err := ReadTraffic(fstest.MapFS{}, 42); err == nil {
		t.Error("a process that is gone has traffic")
	}
}

func FuzzParseTraffic(f *testing.F) {
	f.Add([]byte(netDev))
	f.Fuzz(func(_ *testing.T, text []byte) { parseTraffic(text) })
}
