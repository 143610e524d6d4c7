package pod

import (
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// The keys of a Secret with a certificate, as its type kubernetes.io/tls has them.
const (
	chainKey = "tls.crt"
	tlsKey   = "tls.key"
)

// tlsHost is a host with TLS, and the certificate that it has.
type tlsHost struct {
	name   string // perhaps a wildcard; empty for all hosts
	secret tlsSecret
}

// tlsSecret is where a certificate is. Without a place, one is issued.
type tlsSecret struct {
	place      value // of its name
	chain, key content
	// chainSource and keySource are sources of secrets.
	chainSource, keySource string
}

// tlsHosts are the hosts with TLS of an Ingress.
type tlsHosts []tlsHost

// of returns what the list says of a host: by its name, else by a wildcard, else for all hosts.
func (l tlsHosts) of(host string) (best tlsHost, found bool) {
	_, parent, _ := strings.Cut(host, ".")
	for _, fits := range []func(string) bool{
		func(name string) bool { return name != "" && strings.EqualFold(name, host) },
		func(name string) bool { return parent != "" && strings.EqualFold(name, "*."+parent) },
		func(name string) bool { return name == "" },
	} {
		if i := slices.IndexFunc(l, func(h tlsHost) bool { return fits(h.name) }); i >= 0 {
			return l[i], true
		}
	}
	return best, false
}

// tls returns the hosts that have TLS.
func (a *ingressReader) tls(d ingressDoc) (all tlsHosts) {
	for _, item := range d.at("spec").at("tls").items() {
		hosts := texts(item.at("hosts"))
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		var secret tlsSecret
		if name := item.at("secretName"); name.filled() && !d.issued {
			secret = a.tlsSecret(name)
		}
		for _, h := range hosts {
			all = append(all, tlsHost{h, secret})
		}
	}
	return all
}

// tlsSecret finds the certificate of a Secret: in the file, in Podman, or where the host has it. One that is nowhere is
// issued, with a warning.
func (a *ingressReader) tlsSecret(place value) tlsSecret {
	name := place.str()
	doc, here := a.secrets[name]
	if !here {
		chain, first := answer(place, a.options.Refs, refs.Secret, refs.OfKey(name, chainKey))
		key, second := answer(place, a.options.Refs, refs.Secret, refs.OfKey(name, tlsKey))
		switch {
		case first && second:
			return tlsSecret{place: place, chainSource: chain, keySource: key}
		case first || second:
			place.wrong("one of the keys "+chainKey+" and "+tlsKey+" of the Secret "+doctree.Quote(name)+" has a source, and the other has none", "give --map-secret "+name+"/KEY=SOURCE for both")
			return tlsSecret{}
		}
		place.warn("the certificate of the Secret "+doctree.Quote(name)+", which is not in the file, is not used: `podtask ingress` has a certificate issued",
			"for your own, add the Secret to the file, or give --map-secret "+name+"/"+chainKey+"=SOURCE --map-secret "+name+"/"+tlsKey+"=SOURCE")
		return tlsSecret{}
	}
	s, data := tlsSecret{place: place}, secretData(doc)
	for _, part := range []struct {
		key     string
		content *content
		source  *string
	}{{chainKey, &s.chain, &s.chainSource}, {tlsKey, &s.key, &s.keySource}} {
		c := data[part.key]
		switch {
		case c.empty():
			a.noKey(place, "Secret", name, part.key, slices.Sorted(maps.Keys(data)))
			return tlsSecret{}
		case c.source != "":
			*part.source = c.source
		default: // `taskdef register` gives it a source that lasts
			*part.content, *part.source = c, "env:"+a.secretName("Secret", name, part.key)
		}
	}
	return s
}

// certificate gives an address the certificate of a Secret, if it has one. Content that does not fit the host is a problem.
func (a *ingressReader) certificate(i *taskdef.Ingress, s tlsSecret, host string) {
	if s.place.node == nil {
		return
	}
	i.Certificate, i.CertificateKey = s.chainSource, s.keySource
	if s.chain.empty() || s.key.empty() {
		return // it was checked when it was registered, or the agent checks it
	}
	problem, seen := taskdef.CheckCertificate(s.chain.bytes, s.key.bytes, host), s.place.pointer+" "+host
	if problem != "" && !a.refused[seen] {
		a.refused[seen] = true
		s.place.wrong("the certificate of the Secret "+doctree.Quote(s.place.str())+" cannot be used for "+host+": "+problem, "put a certificate for this host, with its key, into the Secret")
	}
}
