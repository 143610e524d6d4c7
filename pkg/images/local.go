package images

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// LocalDigest finds the digest that a local image has under ref's repository among its
// names with digests (RepoDigests). It is empty, without an error, for an image without
// such names, which was built or loaded here. If the image was pulled under other names
// only, its digest may not exist in ref's repository: that is an *Error of class
// NoSuchTag that names them.
func LocalDigest(ref Ref, repoDigests []string) (string, error) {
	var others []string
	for _, text := range repoDigests {
		r, err := ParseRef(text)
		switch {
		case err != nil || !r.Pinned():
		case r.Name() == ref.Name():
			return r.Digest(), nil
		case !slices.Contains(others, r.Name()):
			others = append(others, r.Name())
		}
	}
	if len(others) == 0 {
		return "", nil
	}
	return "", &Error{
		Class: NoSuchTag, Ref: ref.String(), Registry: ref.Registry(),
		Message: "the local image with this name was pulled as " + strings.Join(others, ", ") + ", so its digest in " + ref.Name() + " is not known",
		Hint:    "name the image as it was pulled, or let podtask pull it (podman pull " + ref.String() + ")",
	}
}

// emulators are the names that QEMU's user emulation has in binfmt_misc, by GOARCH.
var emulators = map[string]string{
	"386": "i386", "amd64": "x86_64", "arm": "arm", "arm64": "aarch64", "loong64": "loongarch64",
	"mips64le": "mips64el", "ppc64le": "ppc64le", "riscv64": "riscv64", "s390x": "s390x",
}

// native lists the architectures whose programs the kernel runs besides its own.
var native = map[string][]string{"amd64": {"386"}, "arm64": {"arm"}}

// RunsOn checks that a host can run programs of the platform want before an image for it
// is pulled. root holds the files of the host (os.DirFS("/")). emulator names the handler
// that the kernel uses for another architecture, which is slower; it is empty if none is
// needed. The error is an *Error of class WrongPlatform.
func RunsOn(root fs.FS, host, want Platform) (emulator string, err error) {
	arch := strings.ToLower(want.Architecture)
	switch {
	case want.OS != "" && want.OS != host.OS:
	case arch == "" || arch == host.Architecture || slices.Contains(native[host.Architecture], arch):
		return "", nil
	default:
		if emulator := emulatorOf(root, arch); emulator != "" {
			return emulator, nil
		}
	}
	return "", &Error{
		Class:   WrongPlatform,
		Message: fmt.Sprintf("this host is %s and cannot run programs for %s", host, want),
		Hint:    "set runtimePlatform.cpuArchitecture to the host's architecture, run the task on another host, or install an emulator (apt-get install qemu-user-static, or dnf install qemu-user-static)",
	}
}

// emulatorOf finds an enabled handler of binfmt_misc for an architecture. Containers need
// one with flag F, which the kernel opens before it enters their namespaces.
func emulatorOf(root fs.FS, arch string) string {
	const dir = "proc/sys/fs/binfmt_misc"
	name := emulators[arch]
	if status, err := fs.ReadFile(root, path.Join(dir, "status")); name == "" || err == nil && strings.TrimSpace(string(status)) == "disabled" {
		return ""
	}
	handlers := []string{"qemu-" + name, "qemu-" + name + "-static", name}
	if arch == "amd64" {
		handlers = append(handlers, "rosetta") // virtual machines on macOS
	}
	for _, handler := range handlers {
		text, err := fs.ReadFile(root, path.Join(dir, handler))
		if err != nil || !strings.HasPrefix(string(text), "enabled") {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if flags, found := strings.CutPrefix(strings.TrimSpace(line), "flags:"); found && strings.Contains(flags, "F") {
				return handler
			}
		}
	}
	return ""
}
