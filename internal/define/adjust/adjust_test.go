package adjust

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestParsePublish(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]taskdef.Port{
		"80":                  {ContainerPort: 80, Protocol: "tcp"},
		"8080:80":             {ContainerPort: 80, HostPort: 8080, Protocol: "tcp"},
		"53:53/udp":           {ContainerPort: 53, HostPort: 53, Protocol: "udp"},
		"127.0.0.1:8080:80":   {ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: "tcp"},
		"127.0.0.1::80":       {ContainerPort: 80, HostIP: "127.0.0.1", Protocol: "tcp"},
		"[::1]:8080:80":       {ContainerPort: 80, HostPort: 8080, HostIP: "::1", Protocol: "tcp"},
		"9000-9002:8000-8002": {ContainerPort: 8000, ContainerPortEnd: 8002, HostPort: 9000, Protocol: "tcp"},
	} {
		if got, err := parsePublish(word); err != nil || got != want {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
	for _, bad := range []string{"", "0", "http", "80/sctp", "80/", "1:2:3:4", "::1:80:80", "[::1:80:80", "9000-9001:80", "70000", "9-8", "localhost:80:80"} {
		if got, err := parsePublish(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, got)
		}
	}
	for _, far := range []string{"80:99999", "70000", "65536-65540:1-5"} {
		if _, err := parsePublish(far); err == nil || !strings.Contains(err.Error(), "is not one of 1 to 65535") {
			t.Errorf("%q: %v", far, err)
		}
	}
}

func FuzzPublish(f *testing.F) {
	for _, s := range []string{"80", "127.0.0.1:8080:80/udp", "[::1]::1-2", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		p, err := parsePublish(word)
		if err == nil && (p.ContainerPort == 0 || p.Protocol == "" || p.Count() < 1) {
			t.Errorf("%q: %+v", word, p)
		}
	})
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]int64{"0": 0, "1024": 1024, "7b": 7, "512m": 512 << 20, "2G": 2 << 30, "1t": 1 << 40, "1.5g": 3 << 29} {
		if got, err := ParseSize(word); err != nil || got != want {
			t.Errorf("%q: %d, %v", word, got, err)
		}
	}
	for _, bad := range []string{"", "m", "-1", "5x", "much"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q is taken for %d", bad, got)
		}
	}
}

func TestAddSecret(t *testing.T) {
	t.Parallel()
	db := taskdef.SecretValue{ValueFrom: "podman:db", Source: "podman:db"}
	tests := []struct {
		word string
		want taskdef.Adjustments
	}{
		{"db,type=env,target=DB_PASS", taskdef.Adjustments{Secrets: []taskdef.Secret{{Name: "DB_PASS", SecretValue: db}}}},
		{"db,type=env", taskdef.Adjustments{Secrets: []taskdef.Secret{{Name: "db", SecretValue: db}}}},
		{"db", taskdef.Adjustments{SecretFiles: []taskdef.SecretFile{{Path: "/run/secrets/db", Mode: 0o444, SecretValue: db}}}},
		{"db,target=/etc/p,mode=0400,uid=5,gid=6", taskdef.Adjustments{SecretFiles: []taskdef.SecretFile{{Path: "/etc/p", Mode: 0o400, UID: 5, GID: 6, SecretValue: db}}}},
	}
	for _, tt := range tests {
		var got taskdef.Adjustments
		if err := addSecret(&got, tt.word); err != nil {
			t.Errorf("%q: %v", tt.word, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.word, diff)
		}
	}
	for _, bad := range []string{"", ",type=env", "db,type=file", "db,env", "db,mode=rw", "db,mode=7777", "db,type=env,uid=1", "db,size=1"} {
		if err := addSecret(&taskdef.Adjustments{}, bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
