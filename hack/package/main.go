// Package makes what users install: a deb, an rpm and a tarball, or a tree below a prefix.
//
//	package -root CLONE -bin DIR -version VERSION -arch ARCH -date SECONDS dist DIR
//	package -root CLONE -bin DIR -version VERSION install|uninstall PREFIX
//	package -root CLONE -bin DIR -version VERSION -arch ARCH -date SECONDS stage-deb|stage-rpm DIR
//	package -root CLONE -version VERSION -date SECONDS recipes|repository|checksums|changelog|provenance DIR
//
// Recipes and repository need the packages of all architectures in DIR. The stages are the files of each package in a
// directory of its own, for those who build packages from the source with the tools of a distribution.
//
// The same input makes the same bytes: no file has the time, the user or the paths of the
// build. It is a module of its own, because its libraries are not podtask's.
//
// # Decisions
//
// A package is a part of one tree (hack/package, parts): podtask, and the two programs that few hosts need. They
// need podtask in exactly their version, because they speak its API and read its records. The ingress proxy is in
// podtask: a flag of a common command starts it.
//
// Scripts of packages read /proc and print. They start and stop nothing of a user: only he knows when a restart
// suits, and the next process of any version takes over his tasks.
//
// A release is a directory that is complete without a server: packages, a repository for apt, recipes, checksums.
// The same commit makes the same bytes, so everybody can compare; signatures come last, by gpg, so that the key may
// be on a card.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// build is what is packaged.
type build struct {
	// root is the clone, bin has the programs.
	root, bin string
	// version is podtask's, such as v1.2.3; arch is Go's word.
	version, arch string
	// date is that of all files.
	date time.Time
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// verbs maps the first argument to its function, which takes a directory. The build tag install leaves out those that
// need the libraries of deb and rpm: the others install, and the source package of Debian has their few modules.
var verbs = map[string]func(b build, dir string) error{
	"changelog":  build.sourceChangelog,
	"checksums":  func(_ build, dir string) error { return checksums(dir) },
	"install":    func(b build, prefix string) error { return b.install(prefix, os.Getenv("DESTDIR"), os.Stdout) },
	"provenance": build.writeProvenance,
	"recipes":    build.recipes,
	"stage-deb":  build.stageDeb,
	"stage-rpm":  func(b build, dir string) error { return b.stage(dir, rpmLayout()) },
	"uninstall":  func(b build, prefix string) error { return b.uninstall(prefix, os.Getenv("DESTDIR")) },
}

func run() error {
	var b build
	flag.StringVar(&b.root, "root", ".", "the clone")
	flag.StringVar(&b.bin, "bin", "bin", "where the programs are")
	flag.StringVar(&b.version, "version", "", "podtask's version, such as v1.2.3")
	flag.StringVar(&b.arch, "arch", "amd64", "architecture, in the word of Go")
	date := flag.Int64("date", 0, "date of all files, in seconds since 1970")
	flag.Parse()
	b.date = time.Unix(*date, 0).UTC()
	names := strings.Join(slices.Sorted(maps.Keys(verbs)), "|")
	if flag.NArg() != 2 || b.version == "" {
		return fmt.Errorf("usage: package -version VERSION [flags] %s DIR", names)
	}
	do, ok := verbs[flag.Arg(0)]
	if !ok {
		return fmt.Errorf("%s: it is one of %s", flag.Arg(0), names)
	}
	dir, err := filepath.Abs(flag.Arg(1))
	if err != nil {
		return err
	}
	return do(b, dir)
}

// bare is the version without its v.
func (b build) bare() string { return strings.TrimPrefix(b.version, "v") }

// packageVersion is the version as packages compare them: what comes before a release has
// a tilde, what comes after it a plus sign.
func (b build) packageVersion() string {
	v := b.bare()
	core, rest, found := strings.Cut(v, "-")
	if !found {
		return v
	}
	mark := "~"
	if after := strings.Split(strings.TrimSuffix(rest, "-dirty"), "-"); len(after) == 2 && strings.HasPrefix(after[1], "g") || rest == "dirty" {
		mark = "+" // git describe: commits since the tag
	}
	return core + mark + strings.ReplaceAll(rest, "-", ".")
}
