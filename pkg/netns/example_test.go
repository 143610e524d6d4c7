package netns_test

import (
	"fmt"
	"net"

	"github.com/podtask/podtask/pkg/netns"
)

// A port that a process listens on is in use.
func ExampleInUse() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	fmt.Println(netns.InUse("tcp", "127.0.0.1", uint16(l.Addr().(*net.TCPAddr).Port)))
	// Output: true
}
