//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the signature policy refuses is not pulled, and the error says which file
// refused it and what to do. (See writePolicy.)
func TestSignaturePolicyIsHonoured(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"rejected", "unsigned"} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			repository := namespace + "/" + b.repository("app")
			digest, err := bed.reg.Push(repository+":1", b.freshImage("app"))
			if err != nil {
				t.Fatal(err)
			}
			ref := bed.reg.Ref(repository + ":1")
			r := b.want(125, "run", "--name", b.family, "--pull", "always", b.hello(ref))
			for _, want := range []string{"CannotPullContainerError", filepath.Join(home, ".config/containers/policy.json"), "podman image trust show"} {
				if !strings.Contains(r.err, want) {
					t.Errorf("it does not say %q:\n%s", want, r.err)
				}
			}
			if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
				t.Errorf("the digest is %s, want %s: to ask is allowed", got, digest)
			}
			if count(b.events(), "app PULLED") > 0 {
				t.Error("it was pulled")
			}
		})
	}
}
