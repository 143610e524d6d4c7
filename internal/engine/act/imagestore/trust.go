package imagestore

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/images"
)

// AnyImage is the answer of Trust for images without a requirement.
const AnyImage = images.AnyImage

// maxPolicy limits the size of a signature policy in bytes.
const maxPolicy = 4 << 20

// Trust returns what the signature policy of this user's Podman demands of an image, as images.Trust has it. Without a
// policy Podman pulls nothing.
func (r *Resolver) Trust(image string) string {
	ref, err := images.ParseRef(image)
	if err != nil || ref.Local() {
		return ""
	}
	for _, file := range policyFiles(r.Getenv) {
		text, err := userfile.Read(file, maxPolicy)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			var clause string
			if clause, err = images.Trust(text, ref); err == nil {
				return clause
			}
		}
		return file + ": " + err.Error()
	}
	return "there is no signature policy, so Podman pulls nothing: `podtask doctor` says what to do"
}

// policyFiles are the places of policy.json, of which Podman uses the first that exists (containers-policy.json(5)).
func policyFiles(getenv func(string) string) []string {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(getenv("HOME"), ".config")
	}
	return []string{filepath.Join(base, "containers", "policy.json"), "/etc/containers/policy.json", "/usr/share/containers/policy.json"}
}
