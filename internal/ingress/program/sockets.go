package program

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/netns"
)

// The names of listeners, as FileDescriptorName= of socket units has them.
const (
	plainName   = "http"
	secureName  = "https"
	controlName = "control"
)

// inheritedEnv names the listeners that a process passes to its successor, joined by colons. They are
// the descriptors from 3 on, and the one after them is the pipe by which the successor says that it
// serves.
const inheritedEnv = "PODTASK_INGRESS_LISTENERS"

const firstDescriptor = 3

// sockets are the listeners of a proxy.
type sockets struct {
	plain, secure []net.Listener
	control       net.Listener
	// streams are those of a predecessor for TCP connections, by address.
	streams map[string][]net.Listener
	// problems are the reasons for missing listeners for requests.
	problems []string
	// denied: one of them is that this user may not open the port.
	denied bool
	// ready is closed when this process serves; nil without a predecessor.
	ready *os.File
}

// open takes the listeners of a predecessor or of systemd, else it makes them.
func open(o *options) (*sockets, error) {
	s, found, err := inherit()
	if err == nil && !found {
		s, err = activated()
	}
	if err != nil {
		return nil, err
	}
	if s.ready == nil && len(s.plain)+len(s.secure) == 0 {
		err = s.listen(o)
	}
	if err == nil && s.control == nil {
		s.control, err = api.Listen(o.socket)
		if errors.Is(err, api.ErrInUse) {
			err = fmt.Errorf("there is an ingress proxy already: `podtask ingress status` has its process: %w", err)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes all listeners.
func (s *sockets) Close() {
	for _, l := range append(append([]net.Listener{}, s.plain...), s.secure...) {
		_ = l.Close()
	}
	for _, all := range s.streams {
		for _, l := range all {
			_ = l.Close()
		}
	}
	if s.control != nil {
		_ = s.control.Close()
	}
}

// listen opens the listeners for requests. Under a service manager it opens those that it can: the listeners of services
// need none of them.
func (s *sockets) listen(o *options) error {
	plain, plainErr := listen(o.plain)
	secure, secureErr := listen(o.secure)
	s.plain, s.secure = plain, secure
	supervised := os.Getenv("NOTIFY_SOCKET") != ""
	problems, err := failures(supervised, plainErr, secureErr, netns.UnprivilegedStart())
	if !supervised {
		return err
	}
	s.problems, s.denied = append(s.problems, problems...), errors.Is(err, syscall.EACCES)
	return nil
}

// failures explains why listeners could not be opened: in an error with all ways to a low port, and under a service manager in
// short problems for the status and the journal. Users may open the ports from lowest on.
func failures(supervised bool, plain, secure error, lowest uint16) (problems []string, all error) {
	all = errors.Join(plain, secure)
	if all == nil {
		return nil, nil
	}
	denied := errors.Is(all, syscall.EACCES)
	if !supervised {
		if denied {
			all = fmt.Errorf("%w\n%s", all, ingress.LowPorts(lowest))
		}
		return nil, all
	}
	for _, err := range []error{plain, secure} {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	if denied {
		problems[len(problems)-1] += fmt.Sprintf(" (users may open ports from %d on)", lowest) + ingress.AskDoctor
	}
	return problems, all
}

// listen opens a listener.
func listen(address string) ([]net.Listener, error) {
	if address == "none" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		return []net.Listener{l}, nil
	}
	_, text, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(text, 10, 16)
	port := uint16(number)
	switch {
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: %w", address, syscall.EACCES)
	case errors.Is(err, syscall.EADDRINUSE):
		if holder, found := netns.FindHolder("tcp", port); found {
			return nil, fmt.Errorf("listen on %s: %w: %s has the port", address, syscall.EADDRINUSE, holder)
		}
	}
	return nil, err
}

// activated returns the listeners that systemd passes.
func activated() (*sockets, error) {
	s := &sockets{}
	passed, err := activation.ListenersWithNames()
	if err != nil {
		return s, err
	}
	for name, all := range passed {
		for _, l := range all {
			if err := s.add(name, l); err != nil {
				return s, fmt.Errorf("systemd passes a socket: %w", err)
			}
		}
	}
	return s, nil
}

// inherit returns the listeners of a predecessor.
func inherit() (*sockets, bool, error) {
	names := os.Getenv(inheritedEnv)
	if names == "" {
		return &sockets{}, false, nil
	}
	if err := os.Unsetenv(inheritedEnv); err != nil {
		return &sockets{}, true, err
	}
	s := &sockets{}
	list := strings.Split(names, ":")
	for i, name := range list {
		f := os.NewFile(uintptr(firstDescriptor+i), name)
		l, err := net.FileListener(f)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = s.add(name, l)
		}
		if err != nil {
			return s, true, fmt.Errorf("take the listener %s of the process before: %w", name, err)
		}
	}
	ready := firstDescriptor + len(list)
	syscall.CloseOnExec(ready)
	s.ready = os.NewFile(uintptr(ready), "ready")
	return s, true, tellPID(s.ready)
}

// add takes a listener of a name.
func (s *sockets) add(name string, l net.Listener) (err error) {
	switch name {
	case plainName:
		s.plain = append(s.plain, l)
	case secureName:
		s.secure = append(s.secure, l)
	case controlName:
		s.control, err = api.Guard(l)
	default:
		if address, is := kept.Address(name); is {
			if s.streams == nil {
				s.streams = make(map[string][]net.Listener)
			}
			s.streams[address] = append(s.streams[address], l)
			return nil
		}
		err = fmt.Errorf("its name is %q and has to be %s or %s (FileDescriptorName=)", name, plainName, secureName)
	}
	return err
}

// files returns the descriptors for a successor, and their names.
func (s *sockets) files(streams map[string][]net.Listener) (names []string, files []*os.File, err error) {
	take := func(name string, l net.Listener) {
		f, ok := l.(interface{ File() (*os.File, error) })
		if !ok {
			err = errors.Join(err, fmt.Errorf("the listener %s has no descriptor", name))
			return
		}
		file, failed := f.File()
		if failed != nil {
			err = errors.Join(err, failed)
			return
		}
		names, files = append(names, name), append(files, file)
	}
	for _, l := range s.plain {
		take(plainName, l)
	}
	for _, l := range s.secure {
		take(secureName, l)
	}
	for address, all := range streams {
		for _, l := range all {
			take(kept.Name(address), l)
		}
	}
	take(controlName, s.control)
	return names, files, err
}

func addresses(all []net.Listener) []string {
	list := []string{}
	for _, l := range all {
		list = append(list, l.Addr().String())
	}
	return list
}

// portOf is the port of the first listener; otherwise if there is none.
func portOf(all []net.Listener, otherwise int) int {
	for _, l := range all {
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			return a.Port
		}
	}
	return otherwise
}
