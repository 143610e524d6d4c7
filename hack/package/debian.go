package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const maintainer = "podtask maintainers <podtask@users.noreply.github.com>"

// debianFiles are the copyright and the changelog of a package, and what lintian is to accept.
func (t *treeBuilder) debianFiles() {
	part := t.parts[0]
	doc := t.prefix + "/share/doc/" + part
	t.add(file{path: doc + "/copyright", mode: 0o644, data: []byte(copyright(doc))})
	text := changelog(part, t.packageVersion(), "stable", "Version "+t.bare()+" of podtask. /usr/share/doc/podtask/CHANGELOG.md has its\n    changes.", t.date)
	t.add(file{path: doc + "/changelog.gz", mode: 0o644, data: compressed([]byte(text))})
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

// changelog is one of Debian, with one entry.
func changelog(name, version, suite, text string, date time.Time) string {
	return fmt.Sprintf("%s (%s) %s; urgency=medium\n\n  * %s\n\n -- %s  %s\n",
		name, version, suite, text, maintainer, date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

// sourceChangelog writes the changelog of the source package into a directory. Only its version depends on the commit;
// all else of the source package is in hack/package/debian.
func (b build) sourceChangelog(dir string) error {
	text := changelog("podtask", b.packageVersion()+"-1", "unstable", "Initial package. CHANGELOG.md has the changes of podtask.", b.date)
	return os.WriteFile(filepath.Join(dir, "changelog"), []byte(text), 0o644)
}

// stageDeb writes the files of each package, and its scripts, into a directory such as debian of the source package.
// debhelper adds the rest: changelog, copyright and control files.
func (b build) stageDeb(dir string) error {
	if err := b.stage(dir, debLayout()); err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Remove(filepath.Join(dir, part, "usr/share/doc", part, "changelog.gz")); err != nil {
			return err
		}
		for name, text := range scripts(part) {
			if err := os.WriteFile(filepath.Join(dir, part+"."+name), []byte(text+"\n#DEBHELPER#\n"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage writes the files of each package into a directory of its name.
func (b build) stage(dir string, l layout) error {
	for _, part := range parts {
		tree, err := b.packageTree(part, l)
		if err != nil {
			return err
		}
		for _, f := range tree {
			if err := put(filepath.Join(dir, part, f.path), f); err != nil {
				return err
			}
		}
	}
	return nil
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
