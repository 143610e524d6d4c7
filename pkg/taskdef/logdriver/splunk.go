package logdriver

import (
	"net/url"
	"slices"
	"strings"
)

// SplunkOptions are the options of the log driver splunk, as Docker has them.
type SplunkOptions struct {
	// URL is the URL of the HTTP Event Collector, with its path.
	URL string
	// Token is given as an option; it is better a secret option.
	Token                     string
	Source, SourceType, Index string
	TLS                       TLS
	// Format is inline, json or raw.
	Format string
	Gzip   bool
	Level  int
	// Channel gives requests an ID, which a token with acknowledgement of indexes needs.
	Channel bool
	// Untagged: events have no tag.
	Untagged bool
	Attributes
}

// SplunkToken is the option that is the only one of all drivers whose value is a secret.
const SplunkToken = "splunk-token" //nolint:gosec // a name

var splunkOptions = slices.Concat(strings.Fields(`splunk-caname splunk-capath splunk-format splunk-gzip splunk-gzip-level
	splunk-index splunk-index-acknowledgment splunk-insecureskipverify splunk-source splunk-sourcetype splunk-token splunk-url
	splunk-verify-connection`), attributeOptions)

// collectorPath is the path under which a Splunk server takes events.
const collectorPath = "/services/collector/event/1.0"

// ParseSplunk reads the options of splunk and returns all mistakes.
func ParseSplunk(options map[string]string) (SplunkOptions, []OptionProblem) {
	p := newOptionParser(Splunk, splunkOptions, options)
	if len(p.problems) > 0 {
		return SplunkOptions{}, p.problems
	}
	tag, given := options["tag"]
	s := SplunkOptions{
		Token: options[SplunkToken], Source: options["splunk-source"], SourceType: options["splunk-sourcetype"], Index: options["splunk-index"],
		TLS:    TLS{CA: options["splunk-capath"], Name: options["splunk-caname"], Insecure: p.boolean("splunk-insecureskipverify", false)},
		Format: p.word("splunk-format", "inline", "json", "raw"), Gzip: p.boolean("splunk-gzip", false), Level: p.between("splunk-gzip-level", -1, 9, -1),
		Channel: p.boolean("splunk-index-acknowledgment", false), Untagged: given && tag == "", Attributes: p.attributes(),
	}
	p.boolean("splunk-verify-connection", true) // no container waits for a server
	if s.Format == "" {
		s.Format = "inline"
	}
	p.need("splunk-url", SplunkToken)
	if text := options["splunk-url"]; text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			p.add("splunk-url", "write https://HOST:PORT, without a path", "the URL is not that of an HTTP Event Collector")
			return s, p.problems
		}
		u.Path = collectorPath
		s.URL = u.String()
	}
	return s, p.problems
}

// Destination says for people where the lines of a container go.
func (s SplunkOptions) Destination(_, _ string, _ Origin) string {
	return "Splunk at " + s.URL
}
