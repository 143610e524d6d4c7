package doctor_test

import (
	"strings"
	"testing"
)

func TestJournaldsRateLimitIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"the default", nil, "keeps 10000 lines of a container in 30s"},
		{"comments", map[string]string{"etc/systemd/journald.conf": "[Journal]\n#RateLimitBurst=5\n"}, "keeps 10000 lines"},
		{"configured", map[string]string{"etc/systemd/journald.conf": "[Journal]\nRateLimitBurst=500\nRateLimitIntervalSec=10s\n"}, "keeps 500 lines of a container in 10s"},
		{"a drop-in takes precedence", map[string]string{
			"etc/systemd/journald.conf":                "RateLimitBurst=500\n",
			"usr/lib/systemd/journald.conf.d/10.conf":  "RateLimitBurst=700\n",
			"etc/systemd/journald.conf.d/10.conf":      "RateLimitBurst=900\n",
			"etc/systemd/journald.conf.d/50.conf.orig": "RateLimitBurst=1\n",
		}, "keeps 900 lines"},
		{"no limit", map[string]string{"etc/systemd/journald.conf": "RateLimitIntervalSec=0\n"}, "does not limit"},
		{"no burst", map[string]string{"etc/systemd/journald.conf": "RateLimitBurst=0\n"}, "does not limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := healthy()
			p.Podman.LogDriver = "journald"
			for name, text := range tt.files {
				p.set(name, text)
			}
			found := false
			for _, f := range p.findings(t) {
				if f.Check == "journal" {
					found = strings.Contains(f.Text, tt.want)
					if !found {
						t.Errorf("it says %q, want %q", f.Text, tt.want)
					}
				}
			}
			if !found {
				t.Error("there is no such finding")
			}
		})
	}
}
