package main

import (
	"strings"
	"testing"
)

// The source package of Debian makes packages that need and say the same as those of hack/package.
func TestControlOfTheSourcePackage(t *testing.T) {
	b := testBuild(t)
	paragraphs := strings.Split(strings.TrimSpace(read(t, b.root, "hack/package/debian/control")), "\n\n")
	if len(paragraphs) != len(parts)+1 {
		t.Fatalf("it has %d paragraphs", len(paragraphs))
	}
	for i, part := range parts {
		info := b.info(part, "deb", nil)
		text := strings.ReplaceAll(paragraphs[i+1], "${binary:Version}", info.Version)
		d := descriptions[part]
		for name, want := range map[string]string{
			"Package": part, "Architecture": "amd64 arm64", "Depends": strings.Join(append(info.Depends, "${misc:Depends}"), ", "),
			"Recommends": strings.Join(info.Recommends, ", "), "Suggests": strings.Join(info.Suggests, ", "),
			"Breaks": strings.Join(info.Deb.Breaks, ", "), "Replaces": strings.Join(info.Replaces, ", "),
			"Description": d[0],
		} {
			if got, _ := field(text, name); got != want {
				t.Errorf("%s: %s is %q, not %q", part, name, got, want)
			}
		}
		if !strings.HasSuffix(text, "\n "+strings.ReplaceAll(d[1], "\n", "\n ")) {
			t.Errorf("%s has another description", part)
		}
	}
}
