package taskdef_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://app.example.org":                      "https://app.example.org",
		"HTTPS://App.Example.ORG./":                    "https://app.example.org",
		"http://localhost/a/b/":                        "http://localhost/a/b",
		"https://*.example.org/x":                      "https://*.example.org/x",
		"https://[2001:DB8::1]":                        "https://[2001:db8::1]",
		"http://192.0.2.1/":                            "http://192.0.2.1",
		"https://xn--bcher-kva.example":                "https://xn--bcher-kva.example",
		"ftp://example.org":                            "",
		"example.org":                                  "",
		"https://":                                     "",
		"https://example.org:8443":                     "",
		"https://example.org:":                         "",
		"https://user@example.org":                     "",
		"https://example.org/?q":                       "",
		"https://example.org/?":                        "",
		"https://example.org/#f":                       "",
		"https://a.*.example.org":                      "",
		"https://*":                                    "",
		"https://-x.example.org":                       "",
		"https://bücher.example":                       "",
		"https://example.org/a/../b":                   "",
		"https://example.org//b":                       "",
		"https://example.org/a%2fb":                    "",
		"https://example.org/a b":                      "",
		"https://example.org/a\\b":                     "",
		"https://example.org/*":                        "",
		"https://[fe80::1%25eth0]/":                    "",
		"https://" + strings.Repeat("a.", 130) + "org": "",
	} {
		a, err := taskdef.ParseAddress(text)
		switch {
		case err != nil && want != "":
			t.Errorf("%s: %v", text, err)
		case err == nil && (want == "" || a.String() != want):
			t.Errorf("%s: %s, want %q", text, a, want)
		}
		if err == nil {
			if again, err := taskdef.ParseAddress(a.String()); err != nil || again != a {
				t.Errorf("%s is read back as %v, %v", a, again, err)
			}
		}
	}
}

func TestParseIngress(t *testing.T) {
	t.Parallel()
	i, err := taskdef.ParseIngress("https://app.example.org/api=web:80,protocol=h2c,max-body=10m,read-timeout=30s,idle-timeout=2h,certificate=/c.pem,certificate-key=/k.pem,auth=podman:users")
	want := taskdef.Ingress{
		URL: "https://app.example.org/api", Container: "web", Port: 80, Protocol: "h2c", MaxBody: 10 << 20, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Hour,
		Certificate: "/c.pem", CertificateKey: "/k.pem", Auth: "podman:users",
	}
	if err != nil || i != want || len(i.Check()) != 0 {
		t.Errorf("%+v, %v, %v", i, err, i.Check())
	}
	for text, want := range map[string]string{
		"https://a.example.org":                             "URL=CONTAINER:PORT",
		"https://a.example.org=web":                         "URL=CONTAINER:PORT",
		"https://a.example.org=web:0":                       "URL=CONTAINER:PORT",
		"https://a.example.org=web:80,maxbody=1":            "no option",
		"https://a.example.org=web:80,max-body":             "no value",
		"https://a.example.org=web:80,max-body=x":           "number of bytes",
		"https://a.example.org=web:80,max-body=9999999999g": "number of bytes",
		"https://a.example.org=web:80,read-timeout=1":       "missing unit",
	} {
		if _, err := taskdef.ParseIngress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestCheckIngress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a.example.org=web:80":                        "",
		"https://*.example.org=web:80,certificate=internal":   "",
		"https://*.app.localhost=web:80":                      "",
		"http://a.example.org=web:80,certificate=internal":    "no certificate",
		"https://a.example.org=web:80,certificate=x.pem":      "absolute path",
		"https://a.example.org=web:80,certificate=/x.pem":     "both or none",
		"https://a.example.org=web:80,certificate-key=/x.pem": "both or none",
		"https://a.example.org=web:80,auth=secret":            "podman:NAME",
		"https://a.example.org=web:80,protocol=h3":            "protocol",
		"https://a.example.org=web:80,read-timeout=25h":       "24 h",
		"https://a.example.org=web:80,idle-timeout=1500ms":    "whole seconds",
	} {
		i, err := taskdef.ParseIngress(text)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, p := range i.Check() {
			said = append(said, p.Text)
		}
		if all := strings.Join(said, "; "); (all == "") != (want == "") || !strings.Contains(all, want) {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
	}
}

func TestIssuer(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://app.example.org": "acme", "https://localhost": "internal", "https://app.localhost": "internal", "https://db.internal": "internal",
		"https://nas": "internal", "https://192.0.2.1": "internal", "https://testing.example.org": "acme", "https://notlocalhost.org": "acme",
	} {
		a, err := taskdef.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := (taskdef.Ingress{}).Issuer(a); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func FuzzParseIngress(f *testing.F) {
	f.Add("https://*.app.example.org/api=web:80,protocol=h2c,max-body=10m")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := taskdef.ParseIngress(text)
		if err != nil {
			return
		}
		if len(i.Check()) > 0 {
			return
		}
		a, err := taskdef.ParseAddress(i.URL)
		if err != nil {
			t.Fatalf("%s passes the check: %v", i.URL, err)
		}
		if again, err := taskdef.ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%s is read back as %v, %v", a, again, err)
		}
	})
}

// A definition has addresses, and each problem of them has its place.
func TestIngressOfADefinition(t *testing.T) {
	t.Parallel()
	doc := func(ingress string) []byte {
		return []byte(`{"family": "web", "containerDefinitions": [{"name": "app", "image": "localhost/app", "memory": 64, "portMappings": [{"containerPort": 80}]}], "x-podtask": {"ingress": ` + ingress + `}}`)
	}
	task, _, err := taskdef.Parse("web.json", doc(`[{"url": "https://app.example.org", "containerName": "app", "containerPort": 80, "maxBody": "10m", "readTimeout": 30}]`))
	want := taskdef.Ingress{URL: "https://app.example.org", Container: "app", Port: 80, MaxBody: 10 << 20, ReadTimeout: 30 * time.Second}
	if err != nil || len(task.Extensions.Ingress) != 1 || task.Extensions.Ingress[0] != want {
		t.Errorf("%+v, %v", task.Extensions.Ingress, err)
	}
	for text, place := range map[string]string{
		`{}`: "/x-podtask/ingress",
		`[{"url": "https://a.example.org:8443", "containerName": "app", "containerPort": 80}]`:                    "/x-podtask/ingress/0/url",
		`[{"url": "https://a.example.org", "containerName": "app", "containerPort": 70000}]`:                      "/x-podtask/ingress/0/containerPort",
		`[{"url": "https://a.example.org", "containerName": "db", "containerPort": 80}]`:                          "/x-podtask/ingress/0",
		`[{"url": "https://a.example.org", "containerName": "app", "containerPort": 80, "maxBody": "ten"}]`:       "/x-podtask/ingress/0/maxBody",
		`[{"url": "https://a.example.org", "containerName": "app", "containerPort": 80, "auth": "arn:aws:x"}]`:    "/x-podtask/ingress/0/auth",
		`[{"url": "https://a.example.org", "containerName": "app", "containerPort": 80, "certificat": "acme"}]`:   "/x-podtask/ingress/0/certificat",
		`[{"url": "https://a.example.org", "containerName": "app", "containerPort": 80, "readTimeout": 1000000}]`: "/x-podtask/ingress/0/readTimeout",
	} {
		_, _, err := taskdef.Parse("web.json", doc(text))
		var invalid *taskdef.InvalidError
		if !errors.As(err, &invalid) || invalid.Problems[0].Pointer != place {
			t.Errorf("%s: %v, want a problem at %s", text, err, place)
		}
	}
}
