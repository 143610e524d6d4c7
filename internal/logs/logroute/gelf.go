package logroute

import "strings"

// GELF are the options of the log driver gelf, as Docker has them.
type GELF struct {
	// Address is tcp or udp.
	Address Address
	// Compression is gzip, zlib or none; Level is -1 to 9. Both are for udp.
	Compression string
	Level       int
	Attributes
}

var gelfOptions = strings.Fields(`gelf-address gelf-compression-level gelf-compression-type gelf-tcp-max-reconnect
	gelf-tcp-reconnect-delay`)

// ParseGELF reads the options of gelf and returns all mistakes.
func ParseGELF(options map[string]string) (GELF, []OptionProblem) {
	p := newOptionParser("gelf", options)
	if len(p.problems) > 0 {
		return GELF{}, p.problems
	}
	g := GELF{Compression: "gzip", Level: 1, Attributes: p.attributes()}
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
	for _, name := range gelfOptions[1:] {
		only := "udp"
		if strings.HasPrefix(name, "gelf-tcp") {
			only = "tcp"
		}
		if _, given := options[name]; given && g.Address.Network != only && g.Address.Network != "" {
			p.add(name, "leave it out", "%s is for %s only", name, only)
		}
	}
	return g, p.problems
}
