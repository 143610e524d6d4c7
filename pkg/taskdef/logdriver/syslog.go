package logdriver

import (
	"slices"
	"strconv"
	"strings"
)

// SyslogOptions are the options of the log driver syslog, as Docker has them.
type SyslogOptions struct {
	Address Address
	// Facility is 0 to 23.
	Facility int
	// Format is empty, rfc3164, rfc5424 or rfc5424micro.
	Format string
	TLS    TLS
	Attributes
}

// TLS authenticates a server and its client. The files are on this host.
type TLS struct {
	CA, Cert, Key string
	// Name is the name in the server's certificate; empty: the name in its address.
	Name string
	// Insecure takes any server.
	Insecure bool
}

var syslogOptions = slices.Concat(strings.Fields(`syslog-address syslog-facility syslog-format syslog-tls-ca-cert syslog-tls-cert
	syslog-tls-key syslog-tls-skip-verify`), attributeOptions)

// facilities have the numbers of RFC 5424; some have no name.
var facilities = strings.Fields("kern user mail daemon auth syslog lpr news uucp cron authpriv ftp - - - - local0 local1 local2 local3 local4 local5 local6 local7")

const (
	daemonFacility = 3
	syslogPort     = 514
)

// ParseSyslog reads the options of syslog and returns all mistakes.
func ParseSyslog(options map[string]string) (SyslogOptions, []OptionProblem) {
	p := newOptionParser(Syslog, syslogOptions, options)
	if len(p.problems) > 0 {
		return SyslogOptions{}, p.problems
	}
	_, insecure := options["syslog-tls-skip-verify"]
	s := SyslogOptions{
		Facility: daemonFacility, Attributes: p.attributes(), Format: p.word("syslog-format", "rfc3164", "rfc5424", "rfc5424micro"),
		TLS: TLS{CA: options["syslog-tls-ca-cert"], Cert: options["syslog-tls-cert"], Key: options["syslog-tls-key"], Insecure: insecure},
	}
	if options["syslog-address"] != "" {
		s.Address = p.address("syslog-address", syslogPort, "udp", "tcp", "tcp+tls", "unix", "unixgram")
	}
	if f := options["syslog-facility"]; f != "" {
		s.Facility = slices.Index(facilities, f)
		if n, err := strconv.Atoi(f); err == nil {
			s.Facility = n
		}
		if s.Facility < 0 || s.Facility > 23 || f == "-" {
			p.add("syslog-facility", "write a name such as daemon or local0, or a number from 0 to 23", "there is no facility %s", strconv.Quote(f))
		}
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		p.add("", "give both, or none", "syslog-tls-cert and syslog-tls-key belong together")
	}
	return s, p.problems
}

// Destination says for people where the lines of a container go.
func (s SyslogOptions) Destination(_, _ string, o Origin) string {
	return "syslog at " + s.Address.String() + ", tag " + s.Tag.Of(o)
}
