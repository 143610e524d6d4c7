package main

import (
	"fmt"
	"slices"
	"strings"
)

const maintainer = "podtask maintainers <podtask@users.noreply.github.com>"

// debianFiles are the copyright and the changelog of a package, and what lintian is to accept.
func (t *treeBuilder) debianFiles() {
	part := t.parts[0]
	doc := t.prefix + "/share/doc/" + part
	t.add(file{path: doc + "/copyright", mode: 0o644, data: []byte(copyright(doc))})
	t.add(file{path: doc + "/changelog.gz", mode: 0o644, data: compressed([]byte(t.changelog(part)))})
	t.add(file{path: t.prefix + "/share/lintian/overrides/" + part, mode: 0o644, data: []byte(overrides(part))})
}

func copyright(doc string) string {
	return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: podtask
Source: https://github.com/podtask/podtask
Comment:
 The programs contain modules of others. Their licenses are in
 ` + doc + `/THIRD-PARTY-LICENSES.

Files: *
Copyright: 2026 the podtask authors
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
`
}

// changelog is Debian's, which leads to that of the project.
func (t *treeBuilder) changelog(part string) string {
	return fmt.Sprintf(`%s (%s) stable; urgency=medium

  * Version %s of podtask. /usr/share/doc/podtask/CHANGELOG.md has its
    changes.

 -- %s  %s
`, part, t.packageVersion(), t.bare(), maintainer, t.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

// accepted are the findings of lintian that are meant to be so, with the reason.
// Those of the empty name are for each package.
var accepted = map[string][][2]string{
	"": {
		{"statically-linked-binary", "Go programs without cgo are static; they need nothing of the distribution but Podman."},
		{"maintainer-script-calls-systemctl *", "Running managers of users are told to look for units. There is no helper for that."},
	},
}

func overrides(part string) string {
	var b strings.Builder
	for _, o := range slices.Concat(accepted[""], accepted[part]) {
		fmt.Fprintf(&b, "# %s\n%s: %s\n", o[1], part, o[0])
	}
	return b.String()
}
