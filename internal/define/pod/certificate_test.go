package pod

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/certtest"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// tlsSecretOf is a Secret with a certificate for a name.
func tlsSecretOf(t *testing.T, name, host string) (document, key string) {
	t.Helper()
	chain, private := certtest.Pair(t, host)
	key = base64.StdEncoding.EncodeToString(private)
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n", name, base64.StdEncoding.EncodeToString(chain), key), key
}

const withTLS = `
apiVersion: v1
kind: Pod
metadata: {name: shop, labels: {app: shop}}
spec: {containers: [{name: web, image: docker.io/library/nginx, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  tls: [{hosts: [shop.example.org], secretName: shop-tls}, {hosts: ["*.example.org"]}, {hosts: [free.example.org]}, {secretName: rest-tls}]
  rules:
    - {host: shop.example.org, http: &to {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}
    - {host: www.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}
    - {host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}, {path: /a, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}
`

// The certificates of an Ingress are those of its Secrets. Their keys are in no task, and in no registered manifest.
func TestCertificatesOfSecrets(t *testing.T) {
	t.Parallel()
	own, key := tlsSecretOf(t, "shop-tls", "shop.example.org")
	rest, _ := tlsSecretOf(t, "rest-tls", "shop.test")
	text := strings.Replace(withTLS, "&to ", "", 1) + own + rest
	source := taskdef.ReadSource("shop.yaml", []byte(text))
	before, report, err := Load(source, taskdef.Settings{}, host)
	if err != nil {
		t.Fatal(err, report)
	}
	if i := slices.IndexFunc(report.Warnings, func(p taskdef.Problem) bool { return strings.Contains(p.Message, "certificate") }); i >= 0 {
		t.Errorf("a warning: %v", report.Warnings[i])
	}
	if !before.Sensitive || len(before.Secrets) != 0 {
		t.Errorf("sensitive %t, and the task is given %v", before.Sensitive, before.Secrets)
	}
	data, err := json.Marshal(before.Task)
	if err != nil || strings.Contains(string(data), key[:40]) {
		t.Errorf("the task has the key: %v", err)
	}

	stripped, contents, err := Strip([]byte(text), func(n int) string { return fmt.Sprintf("podman:kept-%d", n) })
	if err != nil || strings.Contains(string(stripped), key[:40]) || len(contents) != 4 {
		t.Fatalf("%d contents are kept, %v", len(contents), err)
	}
	after, _, err := Load(taskdef.ReadSource("shop.yaml", stripped), taskdef.Settings{}, host)
	if err != nil || after.Sensitive {
		t.Fatal(err, after.Sensitive)
	}
	want := map[string][2]string{
		"https://shop.example.org": {"podman:kept-0", "podman:kept-1"}, "https://www.example.org": {},
		"https://shop.test": {"podman:kept-2", "podman:kept-3"}, "https://shop.test/a": {"podman:kept-2", "podman:kept-3"},
	}
	for n, i := range after.Task.Extensions.Ingress {
		if have := [2]string{i.Certificate, i.CertificateKey}; have != want[i.URL] {
			t.Errorf("%s has the certificate %v, want %v", i.URL, have, want[i.URL])
		}
		if i.CertificateOfManifest() || before.Task.Extensions.Ingress[n].CertificateOfManifest() != (i.Certificate != "") {
			t.Errorf("the certificate of %s is in the manifest: %t", i.URL, i.CertificateOfManifest())
		}
		if got := before.Task.Extensions.Ingress[n]; got.URL != i.URL || (got.Certificate == "") != (i.Certificate == "") {
			t.Errorf("before it is %+v, and after %+v", got, i)
		}
	}
}

// A certificate that does not fit is refused with the host, the Secret and the names that it has. A Secret that is not in
// the file may be elsewhere on the host.
func TestCertificatesThatDoNotFit(t *testing.T) {
	t.Parallel()
	other, _ := tlsSecretOf(t, "shop-tls", "other.example.org")
	text := strings.Replace(strings.Replace(withTLS, "&to ", "", 1), ", {secretName: rest-tls}", "", 1)
	for name, c := range map[string]struct{ secret, want string }{
		"another name": {other, `the certificate of the Secret "shop-tls" cannot be used for shop.example.org: it is for "other.example.org", and not for shop.example.org`},
		"no key":       {other[:strings.Index(other, ", tls.key")] + "}\n", `the Secret "shop-tls" has no key "tls.key"`},
		"no PEM":       {"---\napiVersion: v1\nkind: Secret\nmetadata: {name: shop-tls}\nstringData: {tls.crt: x, tls.key: hunter2}\n", "it has no certificate in PEM"},
	} {
		_, _, err := Parse("shop.yaml", []byte(text+c.secret), host)
		var invalid *taskdef.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.Contains(invalid.Problems[0].Message, c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p := invalid.Problems[0]; p.Pointer != "/spec/tls/0/secretName" {
			t.Errorf("%s: it is at %s", name, p.Pointer)
		}
	}
	options := host
	options.Refs = refs.Table{{Match: "shop-tls/tls.crt", Source: "podman:crt"}, {Match: "shop-tls/tls.key", Source: "podman:key"}}
	r, _, err := Parse("shop.yaml", []byte(text), options)
	if err != nil || r.Task.Extensions.Ingress[0].Certificate != "podman:crt" || r.Task.Extensions.Ingress[0].CertificateKey != "podman:key" {
		t.Errorf("with sources: %+v, %v", r.Task.Extensions.Ingress, err)
	}
	options.Refs = options.Refs[:1]
	if _, _, err := Parse("shop.yaml", []byte(text), options); err == nil || !strings.Contains(err.Error(), "the other has none") {
		t.Errorf("with one source: %v", err)
	}
}
