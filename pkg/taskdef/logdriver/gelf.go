package logdriver

import (
	"slices"
	"strings"
)

// GELFOptions are the options of the log driver gelf, as Docker has them.
type GELFOptions struct {
	// Address is tcp or udp.
	Address Address
	// Compression is gzip, zlib or none; Level is -1 to 9. Both are for udp.
	Compression string
	Level       int
	Attributes
}

var gelfOptions = slices.Concat(strings.Fields(`gelf-address gelf-compression-level gelf-compression-type gelf-tcp-max-reconnect
	gelf-tcp-reconnect-delay`), attributeOptions)

// gelfNetworks are the options that only one network has.
var gelfNetworks = []struct{ option, network string }{
	{"gelf-compression-level", "udp"},
	{"gelf-compression-type", "udp"},
	{"gelf-tcp-max-reconnect", "tcp"},
	{"gelf-tcp-reconnect-delay", "tcp"},
}

// ParseGELF reads the options of gelf and returns all mistakes.
func ParseGELF(options map[string]string) (GELFOptions, []OptionProblem) {
	p := newOptionParser(GELF, gelfOptions, options)
	if len(p.problems) > 0 {
		return GELFOptions{}, p.problems
	}
	g := GELFOptions{Compression: "gzip", Level: 1, Attributes: p.attributes()}
	if options["gelf-address"] == "" {
		p.need("gelf-address")
		return g, p.problems
	}
	g.Address = p.address("gelf-address", 0, "udp", "tcp")
	if c := p.word("gelf-compression-type", "gzip", "zlib", "none"); c != "" {
		g.Compression = c
	}
	g.Level = p.between("gelf-compression-level", -1, 9, g.Level)
	const most = 1<<31 - 1
	p.between("gelf-tcp-max-reconnect", 0, most, 0)
	p.between("gelf-tcp-reconnect-delay", 0, most, 0)
	for _, o := range gelfNetworks {
		if _, given := options[o.option]; given && g.Address.Network != o.network && g.Address.Network != "" {
			p.add(o.option, "leave it out", "%s is for %s only", o.option, o.network)
		}
	}
	return g, p.problems
}

// Destination says for people where the lines of a container go.
func (g GELFOptions) Destination(_, _ string, _ Origin) string {
	return "GELF server at " + g.Address.String()
}
