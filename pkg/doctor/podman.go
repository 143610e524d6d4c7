package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// Oldest is the oldest Podman that podtask is tested with (Debian 12).
var Oldest = semver.MustParse("4.3.0")

// pastaSince is the first Podman that can connect pods by pasta.
var pastaSince = semver.MustParse("4.4.0")

// features are what later versions of Podman have, and what podtask does without.
var features = []struct {
	since semver.Version
	what  string
}{
	{pastaSince, "networks by pasta (slirp4netns is used)"},
	{semver.MustParse("4.7.0"), "secrets that can be read back (credentials of registries come from files or programs)"},
	{semver.MustParse("4.8.0"), "the bytes of a pull as it goes on"},
	{semver.MustParse("5.0.0"), "Quadlet .pod units"},
	{semver.MustParse("5.3.0"), "exit codes of containers that somebody has removed"},
}

// VersionFinding judges a version of Podman.
func VersionFinding(v semver.Version) Finding {
	if v.LT(Oldest) {
		return Finding{Check: "podman", Level: Fail,
			Text: fmt.Sprintf("Podman %s is older than %d.%d, the oldest that podtask works with", v, Oldest.Major, Oldest.Minor),
			Mend: "install Podman from Debian 12, Ubuntu 23.04, Fedora 37 or later"}
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
	return warn("", "its version is not known, because it does not answer")
}

func checkSocket(_ context.Context, h Host) Finding {
	switch {
	case h.Podman == nil && h.Getenv("CONTAINER_HOST") != "":
		return fail("unset CONTAINER_HOST, or set it to a socket that answers", "Podman does not answer at CONTAINER_HOST: %v", h.PodmanError)
	case h.Podman == nil:
		return fail("see `podman info`; systemctl --user restart podman.socket", "Podman does not answer: %v", h.PodmanError)
	case !h.Podman.Rootless:
		return warn("run podtask and Podman as an ordinary user", "the Podman at %s is not rootless: tasks would have its rights", h.Podman.Socket)
	}
	return ok("Podman answers at %s", h.Podman.Socket)
}

// checkPolicy: without a policy Podman pulls nothing (containers-policy.json(5)).
func checkPolicy(_ context.Context, h Host) Finding {
	files := []string{h.config() + "/containers/policy.json", "/etc/containers/policy.json"}
	for _, file := range files {
		if text, found := h.read(file); found {
			if !isObject(text) {
				return fail("correct it, or remove it where another one is meant", "%s is not valid JSON: nothing can be pulled", file)
			}
			return ok("images are checked by %s", file)
		}
	}
	return fail(`mkdir -p ~/.config/containers && echo '{"default":[{"type":"insecureAcceptAnything"}]}' > ~/.config/containers/policy.json`,
		"neither %s is there: nothing can be pulled", strings.Join(files, " nor "))
}

// config is the user's directory for configuration.
func (h Host) config() string {
	if dir := h.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return h.Home + "/.config"
}

// The programs that connect pods, and how one gets them.
const (
	pasta       = "pasta"
	slirp4netns = "slirp4netns"
)

var networkPackages = map[string]string{
	pasta:       "apt-get install passt, or dnf install passt",
	slirp4netns: "apt-get install slirp4netns, or dnf install slirp4netns",
}

// checkNetwork: which program connects a pod depends on Podman's version.
func checkNetwork(_ context.Context, h Host) Finding {
	modern := h.Podman == nil || h.Podman.Version.Major >= 5
	usual, other := slirp4netns, pasta
	if modern {
		usual, other = pasta, slirp4netns
	}
	usable := h.has(other) && (h.Podman == nil || other != pasta || h.Podman.Version.GE(pastaSince))
	switch {
	case h.has(usual) && usable:
		return ok("pods are connected by %s; tasks may ask for %s", usual, other)
	case h.has(usual):
		return ok("pods are connected by %s", usual)
	case usable:
		return warn(networkPackages[usual], "Podman connects pods by %s, which is not in PATH; %s works where containers.conf or the task names it", usual, other)
	}
	return fail(networkPackages[usual], "%s is not in PATH: pods get no network", usual)
}

// NetworkFinding judges whether Podman of a version can connect a pod by a program
// that a task names, pasta or slirp4netns; has tells whether a program is installed.
func NetworkFinding(program string, v semver.Version, has func(program string) bool) Finding {
	f := ok("pods can be connected by %s", program)
	switch {
	case program == pasta && v.LT(pastaSince):
		f = fail("use slirp4netns, or leave it to Podman", "network pasta needs Podman %s, this is %s", pastaSince, v)
	case !has(program):
		f = fail(networkPackages[program], "network %s: the program %s is not in PATH", program, program)
	}
	f.Check = "network"
	return f
}
