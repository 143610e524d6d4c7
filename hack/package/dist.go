//go:build !install

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func init() {
	verbs["dist"] = build.dist
	verbs["repository"] = func(b build, dir string) error { return b.repository(dir, os.Getenv("POOL")) }
}

// dist writes the packages, the list of what is in them, and their checksums.
func (b build) dist(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	sbom, err := b.sbom(parts)
	if err != nil {
		return err
	}
	made := map[string][]byte{fmt.Sprintf("podtask-%s-%s.cdx.json", b.bare(), b.arch): sbom}
	for _, part := range parts {
		for format, l := range map[string]layout{"deb": debLayout(), "rpm": rpmLayout()} {
			name, data, err := b.pack(part, format, l)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", format, part, err)
			}
			made[name] = data
		}
	}
	name, data, err := b.tarball(sbom)
	if err != nil {
		return err
	}
	made[name] = data
	for name, data := range made {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return checksums(dir)
}

// pack makes the package of a part.
func (b build) pack(part, format string, l layout) (string, []byte, error) {
	tree, err := b.packageTree(part, l)
	if err != nil {
		return "", nil, err
	}
	stage, err := os.MkdirTemp("", "podtask-package")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(stage)
	var contents files.Contents
	for i, f := range tree {
		c := &files.Content{Destination: f.path, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: b.date}}
		if f.target != "" {
			c.Type, c.Source = files.TypeSymlink, f.target
		} else {
			c.Source = filepath.Join(stage, fmt.Sprint(i))
			if err := os.WriteFile(c.Source, f.data, 0o644); err != nil {
				return "", nil, err
			}
		}
		if format == "rpm" && f.target == "" {
			c.Type = rpmType(l, f.path)
		}
		contents = append(contents, c)
	}
	if format == "rpm" {
		contents = append(contents, b.directories(tree)...)
	}
	info := b.info(part, format, contents)
	for name, text := range scripts(part) {
		if err := os.WriteFile(filepath.Join(stage, name), []byte(text), 0o755); err != nil {
			return "", nil, err
		}
	}
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(stage, "postinst"), PreRemove: filepath.Join(stage, "prerm"), PostRemove: filepath.Join(stage, "postrm"),
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", nil, err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", nil, err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return "", nil, err
	}
	return packager.ConventionalFileName(info), out.Bytes(), nil
}

// rpmType returns the type of a file in an rpm: document, license, or a plain file.
func rpmType(l layout, path string) string {
	switch {
	case strings.HasPrefix(path, l.prefix+"/share/licenses/"):
		return files.TypeRPMLicence
	case strings.HasPrefix(path, l.prefix+"/share/doc/"), strings.HasPrefix(path, l.prefix+"/share/man/"):
		return files.TypeRPMDoc
	}
	return files.TypeFile
}

// directories returns the directories that only this package has files in. An rpm lists them, so that they are removed
// with it.
func (b build) directories(tree []file) files.Contents {
	var paths []string
	for _, f := range tree {
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			if slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
				return slices.Contains(parts, name) || strings.HasSuffix(name, ".scope.d")
			}) {
				paths = append(paths, dir)
			}
		}
	}
	slices.Sort(paths)
	var all files.Contents
	for _, dir := range slices.Compact(paths) {
		all = append(all, &files.Content{
			Type: files.TypeDir, Destination: dir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: b.date},
		})
	}
	return all
}

// descriptions are the summary of each package, and what else there is to say.
var descriptions = map[string][2]string{
	"podtask": {"run ECS-style tasks on rootless Podman", "podtask runs Amazon ECS task definitions and Kubernetes Pods on one machine, as\n" +
		"an ordinary user: containers in the order of their dependencies, health checks,\n" +
		"limits, a queue, systemd units, and services with rolling updates and HTTPS\n" +
		"addresses."},
	"podtask-ecs": {"make this host a container instance of an Amazon ECS cluster", "ECS schedules and podtask runs: the host joins a cluster as an external\n" +
		"instance (ECS Anywhere), without root."},
	"podtask-kubelet": {"make this host a node of a Kubernetes cluster", "A kubelet whose Pods podtask runs on rootless Podman, without root."},
}

func (b build) info(part, format string, contents files.Contents) *nfpm.Info {
	d := descriptions[part]
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: part, Arch: b.arch, Platform: "linux", Version: b.packageVersion(), VersionSchema: "none", MTime: b.date,
		Section: "admin", Priority: "optional", Maintainer: maintainer,
		Homepage: "https://github.com/podtask/podtask", License: "Apache-2.0", Description: d[0] + "\n" + d[1],
		Overridables: nfpm.Overridables{Contents: contents},
	})
	switch {
	case format == "deb" && part == "podtask":
		info.Depends = []string{"podman (>= 4.3)"}
		info.Recommends = []string{"uidmap", "passt | slirp4netns", "catatonit", "dbus-user-session"}
		info.Suggests = []string{"podtask-kubelet", "podtask-ecs", "nftables", "iproute2"} // the last two for podtask fault
	case format == "deb":
		// Packages of before 0.1.0 had these programs in podtask.
		info.Depends = []string{"podtask (= " + info.Version + ")"}
		info.Deb.Breaks = []string{"podtask (<< " + info.Version + ")"}
		info.Replaces = info.Deb.Breaks
	case part == "podtask":
		info.Depends = []string{"podman >= 4.3"}
		info.Suggests = []string{"podtask-kubelet", "podtask-ecs", "nftables", "iproute"}
	default:
		info.Depends = []string{"podtask = " + info.Version}
	}
	if format == "deb" && part != "podtask" {
		info.Deb.Fields = map[string]string{"Source": "podtask"}
	}
	if format == "deb" {
		info.License = "" // which has no such field; the copyright file says it
	} else {
		info.RPM.BuildHost, info.RPM.Summary = "localhost", strings.ToUpper(d[0][:1])+d[0][1:]
		info.RPM.Group = "System/Management"
	}
	return info
}

// tarball has the same files, to unpack below a prefix such as /usr/local.
func (b build) tarball(sbom []byte) (string, []byte, error) {
	tree, err := b.tree(system("/usr/local"))
	if err != nil {
		return "", nil, err
	}
	tree = append(tree, file{path: "/usr/local/share/doc/podtask/podtask.cdx.json", mode: 0o644, data: sbom})
	name := fmt.Sprintf("podtask-%s-linux-%s", b.bare(), b.arch)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, f := range tree {
		h := &tar.Header{
			Name: name + strings.TrimPrefix(f.path, "/usr/local"), Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: b.date,
			Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if f.target != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.target, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return "", nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return "", nil, err
		}
	}
	if err := w.Close(); err != nil {
		return "", nil, err
	}
	if err := zip.Close(); err != nil {
		return "", nil, err
	}
	return name + ".tar.gz", out.Bytes(), nil
}
