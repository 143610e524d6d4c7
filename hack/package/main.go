// Package makes what users install: a deb, an rpm and a tarball, or a tree below a prefix.
//
//	package -root CLONE -bin DIR -version VERSION -arch ARCH -date SECONDS dist DIR
//	package -root CLONE -bin DIR -version VERSION install|uninstall PREFIX
//	package -root CLONE -version VERSION -date SECONDS recipes|repository|checksums DIR
//
// Recipes and repository need the packages of all architectures in DIR.
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
	"os"
	"path/filepath"
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

func run() error {
	var b build
	flag.StringVar(&b.root, "root", ".", "the clone")
	flag.StringVar(&b.bin, "bin", "bin", "where the programs are")
	flag.StringVar(&b.version, "version", "", "podtask's version, such as v1.2.3")
	flag.StringVar(&b.arch, "arch", "amd64", "architecture, in the word of Go")
	date := flag.Int64("date", 0, "date of all files, in seconds since 1970")
	flag.Parse()
	b.date = time.Unix(*date, 0).UTC()
	if flag.NArg() != 2 || b.version == "" {
		return fmt.Errorf("usage: package -version VERSION [flags] dist|recipes|repository|checksums|install|uninstall DIR")
	}
	dir, err := filepath.Abs(flag.Arg(1))
	if err != nil {
		return err
	}
	switch flag.Arg(0) {
	case "dist":
		return b.dist(dir)
	case "repository": // POOL is a directory with the debs of earlier releases
		return b.repository(dir, os.Getenv("POOL"))
	case "recipes":
		return b.recipes(dir)
	case "checksums":
		return checksums(dir)
	case "install":
		return b.install(dir, os.Getenv("DESTDIR"), os.Stdout)
	case "uninstall":
		return b.uninstall(dir, os.Getenv("DESTDIR"))
	}
	return fmt.Errorf("%s: it is dist, recipes, repository, checksums, install or uninstall", flag.Arg(0))
}
