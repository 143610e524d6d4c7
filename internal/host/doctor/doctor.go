package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/pkg/cgroups"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // tasks can run, with restrictions
	Fail Level = "fail" // tasks cannot run
)

// Finding is the outcome of a check.
type Finding struct {
	// Check is the check's name, of lower-case letters and dashes.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Text is a sentence without a full stop. Fix is the command or change that fixes the
	// problem; empty if there is none or no problem.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

// String is the finding in one line, without its level.
func (f Finding) String() string {
	s := f.Check + ": " + f.Text
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// Host is the input of the checks.
type Host struct {
	// Root holds the files of the host (os.DirFS("/")).
	Root fs.FS
	// Getenv reads the environment.
	Getenv func(string) string
	// UID, User and Home belong to the user who runs tasks. Home is absolute.
	UID  int
	User string
	Home string
	// StateDir is the directory of podtask's records.
	StateDir string
	// LookPath finds a program, as exec.LookPath does.
	LookPath func(program string) (string, error)
	// Output runs a program and returns its trimmed output, even if the program failed.
	Output func(ctx context.Context, program string, args ...string) string
	// Free returns the free space of the file system of a path: in bytes, and in percent of
	// the files that it can hold.
	Free func(path string) (bytes uint64, files int, err error)
	// Podman is the answer of the Podman service; nil if it could not be reached, for the
	// reason in PodmanError.
	Podman      *Podman
	PodmanError error
	// ManagerError is the error of a systemd user manager that does not answer; nil if it does.
	ManagerError error
}

// Podman is the report of the Podman service about itself.
type Podman struct {
	Version       semver.Version
	Socket        string
	CgroupManager string
	Runtime       string
	// NetworkBackend is netavark or cni.
	NetworkBackend string
	// GraphRoot is the directory of images; empty if unknown.
	GraphRoot string
	// LogDriver is the default log driver of containers.
	LogDriver string
	Rootless  bool
	// NoKeyring: containers get no session keyring (keyring = false in containers.conf).
	NoKeyring bool
}

// check is one check and its name.
type check struct {
	name string
	look func(context.Context, Host) Finding
}

// checks are in the order in which a user would look for the cause of a problem.
var checks = []check{
	{"podman", checkPodman},
	{"advisories", checkAdvisories},
	{"socket", checkSocket},
	{"runtime-dir", checkRuntimeDir},
	{"user-namespaces", checkUserNamespaces},
	{"subids", checkSubIDs},
	{"idmap", checkIDMap},
	{"keys", checkKeys},
	{"inotify", checkInotify},
	{"processes", checkProcesses},
	{"open-files", checkOpenFiles},
	{"network", checkNetwork},
	{"bridge", checkBridge},
	{"policy", checkPolicy},
	{"registries", checkRegistries},
	{"disk", checkDisk},
	{"cgroups", checkCgroups},
	{"user-manager", checkUserManager},
	{"delegation", checkDelegation},
	{"linger", checkLinger},
	{"ports", checkPorts},
	{"security", checkSecurity},
	{"journal", checkJournal},
	{"network-online", checkNetworkOnline},
}

// Examine runs all checks and returns a finding for each, in a fixed order.
func Examine(ctx context.Context, h Host) []Finding {
	return examine(ctx, h, func(string) bool { return true })
}

// ExamineOnly runs the checks with these names, in the same order.
func ExamineOnly(ctx context.Context, h Host, names ...string) []Finding {
	return examine(ctx, h, func(name string) bool { return slices.Contains(names, name) })
}

func examine(ctx context.Context, h Host, wanted func(name string) bool) (findings []Finding) {
	for _, c := range checks {
		if wanted(c.name) {
			f := c.look(ctx, h)
			f.Check = c.name
			findings = append(findings, f)
		}
	}
	return findings
}

// Worst returns the most severe level among findings; OK for none.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Fail || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// Failures returns the findings with level Fail.
func Failures(findings []Finding) (failed []Finding) {
	for _, f := range findings {
		if f.Level == Fail {
			failed = append(failed, f)
		}
	}
	return failed
}

func ok(format string, a ...any) Finding {
	return Finding{Level: OK, Text: fmt.Sprintf(format, a...)}
}

func warn(fix, format string, a ...any) Finding {
	return Finding{Level: Warn, Text: fmt.Sprintf(format, a...), Fix: fix}
}

func fail(fix, format string, a ...any) Finding {
	return Finding{Level: Fail, Text: fmt.Sprintf(format, a...), Fix: fix}
}

// read returns the trimmed content of a file; found is false if it cannot be read.
func (h Host) read(name string) (text string, found bool) {
	data, err := fs.ReadFile(h.Root, strings.TrimPrefix(path.Clean(name), "/"))
	return strings.TrimSpace(string(data)), err == nil
}

func (h Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, strings.TrimPrefix(path.Clean(name), "/"))
	return err == nil
}

// has reports whether a program is in PATH.
func (h Host) has(program string) bool {
	_, err := h.LookPath(program)
	return err == nil
}

// cgroups returns what the host supports for limits.
func (h Host) cgroups() cgroups.Host { return cgroups.Detect(h.Root, h.UID, h.Getenv) }
