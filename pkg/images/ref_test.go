package images

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/transient"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseRefNormalises(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, in, want, registry, repository, tag, digest string }{
		{"an official image lies in library", "alpine", "docker.io/library/alpine:latest", "docker.io", "library/alpine", "latest", ""},
		{"a namespace is kept", "bitnami/redis:7", "docker.io/bitnami/redis:7", "docker.io", "bitnami/redis", "7", ""},
		{"index.docker.io is docker.io", "index.docker.io/library/a", "docker.io/library/a:latest", "docker.io", "library/a", "latest", ""},
		{"a host with a port is a registry", "localhost:5000/a", "localhost:5000/a:latest", "localhost:5000", "a", "latest", ""},
		{"a host with a dot is a registry", "quay.io/team/app:1.2", "quay.io/team/app:1.2", "quay.io", "team/app", "1.2", ""},
		{"a digest needs no tag", "quay.io/a@" + someDigest, "quay.io/a@" + someDigest, "quay.io", "a", "", someDigest},
		{"tag and digest are both kept", "quay.io/a:1@" + someDigest, "quay.io/a:1@" + someDigest, "quay.io", "a", "1", someDigest},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			ref, err := ParseRef(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			got := [...]string{ref.String(), ref.Registry(), ref.Repository(), ref.Tag(), ref.Digest()}
			want := [...]string{tc.want, tc.registry, tc.repository, tc.tag, tc.digest}
			if got != want {
				t.Errorf("ParseRef(%q) = %q, want %q", tc.in, got, want)
			}
			if ref.Pinned() != (tc.digest != "") {
				t.Errorf("Pinned = %v with digest %q", ref.Pinned(), tc.digest)
			}
		})
	}
}

func TestParseRefTellsWhenDockerHubIsAssumed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"alpine": true, "alpine:3": true, "team/app": true, "team/app@" + someDigest: true,
		"docker.io/alpine": false, "docker.io/team/app:1": false, "index.docker.io/team/app": false,
		"localhost/app": false, "localhost:5000/app": false, "quay.io/app": false,
	} {
		ref, err := ParseRef(in)
		if err != nil {
			t.Fatal(err)
		}
		if ref.Short() != want {
			t.Errorf("ParseRef(%q).Short() = %v, want %v", in, ref.Short(), want)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", " ", "UPPER", "a b", "a:", "a@sha256:12", "https://quay.io/app", "docker://quay.io/app",
		strings.Repeat("a", 300), someDigest[7:],
	} {
		_, err := ParseRef(in)
		var e *Error
		if !errors.As(err, &e) || e.Class != Invalid || transient.Is(e) || e.Hint == "" {
			t.Errorf("ParseRef(%q) = %v, want a lasting error of class Invalid with a hint", in, err)
		}
	}
}

func TestParseRefHidesCredentials(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"https://bob:hunter2@quay.io/app", "bob:hunter2@quay.io/app"} {
		_, err := ParseRef(in)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseRef(%q) = %v, want an error without the password", in, err)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"a", "a:1", "quay.io/a/b:1@" + someDigest, "localhost:1/x", "[::1]:5/a", "https://u:p@h/x", "\x00", "A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseRef(s)
		if err != nil {
			if ref != (Ref{}) {
				t.Fatalf("an error and a value: %+v", ref)
			}
			return
		}
		if ref.Registry() == "" || ref.Repository() == "" || ref.Tag() == "" && ref.Digest() == "" {
			t.Fatalf("ParseRef(%q) left a gap: %+v", s, ref)
		}
		// The normalised form names its registry, so it is never short.
		again, err := ParseRef(ref.String())
		ref.short = false
		if err != nil || again != ref {
			t.Fatalf("ParseRef(%q) = %+v, %v; want %+v", ref, again, err, ref)
		}
	})
}
