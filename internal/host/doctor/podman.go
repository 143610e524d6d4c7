package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Oldest is the oldest Podman version that podtask is tested with (Debian 12).
var Oldest = semver.MustParse("4.3.0")

// pastaSince is the first Podman that supports pasta for pods.
var pastaSince = semver.MustParse("4.4.0")

// features lists features of later versions of Podman, and how podtask works without them.
var features = []struct {
	since semver.Version
	what  string
}{
	{pastaSince, "networks with pasta (slirp4netns is used)"},
	{semver.MustParse("4.7.0"), "readable secrets (registry credentials must come from files or programs)"},
	{semver.MustParse("4.8.0"), "pull progress in bytes"},
	{semver.MustParse("5.0.0"), "Quadlet .pod units"},
	{semver.MustParse("5.3.0"), "exit codes of removed containers"},
}

// VersionFinding checks a version of Podman.
func VersionFinding(v semver.Version) Finding {
	if v.LT(Oldest) {
		return Finding{Check: "podman", Level: Fail,
			Text: fmt.Sprintf("Podman %s is too old: podtask requires %d.%d or later", v, Oldest.Major, Oldest.Minor),
			Fix:  "install Podman from Debian 12, Ubuntu 23.04, Fedora 37 or later"}
	}
	var lacks []string
	for _, f := range features {
		if v.LT(f.since) {
			lacks = append(lacks, fmt.Sprintf("%s (%d.%d)", f.what, f.since.Major, f.since.Minor))
		}
	}
	if len(lacks) > 0 {
		return Finding{Check: "podman", Level: Warn, Text: fmt.Sprintf("Podman %s lacks %s", v, strings.Join(lacks, ", "))}
	}
	return Finding{Check: "podman", Level: OK, Text: fmt.Sprintf("Podman %s", v)}
}

func checkPodman(_ context.Context, h Host) Finding {
	switch {
	case h.Podman != nil:
		return VersionFinding(h.Podman.Version)
	case h.Getenv("CONTAINER_HOST") == "" && !h.has("podman"):
		return fail("apt-get install podman, or dnf install podman", "there is no podman program in PATH")
	}
	return warn("", "its version is not known, because Podman does not answer")
}

// advisory is a known hole in versions of Podman.
type advisory struct {
	name string
	// fixed are the first versions without it, the newest first: one of each series of
	// releases that was repaired.
	fixed []semver.Version
	// opened returns the thing on a host that opens the hole, and the command that closes it; both are empty if there is none.
	opened func(context.Context, Host) (by, closed string)
}

// repaired are the first versions of each series that Podman's advisories of November 2026 name.
var repaired = []semver.Version{semver.MustParse("6.2.0"), semver.MustParse("5.8.10")}

// update closes every hole.
const update = "update Podman to 6.2.0 or 5.8.10, or to a repaired package of the distribution"

var advisories = []advisory{
	// podman auto-update obeys labels that an image brings, but not those of an image of a task.
	{"CVE-2026-121885", repaired, func(ctx context.Context, h Host) (by, closed string) {
		if h.Output(ctx, "systemctl", "--user", "is-enabled", "podman-auto-update.timer") == "enabled" {
			return "podman-auto-update.timer", "systemctl --user disable --now podman-auto-update.timer"
		}
		return "", ""
	}},
	// A check of an image's signature can be bypassed. Digests are compared by podtask too.
	{"CVE-2026-111361", repaired, func(_ context.Context, h Host) (by, closed string) {
		for _, file := range h.policyFiles() {
			if text, found := h.read(file); found {
				if strings.Contains(text, `"signedBy"`) || strings.Contains(text, `"sigstoreSigned"`) {
					return "signatures in " + file, update
				}
				break
			}
		}
		return "", ""
	}},
}

// affects reports whether a version has the hole.
func (a advisory) affects(v semver.Version) bool {
	return !slices.ContainsFunc(a.fixed, func(f semver.Version) bool {
		return v.GE(f) && (v.Major == f.Major || f.EQ(a.fixed[0]))
	})
}

// checkAdvisories warns of a hole that is open here: not where nothing uses what has the hole, nor where the changelog of
// the distribution names it, which repairs holes without a new version number.
func checkAdvisories(ctx context.Context, h Host) Finding {
	if h.Podman == nil {
		return ok("not checked, because the version of Podman is not known")
	}
	var shut, open, fixes []string
	for _, a := range advisories {
		if !a.affects(h.Podman.Version) {
			continue
		}
		switch by, fix := a.opened(ctx, h); {
		case by == "":
			shut = append(shut, a.name)
		case !h.changelogNames(ctx, a.name):
			open, fixes = append(open, a.name+" by "+by), append(fixes, fix)
		}
	}
	switch {
	case len(open) > 0:
		return warn(strings.Join(slices.Compact(fixes), "; ")+"; see docs/doctor.md", "Podman %s has known vulnerabilities, which are open here: %s", h.Podman.Version, strings.Join(open, ", "))
	case len(shut) > 0:
		return Finding{Level: OK, Text: fmt.Sprintf("no known vulnerability of Podman %s is open here", h.Podman.Version), Fix: strings.Join(shut, ", ") + ": see docs/doctor.md"}
	}
	return ok("no vulnerability of Podman %s is known", h.Podman.Version)
}

// changelogNames reports whether the changelog of the package of Podman has a word.
func (h Host) changelogNames(ctx context.Context, word string) bool {
	if file, err := h.Root.Open("usr/share/doc/podman/changelog.Debian.gz"); err == nil {
		defer file.Close()
		if text, err := gzip.NewReader(file); err == nil {
			all, _ := io.ReadAll(io.LimitReader(text, 16<<20))
			return bytes.Contains(all, []byte(word))
		}
	}
	return h.has("rpm") && strings.Contains(h.Output(ctx, "rpm", "-q", "--changelog", "podman"), word)
}

func checkSocket(_ context.Context, h Host) Finding {
	switch {
	case h.Podman == nil && h.Getenv("CONTAINER_HOST") != "":
		return fail("unset CONTAINER_HOST, or set it to a socket that answers", "Podman does not answer at CONTAINER_HOST: %v", h.PodmanError)
	case h.Podman == nil:
		return fail("see `podman info`; systemctl --user restart podman.socket", "Podman does not answer: %v", h.PodmanError)
	case !h.Podman.Rootless:
		return warn("run podtask and Podman as an ordinary user", "the Podman at %s is not rootless: tasks would run with its rights", h.Podman.Socket)
	}
	return ok("Podman answers at %s", h.Podman.Socket)
}

// checkPolicy: without a policy Podman pulls nothing (containers-policy.json(5)).
func checkPolicy(_ context.Context, h Host) Finding {
	files := h.policyFiles()
	for _, file := range files {
		if text, found := h.read(file); found {
			if !isObject(text) {
				return fail("correct the file, or remove it to use the next one", "%s is not valid JSON: Podman cannot pull images", file)
			}
			return ok("the signature policy is %s", file)
		}
	}
	return fail("install the distribution's policy: apt-get install golang-github-containers-common, or dnf install containers-common; "+
		`only if no image signature has to be verified, write {"default":[{"type":"insecureAcceptAnything"}]} to ~/.config/containers/policy.json: `+
		"it turns signature verification off for every registry and takes precedence over the distribution's policy",
		"there is no signature policy (%s): Podman cannot pull images", strings.Join(files, ", "))
}

// sharedConfigSince is the first Podman that also reads its configuration below
// /usr/share/containers, and CONTAINERS_POLICY_JSON.
var sharedConfigSince = semver.MustParse("6.0.0")

// readsShared reports whether Podman reads /usr/share/containers. A Podman of unknown
// version may.
func (h Host) readsShared() bool { return h.Podman == nil || h.Podman.Version.GE(sharedConfigSince) }

// policyFiles are the places of policy.json, of which Podman uses the first that exists.
func (h Host) policyFiles() []string {
	if file := h.Getenv("CONTAINERS_POLICY_JSON"); file != "" && h.readsShared() {
		return []string{file}
	}
	files := []string{h.config() + "/containers/policy.json", "/etc/containers/policy.json"}
	if h.readsShared() {
		files = append(files, "/usr/share/containers/policy.json")
	}
	return files
}

// checkRegistries: podtask resolves images with the configuration of Podman 5. It names
// what Podman 6 reads besides, so that a mirror that is set there is not missed in silence.
func checkRegistries(_ context.Context, h Host) Finding {
	if h.Podman == nil || !h.readsShared() {
		return ok("podtask and Podman read the same registries.conf")
	}
	dirs := []string{"/etc/containers/registries.rootless.conf.d", fmt.Sprintf("/etc/containers/registries.rootless.conf.d/%d", h.UID),
		"/usr/share/containers/registries.rootless.conf.d", fmt.Sprintf("/usr/share/containers/registries.rootless.conf.d/%d", h.UID)}
	if h.exists("/etc/containers/registries.conf.d") {
		dirs = append(dirs, "/usr/share/containers/registries.conf.d")
	}
	var unread []string
	for _, dir := range dirs {
		files, _ := fs.Glob(h.Root, strings.TrimPrefix(dir, "/")+"/*.conf")
		if len(files) > 0 {
			unread = append(unread, dir)
		}
	}
	if len(unread) > 0 {
		return warn("move the files to /etc/containers/registries.conf.d or ~/.config/containers/registries.conf.d",
			"podtask does not read %s, which Podman reads: mirrors set there are used for pulls, not when podtask looks up a digest", strings.Join(unread, ", "))
	}
	return ok("podtask and Podman read the same registries.conf")
}

// config is the user's configuration directory.
func (h Host) config() string {
	if dir := h.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return h.Home + "/.config"
}

// The programs that connect pods to the network, and how to install them.
const (
	pasta       = "pasta"
	slirp4netns = "slirp4netns"
)

var networkPackages = map[string]string{
	pasta:       "apt-get install passt, or dnf install passt",
	slirp4netns: "apt-get install slirp4netns, or dnf install slirp4netns",
}

// slirpUntil is the first Podman without slirp4netns.
var slirpUntil = semver.MustParse("6.0.0")

// checkNetwork: which program connects a pod depends on Podman's version.
func checkNetwork(_ context.Context, h Host) Finding {
	if h.Podman != nil && h.Podman.Version.GE(slirpUntil) {
		if h.has(pasta) {
			return ok("pods are connected with %s", pasta)
		}
		return fail(networkPackages[pasta], "%s is not in PATH: pods have no network", pasta)
	}
	modern := h.Podman == nil || h.Podman.Version.Major >= 5
	usual, other := slirp4netns, pasta
	if modern {
		usual, other = pasta, slirp4netns
	}
	usable := h.has(other) && (h.Podman == nil || other != pasta || h.Podman.Version.GE(pastaSince))
	switch {
	case h.has(usual) && usable:
		return ok("pods are connected with %s; tasks may select %s", usual, other)
	case h.has(usual):
		return ok("pods are connected with %s", usual)
	case usable:
		return warn(networkPackages[usual], "Podman connects pods with %s, which is not in PATH; %s works if containers.conf or the task selects it", usual, other)
	}
	return fail(networkPackages[usual], "%s is not in PATH: pods have no network", usual)
}

// NetworkFinding checks whether a version of Podman can connect a pod with the program
// that a task names, pasta or slirp4netns; has reports whether a program is installed.
func NetworkFinding(program string, v semver.Version, has func(program string) bool) Finding {
	f := ok("pods can be connected with %s", program)
	switch {
	case program == slirp4netns && v.GE(slirpUntil):
		f = fail("use pasta, or leave it to Podman", "Podman %s does not support the network slirp4netns", v)
	case program == pasta && v.LT(pastaSince):
		f = fail("use slirp4netns, or leave it to Podman", "network pasta needs Podman %s, this is %s", pastaSince, v)
	case !has(program):
		f = fail(networkPackages[program], "network %s: the program %s is not in PATH", program, program)
	}
	f.Check = "network"
	return f
}
