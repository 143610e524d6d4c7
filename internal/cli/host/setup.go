package host

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/urfave/cli/v2"
)

// Command is `podtask host`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "host",
		Usage:       "set up other hosts for podtask",
		Description: "Examples:\n  podtask host setup ssh://me@box.example.net",
		Subcommands: []*cli.Command{{
			Name:      "setup",
			Usage:     "copy podtask to a host, start its agent there and check the host",
			ArgsUsage: "HOST",
			Description: `Needs ssh and Podman on the host, and no root. The host is a Debian, a Fedora or one of their like
(Ubuntu, Mint, RHEL, Rocky, AlmaLinux); for others it prints the command that copies the programs. It says what it will do and asks: it copies
the programs of this podtask to ~/.local/bin, installs the agent as a service of the user, turns on
lingering, so that tasks outlive the login, and runs podtask doctor there. Repeat it to update.

If a package of podtask for the host, a deb or an rpm, is beside this program or is given, and the user may use
sudo there without a password, it installs that instead, with apt-get or dnf. A host whose podtask is from a
package is updated by a package only.

Examples:
  podtask host setup ssh://me@box.example.net
  podtask host setup --package dist/podtask_1.2.3_amd64.deb box
  podtask host setup --yes box`,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "package", Usage: "install the package `FILE` there, a deb or an rpm", DefaultText: "the one beside this program"},
				&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			},
			Action: func(c *cli.Context) error {
				if c.Args().Len() != 1 {
					return command.Usagef("host setup", "host setup takes one HOST, not %d arguments", c.Args().Len())
				}
				contexts, err := sshhost.LoadContexts(p.Getenv)
				if err != nil {
					return err
				}
				h, err := contexts.Find(c.Args().First())
				if err != nil {
					return err
				}
				if (h == sshhost.Host{}) {
					return command.Usagef("host setup", "%s is this machine: the packages of podtask set it up, see README.md", sshhost.Local)
				}
				ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
				defer stop()
				s := newSetup(p, h, c)
				if err := s.run(ctx); err != nil {
					if ctx.Err() != nil {
						return command.ExitStatus(command.ExitInterrupted)
					}
					return err
				}
				return s.doctor(ctx)
			},
		}},
	}
}

// newSetup returns what sets a host up, with the flags of a command.
func newSetup(p *command.Program, h sshhost.Host, c *cli.Context) *setup {
	return &setup{
		in: p.Stdin, out: p.Stdout, errOut: p.Stderr, version: p.Version, executable: p.Executable, host: h, options: p.HostOptions(),
		shell: func(ctx context.Context, script string, stdin io.Reader, out io.Writer) error {
			return sshhost.ShellCommand{Host: h, Ask: p.MayAsk(), Line: script, Stdin: stdin, Stdout: out, Stderr: p.Stderr}.Run(ctx)
		},
		asks: command.IsTerminal(p.Stdin), yes: c.Bool("yes"), given: c.String("package"),
	}
}

// setup is what `podtask host setup` uses.
type setup struct {
	in          io.Reader
	out, errOut io.Writer
	version     string
	executable  func() (string, error)
	host        sshhost.Host
	options     sshhost.Options
	// shell runs a command line of the host's shell.
	shell     func(ctx context.Context, script string, stdin io.Reader, out io.Writer) error
	asks, yes bool
	given     string // a package; empty: one beside this program
}

// unitFiles are the services of the agent, for programs in ~/.local/bin.
//
//go:embed units
var unitFiles embed.FS

// Scripts of the host's shell. They have single quotes only around them, because the login shell may be
// any.
const (
	probe = `exec sh -c '
PATH="$PATH:$HOME/.local/bin:/usr/local/bin"
echo "os=$(uname -s)"
echo "machine=$(uname -m)"
echo "uid=$(id -u)"
echo "user=$(id -un)"
command -v podman >/dev/null && echo "podman=$(podman --version 2>/dev/null | head -n 1)"
command -v podtask >/dev/null && echo "podtask=$(command -v podtask)" && echo "version=$(podtask version --format "{{.Version}}" 2>/dev/null | head -n 1)"
if [ -n "$(command -v podtask)" ]; then
	dpkg -S "$(command -v podtask)" >/dev/null 2>&1 && echo package=deb
	rpm -qf "$(command -v podtask)" >/dev/null 2>&1 && echo package=rpm
fi
(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "distribution=$ID $ID_LIKE" && echo "name=$PRETTY_NAME")
echo "home=$HOME"
[ -S "/run/user/$(id -u)/bus" ] && echo manager=yes
[ -e "/var/lib/systemd/linger/$(id -un)" ] && echo linger=yes
sudo -n true >/dev/null 2>&1 && echo sudo=yes
exit 0'`
	install = `exec sh -c '
umask 022
to="$HOME/%[1]s"
mkdir -p "$to" && new=$(mktemp -d "$to/.podtask-XXXXXX") || exit 1
if tar -xf - -C "$new" && [ -e "$new/%[2]s" ] && mv -f "$new"/* "$to"/; then rmdir "$new"; command -v restorecon >/dev/null && restorecon -R "$to"; exit 0; else rm -rf "$new"; exit 1; fi'`
	// The directory is open, because apt reads the file as a user of its own.
	installPackage = `exec sh -c '
dir=$(mktemp -d) && trap "rm -rf \"$dir\"" EXIT && trap "exit 1" HUP INT TERM && chmod 755 "$dir" &&
cat >"$dir/podtask.%[1]s" && chmod 644 "$dir/podtask.%[1]s" && sudo -n %[2]s "$dir/podtask.%[1]s" </dev/null'`
	lingering = `exec loginctl enable-linger`
	starting  = `exec sh -c '
export XDG_RUNTIME_DIR="/run/user/$(id -u)"
systemctl --user daemon-reload && systemctl --user enable --now podtask.socket podtask.service && systemctl --user restart podtask.service'`
)

// facts are what the probe has printed.
type facts map[string]string

// maxFacts is how much the probe may print, in bytes.
const maxFacts = 64 << 10

func readFacts(text []byte) facts {
	f := make(facts)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			f[name] = term.Line(value)
		}
	}
	return f
}

// architectures maps what uname -m prints to the names of Go.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x"}

// change says how podtask is installed on a host. The zero value: it is there already.
type change struct {
	copies bool   // of the programs
	file   string // a package
}

// check returns an error for a host that cannot be set up.
func (s *setup) check(f facts) (change, error) {
	fail := func(format string, args ...any) (change, error) { return change{}, fmt.Errorf(format, args...) }
	switch arch := architectures[f["machine"]]; {
	case f["os"] != "Linux":
		return fail("%s runs %q: podtask runs on Linux", s.host, f["os"])
	case arch != runtime.GOARCH:
		return fail("%s is a machine of type %q, and this podtask is for %s: install the package for that machine there", s.host, f["machine"], runtime.GOARCH)
	case f["uid"] == "0":
		return fail("%s is reached as root: podtask works for an ordinary user: write ssh://USER@%s", s.host, s.host.Name)
	}
	family, err := s.family(f)
	if err != nil {
		return change{}, err
	}
	file, err := s.packageFor(f, family)
	if err != nil {
		return change{}, err
	}
	switch {
	case f["podman"] == "" && file == "": // a package needs Podman, and brings it
		return fail("%s has no Podman: run `%s` there first", s.host, family.podman)
	case tooOld(f["podman"]):
		return fail("%s has %s, and podtask needs Podman 4.3 or newer: update the host to a newer release of %s", s.host, f["podman"], cmp.Or(f["name"], "its distribution"))
	}
	switch {
	case f["podtask"] != "" && f["version"] == s.version:
		return change{}, nil
	case file != "":
		return change{file: file}, nil
	case f["podtask"] == "" || f.own():
		return change{copies: true}, nil
	case f["package"] != "":
		return fail("podtask %s on %s is from a package, this one is %s: give the package of this version with --package, or copy it there and run `%s`", cmp.Or(f["version"], "of an unknown version"), s.host, s.version, family.update)
	}
	return fail("podtask %s on %s is %s, which is not in ~/.local/bin: update it as it was installed there, this one is %s", cmp.Or(f["version"], "of an unknown version"), s.host, f["podtask"], s.version)
}

var plainUser = lazy.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*$`)

// userWord is the name of the user for a command that a person copies: a host may say anything.
func (f facts) userWord() string {
	if plainUser.MatchString(f["user"]) {
		return f["user"]
	}
	return `"$(id -un)"`
}

// own reports whether podtask is where host setup copies it.
func (f facts) own() bool { return f["podtask"] == f["home"]+"/.local/bin/podtask" }

// packageFor returns the package to install on a host; empty for none.
func (s *setup) packageFor(f facts, of family) (string, error) {
	file := s.given
	if file == "" {
		file = s.packageBeside(f, of)
	}
	reason := ""
	switch {
	case file == "":
		return "", nil
	case f["podtask"] != "" && (f["package"] == "" || f.own()):
		reason = f["podtask"] + " is not from a package, and would be there besides it: remove it first"
	case f["sudo"] == "":
		reason = fmt.Sprintf("%s may not use sudo there without a password: copy the package there and run `%s`", f["user"], of.update)
	}
	switch {
	case reason == "" && s.given != "" && filepath.Ext(file) != "."+of.format:
		return "", fmt.Errorf("--package %s: the packages of %s are of the type %s", file, s.host, of.format)
	case reason != "" && s.given != "":
		return "", fmt.Errorf("--package: %s: %s", s.host, reason)
	case reason != "":
		return "", nil // it is not asked for
	}
	if info, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("--package: %w", err)
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("--package: %s is no regular file", file)
	}
	return file, nil
}

// packageBeside returns the package of this version for a host that is beside this program; empty for none.
func (s *setup) packageBeside(f facts, of family) string {
	self, err := s.executable()
	if err != nil {
		return "" // the copy of the programs reports it
	}
	version := strings.TrimPrefix(s.version, "v")
	for _, name := range []string{"podtask_" + version + "_" + runtime.GOARCH + ".deb", "podtask-" + version + "-1." + f["machine"] + ".rpm"} {
		file := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(file); err == nil && filepath.Ext(name) == "."+of.format {
			return file
		}
	}
	return ""
}

// family is what hosts with the same package manager have in common.
type family struct {
	ids             []string // of os-release
	podman, manager string   // commands that install Podman, and what a user manager of systemd needs
	update          string   // installs a package of podtask
	format, install string   // the type of a package, and the command that installs one without asking
}

var families = []family{
	{[]string{"debian", "ubuntu"}, "sudo apt install podman uidmap dbus-user-session", "sudo apt install dbus-user-session", "sudo apt install ./podtask_*.deb", "deb", "env DEBIAN_FRONTEND=noninteractive apt-get install -y"},
	{[]string{"fedora", "rhel", "centos"}, "sudo dnf install podman", "sudo dnf install systemd", "sudo dnf install ./podtask-*.rpm", "rpm", "dnf install -y"},
}

// family returns the family of a host. The error for another one has the command that copies the programs.
func (s *setup) family(f facts) (family, error) {
	words := strings.Fields(f["distribution"])
	for _, known := range families {
		if slices.ContainsFunc(known.ids, func(id string) bool { return slices.Contains(words, id) }) {
			return known, nil
		}
	}
	copying := "tar -C DIRECTORY -c podtask"
	if programs, err := s.programs(); err == nil {
		copying = "tar -C " + filepath.Dir(programs[0]) + " -c"
		for _, path := range programs {
			copying += " " + filepath.Base(path)
		}
	}
	return family{}, fmt.Errorf("%s runs %s: host setup knows Debian, Fedora and their like. Install Podman 4.3 or newer there, and run `%s | ssh %s 'mkdir -p ~/.local/bin && tar -x -C ~/.local/bin'`; then `podtask --host %s doctor` says what is missing",
		s.host, cmp.Or(f["name"], "an unknown distribution"), copying, s.host, s.host)
}

// tooOld reports whether the text of podman --version names a version before 4.3.
func tooOld(version string) bool {
	var major, minor int
	words := strings.Fields(version)
	if len(words) == 0 {
		return false
	}
	if n, _ := fmt.Sscanf(words[len(words)-1], "%d.%d", &major, &minor); n < 2 {
		return false // doctor looks again
	}
	return major < 4 || major == 4 && minor < 3
}

// plan holds the steps of a setup, so that they can be shown before they are taken.
type plan struct {
	facts
	change
	family
	programs []string // to copy
	// copied: its podtask is, or will be, where host setup copies it. agent: its agent is started.
	copied, agent bool
}

// run sets the host up, after it has asked.
func (s *setup) run(ctx context.Context) error {
	p, err := s.plan(ctx)
	if err != nil {
		return err
	}
	s.show(p)
	if err := s.ask(); err != nil {
		return err
	}
	return s.apply(ctx, p)
}

// plan looks at the host.
func (s *setup) plan(ctx context.Context) (p plan, err error) {
	var out command.Answer
	if err := s.shell(ctx, probe, nil, &out); err != nil {
		return p, s.shellError("look at the host", err)
	}
	p.facts = readFacts(out.Bytes()[:min(out.Len(), maxFacts)])
	if p.change, err = s.check(p.facts); err != nil {
		return p, err
	}
	if p.copies {
		p.programs, err = s.programs()
	}
	p.family, _ = s.family(p.facts) // check has found it
	p.copied = p.copies || p.file == "" && p.own()
	p.agent = p.facts["manager"] != "" && (p.copied || p.file != "")
	return p, err
}

// show prints what will be done.
func (s *setup) show(p plan) {
	fmt.Fprintf(s.out, "%s: %s, user %s\n", s.host, cmp.Or(p.facts["podman"], "no Podman"), p.facts["user"])
	if p.file != "" {
		fmt.Fprintf(s.out, "  install %s with sudo %s\n", filepath.Base(p.file), p.install)
	}
	for _, path := range p.programs {
		fmt.Fprintf(s.out, "  copy %s to ~/.local/bin\n", filepath.Base(path))
	}
	switch {
	case p.agent && p.copied:
		fmt.Fprintln(s.out, "  install podtask.service and podtask.socket in ~/.config/systemd/user, and start the agent")
	case p.agent:
		fmt.Fprintln(s.out, "  enable and start podtask.service and podtask.socket, the agent")
	}
	if p.facts["linger"] == "" {
		fmt.Fprintf(s.out, "  loginctl enable-linger, so that tasks of %s outlive the login\n", p.facts["user"])
	}
	fmt.Fprintln(s.out, "  podtask doctor")
}

// apply does what is planned.
func (s *setup) apply(ctx context.Context, p plan) error {
	if p.facts["linger"] == "" {
		if err := s.shell(ctx, lingering, nil, s.out); err != nil {
			if ctx.Err() != nil {
				return err
			}
			fmt.Fprintf(s.errOut, "Warning: lingering cannot be turned on: run `sudo loginctl enable-linger %s` on the host; without it tasks end with the login\n", p.facts.userWord())
		}
	}
	if p.copies {
		if err := s.install(ctx, ".local/bin", p.programs); err != nil {
			return err
		}
	}
	if p.file != "" {
		if err := s.sendPackage(ctx, p.file, p.family); err != nil {
			return err
		}
	}
	if p.facts["manager"] == "" {
		fmt.Fprintf(s.errOut, "Warning: %s has no systemd manager for user %s, so the agent is not installed: run `%s` there, log in again and repeat podtask host setup\n", s.host, p.facts["user"], p.manager)
	}
	if !p.agent {
		return nil
	}
	if p.copied {
		if err := s.installUnits(ctx); err != nil {
			return err
		}
	}
	if err := s.shell(ctx, starting, nil, s.out); err != nil {
		return s.shellError("start the agent", err)
	}
	return nil
}

// ask asks whether to continue.
func (s *setup) ask() error {
	if s.yes {
		return nil
	}
	if !s.asks {
		return command.Usagef("host setup", "there is no terminal to ask on: --yes does all of this without asking")
	}
	fmt.Fprint(s.out, "Continue? [y/N] ")
	answer, err := bufio.NewReader(s.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// programs returns the paths of this podtask's programs.
func (s *setup) programs() ([]string, error) {
	self, err := s.executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	programs := []string{self}
	for _, name := range []string{"podtask-compose", "podtask-ecs", "podtask-ingress", "podtask-kubelet", "podtask-netns", "podtask-user-generator"} {
		path := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			programs = append(programs, path)
		}
	}
	return programs, nil
}

// install copies files into a directory below the home of the host; all of them or none.
func (s *setup) install(ctx context.Context, dir string, paths []string) error {
	var all int64
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			all += info.Size()
		}
	}
	return s.send(ctx, dir, "podtask", all, func(t *tar.Writer) error {
		for i, path := range paths {
			name := filepath.Base(path)
			if i == 0 {
				name = "podtask" // whatever this program is called here
			}
			if err := sshhost.PackTree(t, path, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendPackage copies a package to the host and installs it there.
func (s *setup) sendPackage(ctx context.Context, file string, of family) error {
	f, err := userfile.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	read, write := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(s.showing(write, info.Size()), f)
		write.CloseWithError(err)
		sent <- err
	}()
	err = s.shell(ctx, fmt.Sprintf(installPackage, of.format, of.install), read, s.out)
	_ = read.Close()
	if sendErr := <-sent; err == nil {
		return sendErr
	}
	return s.shellError("install "+filepath.Base(file), err)
}

func (s *setup) installUnits(ctx context.Context) error {
	return s.send(ctx, ".config/systemd/user", "podtask.socket", 0, func(t *tar.Writer) error {
		return fs.WalkDir(unitFiles, "units", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := unitFiles.ReadFile(path)
			if err != nil {
				return err
			}
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: d.Name(), Mode: 0o644, Size: int64(len(text))}); err != nil {
				return err
			}
			_, err = t.Write(text)
			return err
		})
	})
}

// send writes an archive to the host, whose last file is last. All is its size in bytes; 0 shows no progress.
func (s *setup) send(ctx context.Context, dir, last string, all int64, pack func(*tar.Writer) error) error {
	read, write := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		t := tar.NewWriter(s.showing(write, all))
		err := pack(t)
		if err == nil {
			err = t.Close()
		}
		write.CloseWithError(err)
		packed <- err
	}()
	err := s.shell(ctx, fmt.Sprintf(install, dir, last), read, s.out)
	_ = read.Close()
	packErr := <-packed
	if err != nil {
		return s.shellError("copy to ~/"+dir, err)
	}
	return packErr
}

// showing returns w, on a terminal with the progress of all bytes.
func (s *setup) showing(w io.Writer, all int64) io.Writer {
	if all == 0 || !command.IsTerminal(s.errOut) {
		return w
	}
	var done int64
	last := time.Time{}
	return console.WriterFunc(func(b []byte) (int, error) {
		n, err := w.Write(b)
		done += int64(n)
		if now := time.Now(); now.Sub(last) >= pace {
			last = now
			fmt.Fprintf(s.errOut, "\r\x1b[Kcopied %s of %s\r", units.HumanSize(float64(min(done, all))), units.HumanSize(float64(all)))
		}
		return n, err
	})
}

func (s *setup) shellError(what string, err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%s: %s: the host's commands ended with %w", s.host, what, err)
	}
	return err
}

// doctor runs podtask doctor on the host.
func (s *setup) doctor(ctx context.Context) error {
	link, err := sshhost.Dial(ctx, s.host, s.options)
	if err != nil {
		return err
	}
	defer link.Close()
	code, err := link.Run(ctx, sshhost.Request{Args: []string{"doctor"}}, sshhost.Streams{Out: term.NewScreen(s.out), Err: term.NewScreen(s.errOut)})
	if err != nil {
		return err
	}
	return command.ExitWith(code)
}
