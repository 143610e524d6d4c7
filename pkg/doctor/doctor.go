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

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // something is missing that tasks can do without
	Fail Level = "fail" // tasks cannot run
)

// Finding is the outcome of a check.
type Finding struct {
	// Check is the check's name, of lower-case letters and dashes.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Text is a sentence without a full stop, Mend the command or the change that
	// helps; empty where there is none, or no need.
	Text string `json:"text"`
	Mend string `json:"mend,omitempty"`
}

// String is the finding in one line, without its level.
func (f Finding) String() string {
	s := f.Check + ": " + f.Text
	if f.Mend != "" {
		s += "; " + f.Mend
	}
	return s
}

// Host is what checks look at.
type Host struct {
	// Root holds the files of the host (os.DirFS("/")).
	Root fs.FS
	// Getenv reads the environment.
	Getenv func(string) string
	// UID and User are who runs tasks. Home is absolute.
	UID  int
	User string
	Home string
	// StateDir is where podtask keeps its records.
	StateDir string
	// LookPath finds a program, as exec.LookPath does.
	LookPath func(program string) (string, error)
	// Output runs a program and returns what it printed, trimmed, also when it failed.
	Output func(ctx context.Context, program string, args ...string) string
	// Free says how much is free on the file system of a path: bytes, and files in
	// percent of what it can hold.
	Free func(path string) (bytes uint64, files int, err error)
	// Podman is what the Podman service said; nil when it could not be reached,
	// which PodmanError explains.
	Podman      *Podman
	PodmanError error
	// ManagerError is why the systemd user manager does not answer; nil: it does.
	ManagerError error
}

// Podman is what the Podman service says about itself.
type Podman struct {
	Version       semver.Version
	Socket        string
	CgroupManager string
	Runtime       string
	// NetworkBackend is netavark or cni.
	NetworkBackend string
	// GraphRoot is where images are; empty: not told.
	GraphRoot string
	Rootless  bool
}

// check is one check and its name.
type check struct {
	name string
	look func(context.Context, Host) Finding
}

// checks are in the order in which people would look.
var checks = []check{
	{"podman", checkPodman},
	{"socket", checkSocket},
	{"runtime-dir", checkRuntimeDir},
	{"user-namespaces", checkUserNamespaces},
	{"subids", checkSubIDs},
	{"idmap", checkIDMap},
	{"network", checkNetwork},
	{"bridge", checkBridge},
	{"policy", checkPolicy},
	{"disk", checkDisk},
	{"cgroups", checkCgroups},
	{"user-manager", checkUserManager},
	{"delegation", checkDelegation},
	{"linger", checkLinger},
	{"ports", checkPorts},
	{"security", checkSecurity},
	{"network-online", checkNetworkOnline},
}

// Examine makes all checks and returns a finding for each, in a fixed order.
func Examine(ctx context.Context, h Host) []Finding {
	return examine(ctx, h, func(string) bool { return true })
}

// ExamineOnly makes the checks of these names, in the same order.
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

// Worst is the worst level among findings; OK for none.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Fail || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// Failures are the findings of level Fail.
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

func warn(mend, format string, a ...any) Finding {
	return Finding{Level: Warn, Text: fmt.Sprintf(format, a...), Mend: mend}
}

func fail(mend, format string, a ...any) Finding {
	return Finding{Level: Fail, Text: fmt.Sprintf(format, a...), Mend: mend}
}

// read returns a file's text, trimmed; found is false where there is none.
func (h Host) read(name string) (text string, found bool) {
	data, err := fs.ReadFile(h.Root, strings.TrimPrefix(path.Clean(name), "/"))
	return strings.TrimSpace(string(data)), err == nil
}

func (h Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, strings.TrimPrefix(path.Clean(name), "/"))
	return err == nil
}

// has tells whether a program is in the path.
func (h Host) has(program string) bool {
	_, err := h.LookPath(program)
	return err == nil
}

// cgroups is what the host offers for limits.
func (h Host) cgroups() cgroups.Host { return cgroups.Detect(h.Root, h.UID, h.Getenv) }
