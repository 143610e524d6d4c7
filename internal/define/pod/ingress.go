package pod

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// maxPaths limits the paths of Ingress documents in a file, against hostile files. A service has fewer addresses.
const maxPaths = 1000

// ingress makes public addresses of the Ingress documents whose paths lead to the Pod, and says what becomes of the
// others and of the Services. An address that cannot be had is left out with a warning. What would be served in
// another way than the document says is a problem.
func (b *reader) ingress() {
	a := newIngressReader(b)
	for _, doc := range b.ingresses {
		a.read(doc)
	}
	for _, s := range b.services {
		b.warnOfService(s, a.used[s.node])
	}
}

// warnOfService says what a Service does not do. Ingresses are the names of those that lead to the Pod by it.
func (b *reader) warnOfService(s value, ingresses []string) {
	lost, fix := "the Service has no effect: podtask has no cluster network", "publish ports of the Pod with hostPort"
	if len(ingresses) > 0 {
		lost, fix = "the Service leads the Ingress "+strings.Join(ingresses, ", ")+" to the Pod, and nothing else: podtask has no cluster network", ""
	}
	if by := nameAs(s); by != "" {
		fix = strings.TrimPrefix(fix+", or ", ", or ") + by
	}
	s.at("kind").warn(lost, fix)
}

// ingressReader reads the Ingress documents of a file.
type ingressReader struct {
	*reader
	seen  map[taskdef.Address]int    // lines of the paths
	used  map[*doctree.Node][]string // names of the Ingresses that a Service is for
	paths int
	// known are the Services, and the first of each name; whyNot says why one does not select the Pod.
	known  map[serviceKey]value
	first  map[string]value
	whyNot map[*doctree.Node]string
	labels map[string]string // of the Pod
	// refused are the certificates that do not fit a host, by their place and the host.
	refused map[string]bool
}

// serviceKey identifies a Service of the file. The namespace is empty where the document has none.
type serviceKey struct{ namespace, name string }

func newIngressReader(b *reader) *ingressReader {
	a := &ingressReader{
		reader: b, seen: make(map[taskdef.Address]int), used: make(map[*doctree.Node][]string),
		known: make(map[serviceKey]value), first: make(map[string]value), whyNot: make(map[*doctree.Node]string), labels: make(map[string]string), refused: make(map[string]bool),
	}
	for _, f := range b.meta.at("labels").entries() {
		a.labels[f.Key] = f.Value.Text
	}
	for _, s := range b.services {
		meta := s.at("metadata")
		key := serviceKey{meta.at("namespace").str(), meta.at("name").str()}
		if _, twice := a.known[key]; !twice {
			a.known[key] = s
		}
		if _, twice := a.first[key.name]; !twice {
			a.first[key.name] = s
		}
	}
	return a
}

// ingressDoc is an Ingress document.
type ingressDoc struct {
	value
	name string
	// template has the members that annotations set.
	template taskdef.Ingress
	// issued: the document has a certificate made by ACME, in the Secret of tls.secretName.
	issued bool
	// secure: all hosts have TLS, whatever tls says.
	secure bool
}

// read reads one Ingress.
func (a *ingressReader) read(doc value) {
	d := ingressDoc{value: doc, name: doc.at("metadata").at("name").str()}
	if v := doc.at("apiVersion"); v.str() != "networking.k8s.io/v1" {
		doc.at("kind").warn("the Ingress has no effect: its apiVersion is "+doctree.Quote(v.str()), "write it as networking.k8s.io/v1")
		return
	}
	checker{a.report, true}.check(doc, "Ingress")
	if k := a.kind.name; k == "Job" || k == "CronJob" {
		doc.at("kind").warn("the Ingress has no effect: a "+k+" is no service", "")
		return
	}
	leads := false
	for range a.leading(d) {
		leads = true
		break
	}
	if !leads {
		doc.at("kind").warn("the Ingress has no effect: no path of it leads to the Pod of this file by a Service of this file", "")
		return
	}
	a.annotations(&d)
	spec := doc.at("spec")
	if class := spec.at("ingressClassName"); class.filled() && class.str() != "podtask" {
		class.warn("ingressClassName "+doctree.Quote(class.str())+" has no effect: `podtask ingress` serves the addresses", "")
	}
	if d := spec.at("defaultBackend"); d.present() {
		d.warn("defaultBackend has no effect: an address has a host", "write a rule with a host")
	}
	hosts := a.tls(d)
	for _, rule := range spec.at("rules").items() {
		host, paths := rule.at("host"), rule.at("http").at("paths").items()
		switch {
		case !host.filled():
			rule.warn("a rule without a host has no effect: an address has a host", "write host, as in app.example.org")
			continue
		case len(paths) == 0:
			rule.warn("the rule for "+doctree.Quote(host.str())+" has no effect: it has no paths", "write http.paths")
		}
		for _, p := range paths {
			if a.paths++; a.paths > maxPaths {
				if a.paths == maxPaths+1 {
					p.wrong(fmt.Sprintf("the file has more than %d paths of Ingresses", maxPaths), "split the file")
				}
				return
			}
			a.path(d, host, p, hosts)
		}
	}
}

// leading are the Services of the file by which paths of an Ingress lead to the Pod.
func (a *ingressReader) leading(d ingressDoc) iter.Seq[value] {
	return func(yield func(value) bool) {
		for _, rule := range d.at("spec").at("rules").items() {
			for _, p := range rule.at("http").at("paths").items() {
				if s, why := a.service(d, p.at("backend")); why == "" && !yield(s) {
					return
				}
			}
		}
	}
}

// path adds the address of one path.
func (a *ingressReader) path(d ingressDoc, host, p value, hosts tlsHosts) {
	at := p.at("path")
	of, secure := hosts.of(host.str())
	secure = secure || d.secure
	address := "http://" + host.str() + at.str()
	if secure {
		address = "https://" + host.str() + at.str()
	}
	backend := p.at("backend")
	service, why := a.service(d, backend)
	if why != "" {
		backend.warn(fmt.Sprintf("%s is left out: %s", printableAddress(address), why), "")
		return
	}
	switch kind := p.at("pathType"); kind.str() {
	case "Prefix", "ImplementationSpecific":
	case "Exact":
		kind.wrong("pathType Exact is not supported: podtask would serve the paths below, too", "write Prefix if that is right")
		return
	default:
		if kind.present() {
			kind.word("", "Prefix", "ImplementationSpecific", "Exact")
		} else {
			p.wrong("pathType is missing", "write Prefix")
		}
		return
	}
	url, err := taskdef.ParseAddress(address)
	if err != nil {
		where := host
		if at.filled() {
			where = at
		}
		where.wrong(err.Error(), "")
		return
	}
	if line, twice := a.seen[url]; twice {
		p.wrong(fmt.Sprintf("%s is written twice, first in line %d", url, line), "keep one of them")
		return
	}
	a.seen[url] = p.line
	i := d.template
	i.URL = url.String()
	if !a.target(&i, backend, service) {
		return
	}
	if !slices.Contains(a.used[service.node], d.name) {
		if len(a.used[service.node]) == 0 {
			checker{a.report, true}.check(service, "Service")
		}
		a.used[service.node] = append(a.used[service.node], d.name)
	}
	a.certificate(&i, of.secret, url.Host)
	for _, problem := range i.Check() {
		p.wrong(problem.Text, "")
	}
	a.result.Task.Extensions.Ingress = append(a.result.Task.Extensions.Ingress, i)
}

// printableAddress is an address as part of a message.
func printableAddress(s string) string {
	if _, err := taskdef.ParseAddress(s); err != nil {
		return doctree.Quote(s)
	}
	return s
}

// service returns the Service to which a backend leads, or why it does not lead to the Pod.
func (a *ingressReader) service(d ingressDoc, backend value) (found value, why string) {
	if backend.at("resource").present() {
		return found, "its backend is no Service"
	}
	name := backend.at("service").at("name").str()
	namespace := d.at("metadata").at("namespace").str()
	s, is := a.known[serviceKey{namespace, name}]
	if !is && namespace != "" {
		s, is = a.known[serviceKey{"", name}]
	} else if !is {
		s, is = a.first[name]
	}
	if !is {
		return found, "the Service " + doctree.Quote(name) + " is not in the file"
	}
	why, known := a.whyNot[s.node]
	if !known {
		if why = a.selects(s, namespace); why != "" {
			why = "the Service " + doctree.Quote(name) + " " + why
		}
		a.whyNot[s.node] = why
	}
	return s, why
}

// selects explains why a Service does not select the Pod; "" if it does. Namespace is that of an Ingress.
func (a *ingressReader) selects(s value, namespace string) string {
	if in := cmp.Or(s.at("metadata").at("namespace").str(), namespace); in != "" && a.hasNamespace() && in != a.result.Pod.Namespace {
		return "is of another namespace than the Pod"
	}
	selector := s.at("spec").at("selector").entries()
	if len(selector) == 0 {
		return "selects no Pods"
	}
	for _, f := range selector {
		if have, is := a.labels[f.Key]; !is || have != f.Value.Text {
			return "selects other Pods"
		}
	}
	return ""
}

// hasNamespace reports whether the file says in which namespace the Pod is.
func (a *ingressReader) hasNamespace() bool {
	return a.meta.at("namespace").present() || a.owner.at("metadata").at("namespace").present()
}

// target fills in where the requests of an address go, and has the container publish the port. It reports whether
// there is such a port.
func (a *ingressReader) target(i *taskdef.Ingress, backend, service value) bool {
	want := backend.at("service").at("port")
	ports := service.at("spec").at("ports").items()
	n := slices.IndexFunc(ports, func(p value) bool {
		if name := want.at("name").str(); name != "" {
			return p.at("name").str() == name
		}
		return want.at("number").present() && p.at("port").integer(1, 65535, 0) == want.at("number").integer(1, 65535, -1)
	})
	if n < 0 {
		var known []string
		for _, p := range ports {
			known = append(known, strings.TrimSuffix(fmt.Sprint(p.at("port").integer(0, 1<<32, 0), " ", p.at("name").str()), " "))
		}
		backend.wrong("the Service "+doctree.Quote(service.at("metadata").at("name").str())+" has no such port", "write service.port with number or name: it has "+cmp.Or(strings.Join(known, ", "), "none"))
		return false
	}
	port := ports[n]
	if p := port.at("protocol"); p.word("TCP", "TCP", "UDP", "SCTP") != "TCP" {
		p.wrong("an Ingress leads to TCP ports", "")
		return false
	}
	switch p := port.at("appProtocol"); strings.ToLower(strings.TrimPrefix(p.str(), "kubernetes.io/")) {
	case "h2c", "grpc":
		i.Protocol = taskdef.ProtocolH2C
	case "https", "wss", "tls":
		p.wrong("appProtocol "+doctree.Quote(p.str())+" is not supported: podtask speaks to containers without TLS", "")
		return false
	}
	to := port.at("targetPort")
	if !to.present() {
		to = port.at("port")
	}
	container, number := a.container(to)
	if number == 0 {
		return false
	}
	i.Container, i.Port = container.Name, number
	if a.result.Task.Network != taskdef.NetworkHost && !container.Publishes(number) {
		container.Ports = append(container.Ports, taskdef.Port{ContainerPort: number, Protocol: "tcp", HostIP: "127.0.0.1"})
	}
	return true
}

// container finds the container with the port of a Service.
func (a *ingressReader) container(to value) (*taskdef.Container, uint16) {
	number := uint16(to.integer(1, 65535, 0))
	name := to.str()
	if n, err := strconv.ParseUint(name, 10, 16); err == nil {
		number, name = uint16(n), ""
	}
	var only []int
	for i := range a.containers {
		c := &a.result.Task.Containers[i]
		if a.result.Pod.isInit(c.Name) {
			continue
		}
		if !a.result.Pod.isSidecar(c.Name) {
			only = append(only, i)
		}
		for _, p := range a.containers[i].at("ports").items() {
			inner := uint16(p.at("containerPort").integer(0, 65535, 0))
			if p.at("protocol").word("TCP", "TCP", "UDP", "SCTP") == "TCP" && inner != 0 && (name != "" && p.at("name").str() == name || name == "" && inner == number) {
				return c, inner
			}
		}
	}
	switch {
	case name != "":
		to.wrong("no container of the Pod has a TCP port named "+doctree.Quote(name), "")
	case number == 0:
		to.wrong("this is no port", "")
	case len(only) == 1:
		return &a.result.Task.Containers[only[0]], number
	default:
		to.wrong(fmt.Sprintf("it is not clear which container has port %d", number), "write it in the ports of the container")
	}
	return nil, 0
}

// The annotations that podtask knows, without the name of their controller.
var (
	// nginxIdle lists the annotations that only tune a proxy; each is told as without effect.
	nginxIdle = []string{
		"client-body-buffer-size", "enable-access-log", "enable-opentelemetry", "load-balance", "proxy-buffer-size",
		"proxy-buffering", "proxy-buffers-number", "proxy-busy-buffers-size", "proxy-connect-timeout", "proxy-http-version", "proxy-max-temp-file-size",
		"proxy-next-upstream", "proxy-next-upstream-timeout", "proxy-next-upstream-tries", "proxy-request-buffering", "proxy-send-timeout", "service-upstream",
		"ssl-ciphers", "ssl-prefer-server-ciphers", "websocket-services",
	}
	// controllers are the prefixes of annotations that change what an Ingress does.
	controllers = []string{"haproxy.org", "haproxy.com", "nginx.org", "nginx.com", "konghq.com", "projectcontour.io", "appgw.ingress.kubernetes.io", "networking.gke.io"}
)

// annotations reads what annotations change about the addresses.
func (a *ingressReader) annotations(d *ingressDoc) {
	in := d.at("metadata").at("annotations")
	for _, f := range in.entries() {
		v := in.field(f)
		prefix, name, _ := strings.Cut(f.Key, "/")
		at := v.atKey(f)
		switch {
		case f.Key == "kubernetes.io/ingress.class":
			if v.str() != "podtask" {
				at.warn(f.Key+" "+doctree.Quote(v.str())+" has no effect: `podtask ingress` serves the addresses", "")
			}
		case f.Key == "kubernetes.io/tls-acme":
			d.issued = d.issued || v.str() == "true"
		case prefix == "cert-manager.io" && (name == "issuer" || name == "cluster-issuer"):
			d.issued = true
		case prefix == "nginx.ingress.kubernetes.io":
			a.nginx(d, v, at, f.Key, name)
		case f.Key == "traefik.ingress.kubernetes.io/router.tls":
			d.secure = d.secure || v.str() == "true"
		case f.Key == "traefik.ingress.kubernetes.io/router.entrypoints":
			switch v.str() {
			case "websecure":
				d.secure = true
			case "web", "web,websecure", "websecure,web":
			default:
				a.refuseAnnotation(at, f.Key)
			}
		case strings.Contains(prefix, "ingress") || slices.Contains(controllers, prefix):
			a.refuseAnnotation(at, f.Key)
		}
	}
}

// nginx reads an annotation of the controller of nginx.
func (a *ingressReader) nginx(d *ingressDoc, v, at value, key, name string) {
	switch name {
	case "proxy-body-size":
		size, err := taskdef.ParseBytes(v.str())
		if err != nil {
			v.wrong(key+": "+err.Error(), "")
		}
		d.template.MaxBody = size
	case "proxy-read-timeout":
		seconds, err := strconv.ParseUint(strings.TrimSuffix(v.str(), "s"), 10, 16)
		if err != nil || seconds == 0 {
			v.wrong(key+": "+doctree.Quote(v.str())+" is no number of seconds", "")
		}
		d.template.IdleTimeout = time.Duration(seconds) * time.Second
	case "backend-protocol":
		switch strings.ToUpper(v.str()) {
		case "HTTP":
		case "GRPC":
			d.template.Protocol = taskdef.ProtocolH2C
		default:
			v.wrong(key+" "+doctree.Quote(v.str())+" is not supported: podtask speaks HTTP or GRPC to containers, without TLS", "")
		}
	case "ssl-redirect", "force-ssl-redirect":
		if v.str() != "true" {
			at.warn(key+" has no effect: requests without TLS for an address with TLS are redirected", "")
		}
	default:
		if slices.Contains(nginxIdle, name) {
			at.warn(key+" has no effect here", "")
			return
		}
		a.refuseAnnotation(at, key)
	}
}

// refuseAnnotation reports an annotation without which the address would mean something else.
func (a *ingressReader) refuseAnnotation(at value, key string) {
	fix := "remove it if the address can do without"
	if strings.Contains(key, "/auth") {
		fix = "remove it, and protect the address with --ingress URL=CONTAINER:PORT,auth=SECRET of podtask service create"
	}
	at.wrong("the annotation "+doctree.Quote(key)+" is not supported: the address would do something else without it", fix)
}

// Leading returns the Ingresses among docs that lead to the Pod of a controller or a Pod, the Services by which they
// do, and the Secrets with their certificates. It is for those who choose documents of a file.
func Leading(workload *doctree.Node, docs []*doctree.Node) map[*doctree.Node]bool {
	found := make(map[*doctree.Node]bool)
	rep := &report{}
	m := newManifest(rep, []value{{report: rep, node: workload}})
	if !m.spec.present() {
		return found
	}
	ingresses, secrets := []value{}, map[string]*doctree.Node{}
	for _, n := range docs {
		switch v := (value{report: rep, node: n}); v.at("kind").str() {
		case "Service":
			m.services = append(m.services, v)
		case "Ingress":
			ingresses = append(ingresses, v)
		case "Secret":
			secrets[v.at("metadata").at("name").str()] = n
		}
	}
	a := newIngressReader(&reader{manifest: m})
	a.result.Pod.Namespace = namespaceOf(m.meta)
	if !m.meta.at("namespace").present() {
		a.result.Pod.Namespace = namespaceOf(m.owner.at("metadata"))
	}
	for _, doc := range ingresses {
		for s := range a.leading(ingressDoc{value: doc}) {
			found[doc.node], found[s.node] = true, true
		}
		for _, item := range doc.at("spec").at("tls").items() {
			if secret := secrets[item.at("secretName").str()]; secret != nil && found[doc.node] {
				found[secret] = true
			}
		}
	}
	return found
}
