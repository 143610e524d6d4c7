//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/certtest"
	"github.com/podtask/podtask/test/testbed"
)

// manifestOnline is a Deployment with what leads to it in a cluster.
const manifestOnline = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "@NAME"}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
        - name: app
          image: "@IMAGE"
          imagePullPolicy: IfNotPresent
          args: [serve, "8080"]
          env: [{name: GREETING, value: shop}]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{name: web, port: 80, targetPort: http}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: nginx
  tls: [{hosts: [shop.localhost]}]
  rules:
    - host: shop.localhost
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: shop, port: {name: web}}}}
          - {path: /blog, pathType: Prefix, backend: {service: {name: blog, port: {number: 80}}}}
    - host: nowhere.invalid
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
`

// The Ingress of a manifest becomes addresses of the service; import chooses the same documents; ps, plan and
// status show them, and status says what others reach.
func TestIngressOfAManifest(t *testing.T) {
	b := newBox(t)
	b.agent()
	text := strings.NewReplacer("@NAME", b.family, "@IMAGE", b.testbox()).Replace(manifestOnline[1:])
	file := b.file("shop.yaml", text)
	unsupported := b.file("rewrite.yaml", strings.Replace(text, "kind: Ingress\nmetadata: {name: shop}", "kind: Ingress\nmetadata: {name: shop, annotations: {nginx.ingress.kubernetes.io/rewrite-target: /}}", 1))
	if r := b.start("service", "create", b.family, unsupported, "--count=2").wait(); r.code == 0 || !strings.Contains(r.err, "rewrite-target") {
		t.Errorf("an annotation that podtask does not know: %d, %s", r.code, r.err)
	}

	imported := b.want(0, "import", file, "--output="+filepath.Join(b.dir, "imported"))
	create := next(t, imported)
	if !slices.Contains(create, "--count") {
		t.Fatalf("import prints %v", create)
	}
	plan := b.want(0, "plan", create[3])
	if !strings.Contains(plan.out, "https://shop.localhost") || !strings.Contains(plan.out, "http://nowhere.invalid") {
		t.Errorf("plan printed %s", plan.out)
	}
	created := b.want(0, append(create, "--timeout=4m")...)
	for _, want := range []string{"https://shop.localhost/blog is left out", `ingressClassName "nginx"`} {
		if !strings.Contains(created.err+imported.err, want) {
			t.Errorf("neither import nor create says %q: %s %s", want, imported.err, created.err)
		}
	}

	u := ingressProxy{plain: freePort(t), secure: freePort(t)}
	proxy := b.start("ingress", "serve", fmt.Sprintf("--http=0.0.0.0:%d", u.plain), fmt.Sprintf("--https=127.0.0.1:%d", u.secure))
	t.Cleanup(func() { proxy.end() })
	eventually(t, "a proxy that answers", func() bool { return b.start("ingress", "ls").wait().code == 0 })
	c := u.client(b)
	eventually(t, "an answer of a copy", func() bool {
		answer, err := askURL(c, "https://shop.localhost")
		return err == nil && answer == "shop"
	})

	var tasks []struct {
		Name      string
		Addresses []string
		Ports     []struct{ HostIP string }
	}
	if err := json.Unmarshal([]byte(b.want(0, "ps", "--format=json").out), &tasks); err != nil || len(tasks) != 2 {
		t.Fatalf("ps shows %v, %v", tasks, err)
	}
	for _, k := range tasks {
		if !slices.Contains(k.Addresses, "https://shop.localhost") || !slices.Contains(k.Addresses, "http://nowhere.invalid") {
			t.Errorf("the addresses of %s are %v", k.Name, k.Addresses)
		}
		if len(k.Ports) != 1 || k.Ports[0].HostIP != "127.0.0.1" {
			t.Errorf("the ports of %s are %v, want one of the loopback", k.Name, k.Ports)
		}
	}
	if r := b.want(0, "ps", "-o", "wide", "--no-trunc"); !strings.Contains(r.out, "ADDRESSES") || !strings.Contains(r.out, "https://shop.localhost") {
		t.Errorf("ps -o wide printed %s", r.out)
	}

	var s struct {
		Outside struct {
			Unreachable []string
			Names       []struct{ Name, Problem string }
		}
	}
	if err := json.Unmarshal([]byte(b.want(0, "ingress", "status", "--format=json").out), &s); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Outside.Unreachable, fmt.Sprintf("127.0.0.1:%d: only this host reaches the loopback", u.secure)) {
		t.Errorf("unreachable are %q, want the listener on the loopback", s.Outside.Unreachable)
	}
	for name, want := range map[string]string{"nowhere.invalid": "resolve", "shop.localhost": "itself"} {
		if !slices.ContainsFunc(s.Outside.Names, func(n struct{ Name, Problem string }) bool {
			return n.Name == name && strings.Contains(n.Problem, want)
		}) {
			t.Errorf("names that do not lead here: %v, want %s", s.Outside.Names, name)
		}
	}
	reached := !slices.ContainsFunc(s.Outside.Unreachable, func(at string) bool { return strings.HasPrefix(at, fmt.Sprintf("0.0.0.0:%d:", u.plain)) })
	if asked := asksFrom(ownAddress(t), u.plain); !reached || !asked {
		t.Errorf("the listener for all addresses: status says reached: %t, %q, and a request from outside is answered: %t", reached, s.Outside.Unreachable, asked)
	}
	if r := b.want(0, "ingress", "status"); !strings.Contains(r.out, "Outside") || !strings.Contains(r.out, "only this host reaches the loopback") {
		t.Errorf("status printed %s", r.out)
	}

	b.want(0, "service", "update", b.family, "--ingress=none")
	testbed.Until(func() bool { return !strings.Contains(b.want(0, "ps", "--format=json").out, "shop.localhost") })
	b.removeService()
	if _, err := os.Stat(create[3]); err != nil {
		t.Error(err)
	}
}

// asksFrom reports whether the address of a service without TLS is served at an address of this host.
func asksFrom(at string, port int) bool {
	r, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/env/GREETING", net.JoinHostPort(at, fmt.Sprint(port))), strings.NewReader("hello"))
	if err != nil {
		return false
	}
	r.Host = "nowhere.invalid"
	answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// certificateSecret is the Secret of a manifest with a certificate for a name, and its chain and key.
func certificateSecret(t *testing.T, host string) (document string, chain, key []byte) {
	chain, key = certtest.Pair(t, host)
	document = fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: shop-tls}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n",
		base64.StdEncoding.EncodeToString(chain), base64.StdEncoding.EncodeToString(key))
	return document, chain, key
}

// The certificate of an Ingress is that of its Secret. Its key is for the proxy only, another one replaces it without a
// lost request, and one for another host is refused.
func TestIngressOfAManifestWithItsCertificate(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	text := strings.NewReplacer("@NAME", b.family, "@IMAGE", b.testbox(), "tls: [{hosts: [shop.localhost]}]", "tls: [{hosts: [shop.localhost], secretName: shop-tls}]").Replace(manifestOnline[1:])
	other, _, _ := certificateSecret(t, "other.localhost")
	if r := b.podtask("service", "create", b.family, b.file("other.yaml", text+other)); r.code == 0 || !strings.Contains(r.err, `it is for "other.localhost", and not for shop.localhost`) {
		t.Errorf("a certificate for another host: %d, %s", r.code, r.err)
	}
	own, first, firstKey := certificateSecret(t, "shop.localhost")
	again, second, secondKey := certificateSecret(t, "shop.localhost")
	created := b.want(0, "service", "create", b.family, b.file("shop.yaml", text+own), "--count=1", "--wait", "--timeout=4m")
	if strings.Contains(created.err, "secretName") {
		t.Errorf("create warns: %s", created.err)
	}
	if b.oldPodman() { // it does not return the value of a secret
		eventually(t, "what is missing", func() bool { return strings.Contains(b.want(0, "service", "inspect", b.family).out, "this needs 4.7") })
		b.removeService()
		b.want(0, "taskdef", "deregister", b.family+":1")
		return
	}
	proxy := b.ingressProxy()
	client := func(chains ...[]byte) *http.Client {
		c, roots := proxy.client(b), x509.NewCertPool()
		for _, chain := range chains {
			roots.AppendCertsFromPEM(chain)
		}
		c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
		c.Transport.(*http.Transport).DisableKeepAlives = true
		return c
	}
	eventually(t, "an answer with the certificate of the Secret", func() bool {
		answer, err := askURL(client(first), "https://shop.localhost")
		return err == nil && answer == "shop"
	})
	var rows []struct {
		URL         string
		Certificate struct{ Issuer, File string }
	}
	if err := json.Unmarshal([]byte(b.want(0, "ingress", "ls", "--format=json").out), &rows); err != nil {
		t.Fatal(err)
	}
	before := ""
	for _, r := range rows {
		if r.URL == "https://shop.localhost" {
			before = r.Certificate.File
			if info, err := os.Stat(before); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(r.Certificate.Issuer, "podman:") {
				t.Errorf("the certificate is %+v, %v", r.Certificate, err)
			}
		}
	}

	end := askSteadily(t, client(first, second), "https://shop.localhost")
	b.want(0, "service", "update", b.family, b.file("again.yaml", text+again), "--wait", "--timeout=4m")
	eventually(t, "the certificate of the second Secret", func() bool { _, err := askURL(client(second), "https://shop.localhost"); return err == nil })
	end()
	agent.kill()
	b.agent()
	eventually(t, "a service that is followed", func() bool { return b.podtask("why", b.family).code == 0 })
	if _, err := askURL(client(second), "https://shop.localhost"); err != nil {
		t.Errorf("with another agent: %v", err)
	}
	if _, err := os.Stat(before); !os.IsNotExist(err) {
		t.Errorf("the file of the first: %v", err)
	}

	b.want(0, "service", "update", b.family, "--ingress=none")
	eventually(t, "no file with a certificate", func() bool {
		left, err := os.ReadDir(filepath.Dir(before))
		return err == nil && len(left) == 0
	})
	for _, key := range [][]byte{firstKey, secondKey} {
		line := strings.Split(string(key), "\n")[1]
		b.filesWithout(line, b.stateHome())
		b.filesWithout(base64.StdEncoding.EncodeToString(key)[:64], b.stateHome())
		for _, said := range []string{b.want(0, "service", "inspect", b.family).out, b.want(0, "taskdef", "show", b.family).out, agent.err.String()} {
			if strings.Contains(said, line) {
				t.Errorf("the key is in %s", said)
			}
		}
	}
	b.removeService()
	b.want(0, "taskdef", "deregister", b.family+":1")
	b.want(0, "taskdef", "deregister", b.family+":2")
}
