package logdriver

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/lazy"
)

// OptionProblem is a mistake in an option of a log driver.
type OptionProblem struct {
	// Option is empty if an option is missing.
	Option, Message, Hint string
}

// Address is the address of a server.
type Address struct {
	// Network is tcp, tls, udp, unix, unixgram, or empty for the syslog of this host.
	Network string
	// Host is a host and a port, or a path.
	Host string
}

// String returns NETWORK://HOST.
func (a Address) String() string {
	if a.Network == "" {
		return "this host"
	}
	return a.Network + "://" + a.Host
}

// maxOption is the most bytes of an option.
const maxOption = 4096

// newOptionParser returns a parser of the options of a driver, whose own are named, with the mistakes in their names
// and what is wrong with any value.
func newOptionParser(driver Driver, own []string, options map[string]string) *optionParser {
	p := &optionParser{driver: driver, options: options}
	names := slices.Sorted(slices.Values(slices.Concat(own, everyDriver)))
	for _, name := range slices.Sorted(maps.Keys(options)) {
		switch v := options[name]; {
		case !slices.Contains(names, name):
			p.add(name, "use "+strings.Join(names, ", "), "%s has no option %s", driver, strconv.Quote(name))
		case len(v) > maxOption:
			p.add(name, "", "the option has more than %d bytes", maxOption)
		case strings.ContainsAny(v, "\n\r\x00"):
			p.add(name, "write it on one line", "the option has a line break")
		}
	}
	if len(p.problems) == 0 {
		p.mode()
	}
	return p
}

// form is the pattern of an option's value. The length is apart, because a counted repetition makes an expression large,
// and each start of the program compiles it.
type form struct {
	chars *lazy.Regexp
	most  int // characters; 0: any number
}

// optionParser reads options and collects their mistakes.
type optionParser struct {
	driver   Driver
	options  map[string]string
	problems []OptionProblem
}

func (p *optionParser) add(option, hint, format string, args ...any) {
	p.problems = append(p.problems, OptionProblem{Option: option, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (p *optionParser) matches(name string, want form, hint string) string {
	v := p.options[name]
	if v != "" && (!want.chars.MatchString(v) || want.most > 0 && utf8.RuneCountInString(v) > want.most) {
		p.add(name, hint, "%s is not a value of %s", strconv.Quote(v), name)
	}
	return v
}

func (p *optionParser) boolean(name string, otherwise bool) bool {
	v, given := p.options[name]
	if !given || v == "" {
		return otherwise
	}
	yes, err := strconv.ParseBool(v)
	if err != nil {
		p.add(name, "write true or false", "%s is not true or false", strconv.Quote(v))
	}
	return yes
}

func (p *optionParser) number(name string, otherwise int) int {
	v, given := p.options[name]
	if !given || v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 24)
	if err != nil || n == 0 {
		p.add(name, "write a number from 1", "%s is not a number of at least 1", strconv.Quote(v))
	}
	return int(n)
}

// need reports options that are missing.
func (p *optionParser) need(names ...string) {
	for _, name := range names {
		if p.options[name] == "" {
			p.add("", "add "+strconv.Quote(name), "%s needs the option %s", p.driver, name)
		}
	}
}

// word returns an option that is one of some words.
func (p *optionParser) word(name string, words ...string) string {
	v := p.options[name]
	if v != "" && !slices.Contains(words, v) {
		p.add(name, "use "+strings.Join(words, ", "), "there is no %s %s", name, strconv.Quote(v))
	}
	return v
}

// between returns an option that is a number within limits.
func (p *optionParser) between(name string, low, high, otherwise int) int {
	v, given := p.options[name]
	if !given || v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		p.add(name, fmt.Sprintf("write a number from %d to %d", low, high), "%s is not a number of that range", strconv.Quote(v))
		return otherwise
	}
	return n
}

// regex returns an option that is a regular expression; nil without one.
func (p *optionParser) regex(name string) *regexp.Regexp {
	v := p.options[name]
	if v == "" {
		return nil
	}
	re, err := regexp.Compile(v)
	if err != nil {
		p.add(name, "write a regular expression of Go", "the pattern is not valid: %v", err)
	}
	return re
}

// address returns an option of the form NETWORK://HOST:PORT, or NETWORK://PATH for a socket.
// Without a port it has the usual one; 0: it must have one.
func (p *optionParser) address(name string, port int, networks ...string) (a Address) {
	text := p.options[name]
	u, err := url.Parse(text)
	form := "write " + networks[0] + "://HOST:PORT"
	switch {
	case err != nil:
		p.add(name, form, "%s is not an address", strconv.Quote(text))
		return a
	case !slices.Contains(networks, u.Scheme):
		p.add(name, "use "+strings.Join(networks, ", "), "%s is none of the protocols of %s", strconv.Quote(u.Scheme), name)
		return a
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		p.add(name, form, "%s has more than a host and a port", strconv.Quote(name))
		return a
	case u.Scheme == "unix" || u.Scheme == "unixgram":
		if u.Host != "" || strings.Trim(u.Path, "/") == "" {
			p.add(name, "write unix:///PATH", "the address has no absolute path")
		}
		return Address{u.Scheme, u.Path}
	case strings.Trim(u.Path, "/") != "":
		p.add(name, form, "the address has a path")
	}
	host, digits := u.Hostname(), u.Port()
	if digits == "" && port > 0 {
		digits = strconv.Itoa(port)
	}
	if n, err := strconv.ParseUint(digits, 10, 16); err != nil || host == "" || n == 0 {
		p.add(name, form, "the address needs a host and a port")
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	a = Address{u.Scheme, host + ":" + digits}
	if a.Network == "tcp+tls" {
		a.Network = "tls"
	}
	return a
}

func (p *optionParser) mode() {
	mode := p.options["mode"]
	if mode != "" && mode != "blocking" && mode != "non-blocking" {
		p.add("mode", "use blocking or non-blocking", "there is no mode %s", strconv.Quote(mode))
	}
	if _, given := p.options["max-buffer-size"]; given && mode == "blocking" {
		p.add("max-buffer-size", "leave it out, or use the mode non-blocking", "max-buffer-size is for the mode non-blocking")
	}
	p.size("max-buffer-size")
}

var sizeForm = lazy.MustCompile(`^[0-9]{1,12}(\.[0-9]+)?\s?[bBkKmMgG]?[iI]?[bB]?$`)

// size checks an option that is a number of bytes, as Docker writes it.
func (p *optionParser) size(name string) {
	if size := p.options[name]; size != "" && !sizeForm.MatchString(size) {
		p.add(name, "write a number and k, m or g, as in 10m", "%s is not a size", strconv.Quote(size))
	}
}
