//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the signature policy refuses is not pulled, and the error says which file
// refused it and what to do. A local copy does not get around that, though it would do
// for --pull default if the registry were away. (See writePolicy.)
func TestSignaturePolicyIsHonoured(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"rejected", "unsigned"} {
		for _, pull := range []string{"always", "default"} {
			t.Run(namespace+" "+pull, func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				repository := namespace + "/" + b.repository("app")
				digest, err := bed.reg.Push(repository+":1", b.freshImage("app"))
				if err != nil {
					t.Fatal(err)
				}
				ref := bed.reg.Ref(repository + ":1")
				b.localCopy(ref)
				r := b.want(125, "run", "--name", b.family, "--pull", pull, b.hello(ref))
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
}

// localCopy gives another image, which is in local storage, the name ref.
func (b *box) localCopy(ref string) {
	b.t.Helper()
	other, _ := b.push("local-copy:1", b.freshImage("local copy"))
	b.podman("pull", "-q", "--authfile", bed.auth, other)
	b.podman("tag", other, ref)
	b.t.Cleanup(func() { b.podman("rmi", "--force", ref) })
}
