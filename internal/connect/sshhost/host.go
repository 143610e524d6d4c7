package sshhost

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// Host is a destination of ssh. The zero value is this machine.
type Host struct {
	User string // empty: as ssh is configured
	Name string // a host name, an address, or a Host of the user's ssh_config
	Port int    // 0: as ssh is configured
}

// What a destination may contain: ssh, and what its configuration runs with %h and %r, must never
// take a part of it for an option or for a command of a shell.
var (
	hostName = lazy.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9._])?$`)
	userName = lazy.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._@+-]*[A-Za-z0-9._@+$])?$`)
)

// Bounds of a host in bytes. They are not in the patterns, because a counted repetition makes a pattern large, and
// every command compiles it.
const (
	maxHostName = 254
	maxUserName = 64
)

// errForm ends errors about the form of a host.
var errForm = errors.New("write ssh://[USER@]HOST[:PORT]")

// ParseHost parses ssh://[USER@]HOST[:PORT].
func ParseHost(text string) (Host, error) {
	fail := func(format string, args ...any) (Host, error) {
		return Host{}, fmt.Errorf("host %q: %s: %w", text, fmt.Sprintf(format, args...), errForm)
	}
	if strings.Contains(text, ",") {
		return Host{}, fmt.Errorf("host %q: one command works on one host: to place tasks on several hosts is what Kubernetes and ECS do; run the command once for each host", text)
	}
	rest, ok := strings.CutPrefix(text, "ssh://")
	if !ok {
		return fail("only ssh reaches another host")
	}
	u, err := url.Parse(text)
	if err != nil {
		return fail("it is not a URL")
	}
	switch _, password := u.User.Password(); {
	case password:
		// The text is not repeated, because it contains the password.
		return Host{}, fmt.Errorf("host %s: podtask takes no password: ssh asks for it, or use a key: %w", u.Hostname(), errForm)
	case strings.Trim(u.Path, "/") != "":
		return fail("a path means nothing here")
	case strings.ContainsAny(rest, "?#"):
		return fail("options are those of ssh_config; a URL has none")
	}
	h := Host{User: u.User.Username(), Name: u.Hostname()}
	if _, err := netAddress(h.Name); err != nil && (len(h.Name) > maxHostName || !hostName.MatchString(h.Name)) {
		return fail("the name of a host has letters, digits, dots, dashes and underscores, and begins with none of . and -")
	}
	if h.User != "" && (len(h.User) > maxUserName || !userName.MatchString(h.User)) {
		return fail("the user has a character that no name of a user has, or begins with a dash")
	}
	if p := u.Port(); p != "" {
		if h.Port, err = strconv.Atoi(p); err != nil || h.Port < 1 || h.Port > 65535 {
			return fail("the port is a number from 1 to 65535")
		}
	}
	return h, nil
}

// netAddress returns the text of an IPv6 address; an error for anything else.
func netAddress(text string) (string, error) {
	ip := net.ParseIP(text)
	if ip == nil || !strings.Contains(text, ":") {
		return "", errors.New("no IPv6 address")
	}
	return ip.String(), nil
}

// String returns the URL.
func (h Host) String() string {
	u := url.URL{Scheme: "ssh", Host: h.Name}
	if strings.Contains(h.Name, ":") {
		u.Host = "[" + h.Name + "]"
	}
	if h.Port != 0 {
		u.Host += ":" + strconv.Itoa(h.Port)
	}
	if h.User != "" {
		u.User = url.User(h.User)
	}
	return u.String()
}

// remoteCommand finds podtask in the PATH of commands by ssh, and where `podtask host setup` and
// users of this machine install programs. It has single quotes only, because the login shell
// of the user may be any.
const remoteCommand = `exec sh -c 'PATH="$PATH:$HOME/.local/bin:/usr/local/bin"; exec podtask session'`

// Arguments returns the arguments of ssh for a command line of the other host's shell. Unless
// ask, ssh fails instead of asking for a password or for a new host's key.
//
// As for scp, the user's configuration does not make a terminal, forward ports, or run another
// command for this connection. All else is the user's: keys, agent, jump hosts, known_hosts.
func (h Host) Arguments(ask bool, command string) []string {
	args := []string{
		"-T", "-x", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none", "-oRequestTTY=no",
	}
	if !ask {
		args = append(args, "-oBatchMode=yes")
	}
	if h.Port != 0 {
		args = append(args, "-p", strconv.Itoa(h.Port))
	}
	if h.User != "" {
		args = append(args, "-l", h.User)
	}
	return append(args, "--", h.Name, command)
}
