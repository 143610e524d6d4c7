package taskdef

import (
	"strings"
	"testing"
	"time"
)

// A check by HTTP is a probe of Kubernetes, which needs no program in the image.
func TestHTTPHealthCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url    string
		secure bool
		port   uint16
		path   string
	}{
		{"http://localhost", false, 80, ""},
		{"http://localhost/", false, 80, "/"},
		{"https://localhost/up", true, 443, "/up"},
		{"https://localhost:8443/up?a=b%20c", true, 8443, "/up?a=b%20c"},
	} {
		task, _, err := Parse("f", []byte(minimal("", `"x-podtask": {"httpHealthCheck": "`+tt.url+`"},`)))
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		p := task.Containers[0].Extensions.Probes.Readiness
		if a := p.Action.HTTP; a.HTTPS != tt.secure || a.Port != tt.port || a.Path != tt.path || a.Host != "" {
			t.Errorf("%s is %+v", tt.url, a)
		}
		if !task.Containers[0].HasHealth() || p.Period != 10*time.Second || p.FailureThreshold != 3 {
			t.Errorf("%s: %+v", tt.url, p)
		}
	}
	for url, want := range map[string]string{
		"http://example.org/":         "is not the URL of a health check",
		"http://localhost.evil.org/":  "is not the URL of a health check",
		"http://localhost:80@evil/":   "is not the URL of a health check",
		"http://localhost/a b":        "is not the URL of a health check",
		"http://localhost/\\r\\nX: y": "is not the URL of a health check",
		"http://localhost//host/up":   "is not the URL of a health check",
		"http://localhost/a#b":        "is not the URL of a health check",
		"localhost:80":                "is not the URL of a health check",
		"http://localhost:0/":         "is not 1 to 65535",
		"http://localhost:65536/":     "is not 1 to 65535",
		"http://localhost:99999999/":  "is not 1 to 65535",
	} {
		_, _, err := Parse("f", []byte(minimal("", `"x-podtask": {"httpHealthCheck": "`+url+`"},`)))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "httpHealthCheck") {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
	_, _, err := Parse("f", []byte(minimal("", `"healthCheck": {"command": ["CMD", "true"]}, "x-podtask": {"httpHealthCheck": "http://localhost/"},`)))
	if err == nil || !strings.Contains(err.Error(), "either a healthCheck or an httpHealthCheck") {
		t.Errorf("both: %v", err)
	}
	task := `{"family": "f", "containerDefinitions": [{"name": "a", "image": "i", "x-podtask": {"httpHealthCheck": "http://localhost/"}}, {"name": "b", "image": "i", "dependsOn": [{"containerName": "a", "condition": "HEALTHY"}]}]}`
	if _, _, err := Parse("f", []byte(task)); err != nil {
		t.Errorf("a container that waits for it: %v", err)
	}
}
