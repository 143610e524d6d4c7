package netns

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// The test program is its own helper, and its own client inside the namespace.
func TestMain(m *testing.M) {
	switch os.Getenv("NETNS_TEST") {
	case "pass":
		if err := Help(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "link": // as a namespace that is connected has
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "address": // of the first link
		if err := addressLink(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "all":
		if _, err := net.Listen("tcp", os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "serve":
		if err := serveHere(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "dial":
		c, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		io.Copy(os.Stdout, c)
	default:
		os.Exit(m.Run())
	}
}

var metadataAddr = netip.MustParseAddrPort("169.254.170.2:80")

// namespace starts a process with a user and a network namespace of its own and
// returns its id.
func namespace(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-c", "echo ready; exec sleep infinity")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Skip("this host refuses user namespaces to its users")
	}
	return cmd.Process.Pid
}

func helper() []string { return []string{"env", "NETNS_TEST=pass", os.Args[0]} }

// dialIn connects from inside the namespace and returns what it is told.
func dialIn(pid int, addr netip.AddrPort) (string, error) { return runIn(pid, "dial", addr.String()) }

// runIn lets the test program do something inside the namespace.
func runIn(pid int, what string, args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials", "--net", "--", "env", "NETNS_TEST=" + what, os.Args[0]}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A container may listen on the port of the endpoint at all its addresses.
func TestListenInLeavesThePortToTheNamespace(t *testing.T) {
	t.Parallel()
	inside := namespace(t)
	if out, err := runIn(inside, "link"); err != nil {
		t.Skipf("this host makes no links between namespaces: %s", out)
	}
	for range 3 { // the next owner finds the link there
		l, _, err := ListenIn(t.Context(), inside, helper(), metadataAddr)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := runIn(inside, "all", ":80"); err != nil {
			t.Errorf("listen on port 80: %v: %s", err, out)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, "hello")
				c.Close()
			}
		}()
		if said, err := dialIn(inside, metadataAddr); err != nil || said != "hello" {
			t.Errorf("inside: %q, %v", said, err)
		}
		l.Close()
	}
}

func TestListenInServesANamespaceOnly(t *testing.T) {
	t.Parallel()
	inside, outside := namespace(t), namespace(t)
	for round := range 3 { // an owner that starts again finds the address there
		l, addresses, err := ListenIn(t.Context(), inside, helper(), metadataAddr)
		if err != nil {
			t.Fatal(err)
		}
		if len(addresses) != 0 {
			t.Errorf("a bare namespace has the addresses %v", addresses)
		}
		served := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				fmt.Fprint(c, "hello ", round)
				c.Close()
			}
			served <- err
		}()
		if said, err := dialIn(outside, metadataAddr); err == nil {
			t.Errorf("another namespace got in: %q", said)
		}
		if said, err := dialIn(inside, metadataAddr); err != nil || said != fmt.Sprint("hello ", round) {
			t.Errorf("from inside: %q, %v", said, err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		l.Close()
	}
}

func TestListenInSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	pid := namespace(t)
	for name, c := range map[string]struct {
		helper []string
		pid    int
		want   string
	}{
		"helper fails":     {[]string{"sh", "-c", "echo no luck >&2; exit 3"}, pid, "no luck"},
		"helper is silent": {[]string{"true"}, pid, "passed no socket"},
		"process is gone":  {helper(), 1 << 30, "process 1073741824"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _, err := ListenIn(t.Context(), c.pid, c.helper, metadataAddr)
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
