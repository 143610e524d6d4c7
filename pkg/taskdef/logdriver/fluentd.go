package logdriver

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// FluentdOptions are the options of the log driver fluentd, as Docker has them.
type FluentdOptions struct {
	// Address is tcp, tls or unix.
	Address Address
	// Ack: the server acknowledges. It does over tcp and tls, unless fluentd-request-ack is
	// false; and over unix, if that is true.
	Ack bool
	// SubSecond sends the nanoseconds of a time.
	SubSecond bool
	// WriteTimeout bounds a write to the server; 0: a default for all servers.
	WriteTimeout time.Duration
	Attributes
}

var fluentdOptions = slices.Concat(strings.Fields(`fluentd-address fluentd-async fluentd-async-reconnect-interval fluentd-buffer-limit
	fluentd-max-retries fluentd-request-ack fluentd-retry-wait fluentd-sub-second-precision fluentd-write-timeout`), attributeOptions)

const fluentdPort = 24224

// ParseFluentd reads the options of fluentd and returns all mistakes.
func ParseFluentd(options map[string]string) (FluentdOptions, []OptionProblem) {
	p := newOptionParser(Fluentd, fluentdOptions, options)
	if len(p.problems) > 0 {
		return FluentdOptions{}, p.problems
	}
	f := FluentdOptions{Attributes: p.attributes(), SubSecond: p.boolean("fluentd-sub-second-precision", false), Address: Address{"tcp", "127.0.0.1:24224"}}
	if text := options["fluentd-address"]; text != "" {
		if !strings.Contains(text, "://") {
			text = "tcp://" + text
		}
		if network, rest, _ := strings.Cut(text, "://"); network != "unix" && (rest == "" || rest[0] == ':') {
			text = network + "://127.0.0.1" + rest
		}
		withHost := optionParser{options: map[string]string{"fluentd-address": text}}
		f.Address = withHost.address("fluentd-address", fluentdPort, "tcp", "tls", "unix")
		p.problems = append(p.problems, withHost.problems...)
	}
	f.Ack = p.boolean("fluentd-request-ack", f.Address.Network != "unix")
	f.WriteTimeout = p.duration("fluentd-write-timeout", 0)
	// What follows concerns a buffer in memory and the pace of its retries.
	p.boolean("fluentd-async", false)
	p.duration("fluentd-retry-wait", 0)
	p.between("fluentd-max-retries", 0, 1<<31-1, 0)
	p.size("fluentd-buffer-limit")
	if d := p.duration("fluentd-async-reconnect-interval", 0); d != 0 && (d < 100*time.Millisecond || d > 10*time.Second) {
		p.add("fluentd-async-reconnect-interval", "write 100ms to 10s", "the interval is out of range")
	}
	return f, p.problems
}

// duration returns an option that is a time of Go, such as 5s.
func (p *optionParser) duration(name string, otherwise time.Duration) time.Duration {
	v := p.options[name]
	if v == "" {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		p.add(name, "write a number and ms, s or m, as in 5s", "%s is not a duration", strconv.Quote(v))
	}
	return d
}

// Destination says for people where the lines of a container go.
func (f FluentdOptions) Destination(_, _ string, o Origin) string {
	return "fluentd at " + f.Address.String() + ", tag " + f.Tag.Of(o)
}
