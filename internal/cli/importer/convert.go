package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/define/foreign/kubernetes"
	"github.com/podtask/podtask/internal/define/foreignfile"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// ImportCommand is `podtask import`.
func ImportCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "make a task definition from files of other tools, or from a task",
		ArgsUsage: "FILE|DIR|-|TASK",
		Description: `Writes NAME.json and, for a single task, NAME.task, for podtask run and podtask unit
install. FILE is a Compose file (.yaml), a Kubernetes Pod (.yaml), a .container, or a
.pod with the .container files beside it that name it; a list of containers or a plan or
state of Terraform (terraform show -json), a template of CloudFormation, the cdk.out or a
template of CDK, an ecspresso.yml, or a manifest.yml of Copilot; - is standard input, as
for helm template and kustomize build. docs/importing.md says what becomes of each.

What cannot be converted is listed with its line. The definition passes podtask validate,
or nothing is written. For a service or a schedule the command that makes it is printed.
Where a file has several services, --service chooses one. Values that the file does not
have are asked for: --param NAME=VALUE gives them.

Variables of a Compose file come from the environment and from the file .env beside it,
COMPOSE_PROJECT_NAME and COMPOSE_PROFILES too. The files that it includes or extends are
read, and with compose.yaml the compose.override.yaml beside it.
Services with profiles are left out unless --profile chooses one of theirs.

With --host the task is one of that host; the files are written here.

Examples:
  podtask import --name shop compose.yaml
  podtask import --name shop --profile debug --output units compose.yaml
  podtask import ~/.config/containers/systemd/shop.pod
  podtask import --service web --param Tag=1.27 template.yaml
  podtask import --dry-run web
  podtask --host ssh://box import web`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `DIR`", DefaultText: "."},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be written"},
			&cli.StringFlag{Name: "name", Usage: "call the task and the unit `NAME`", DefaultText: "the name of the file; for a Compose file, its project name or its directory"},
			&cli.StringFlag{Name: "service", Usage: "import the service, schedule or task definition `NAME` of a file with several"},
			command.ParamFlag(),
			&cli.StringFlag{Name: "environment", Usage: "apply the settings of the environment `NAME` of a Copilot manifest"},
			&cli.BoolFlag{Name: "yaml", Usage: "write the definition as YAML"},
			&cli.StringFlag{Name: "format", Usage: "print what was made and lost in `FORMAT` " + command.ItemFormats},
			&cli.StringSliceFlag{Name: "profile", Usage: "include the services of `PROFILE` of a Compose file"},
			&cli.BoolFlag{Name: "replace", Usage: "replace files that are there"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return command.Usagef("import", "import takes one FILE or TASK, not %d arguments", c.Args().Len())
			}
			return newImporter(p).run(c, c.Args().First())
		},
	}
}

// importer is what `podtask import` uses: it makes definitions and units from other documents and from tasks.
type importer struct {
	in          io.Reader
	out, errOut io.Writer
	getenv      func(name string) string
	environ     func() []string
	findProgram func(name string) (string, error)
	findTask    func(c *cli.Context, ref string) (lifecycle.State, error)
	findHost    func(c *cli.Context) (command.ChosenHost, error)
	hostOptions func() sshhost.Options
}

// importRequest is a file or task that is converted, with the flags of the command line.
type importRequest struct {
	from     string
	name     string // of the task and the unit
	dir      string // the directory of the output
	dryRun   bool
	replace  bool
	profiles []string // of a Compose file
}

func (i importer) parse(c *cli.Context, from string) (importRequest, error) {
	r := importRequest{
		from: from, name: i.outputName(c, from), dir: cmp.Or(c.String("output"), "."),
		dryRun: c.Bool("dry-run"), replace: c.Bool("replace"), profiles: c.StringSlice("profile"),
	}
	if ext := filepath.Ext(from); strings.HasSuffix(r.name, "@") && (ext == ".container" || ext == ".pod") {
		return r, command.Usagef(command.Path(c), "%s: a template: import an instance of it, with the file named as in %sINSTANCE%s and --name NAME", from, strings.TrimSuffix(filepath.Base(from), ext), ext)
	}
	if !serve.ValidTaskName(r.name) {
		return r, command.Usagef(command.Path(c), "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", r.name)
	}
	return r, nil
}

func newImporter(p *command.Program) importer {
	return importer{
		in: p.Stdin, out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, environ: p.Environ, findProgram: p.FindProgram,
		findTask: p.FindTask, findHost: p.FindOneHost, hostOptions: p.HostOptions,
	}
}

// outputName returns the name of the task and the unit that a file is converted to.
func (i importer) outputName(c *cli.Context, from string) string {
	if name := c.String("name"); name != "" {
		return name
	}
	if c.Command.Name != "import" {
		return stem(from)
	}
	vars, _, _ := i.composeVariables(filepath.Dir(from)) // convert reports the error
	return projectName(from, vars)
}

// stem returns the name of a file without its extension.
func stem(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// projectName returns the name of the project in a Compose file of one of the usual names; else it is that of the file.
func projectName(file string, vars map[string]string) string {
	name := stem(file)
	if usual := strings.TrimPrefix(name, "docker-"); usual != "compose" && usual != "podman-compose" {
		return name
	}
	if project := vars["COMPOSE_PROJECT_NAME"]; serve.ValidTaskName(project) {
		return project
	}
	if project := composeName(file); project != "" {
		return project
	}
	if dir, err := filepath.Abs(filepath.Dir(file)); err == nil {
		return validName(filepath.Base(dir))
	}
	return name
}

// validName returns the name of a directory, or where that is none of a task, what Compose makes of it: its lower-case letters,
// digits, dashes and underscores.
func validName(dir string) string {
	if serve.ValidTaskName(dir) {
		return dir
	}
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(dir))
	return cmp.Or(strings.TrimLeft(name, "-_"), dir)
}

// composeName returns the project name in a Compose file; empty if it has none, or one with
// variables.
func composeName(file string) string {
	src, err := command.ReadSmall(file)
	if err != nil {
		return "" // convert reports it
	}
	var project struct {
		Name string `yaml:"name"`
	}
	if yaml.Unmarshal(src, &project) != nil || !serve.ValidTaskName(project.Name) {
		return ""
	}
	return project.Name
}

// outputFile is a file that the importer writes.
type outputFile struct {
	path string
	data []byte
}

// MarshalJSON writes the path and the content, both as text.
func (f outputFile) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"path": f.path, "content": string(f.data)})
}

// run converts a document or task and writes the result.
func (i importer) run(c *cli.Context, from string) error {
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	host, err := i.findHost(c)
	switch {
	case err != nil:
		return err
	case host.Remote() && namesTask(from):
		return i.importThere(c, host, from)
	case host.Asked && host.Remote():
		return fmt.Errorf("podtask %s %s does not work on %s: files are read and written on this machine; `podtask --host %s unit install` installs what it writes", command.Path(c), from, host.Host, host.Word)
	}
	file, err := foreignfile.Find(from, i.in)
	if err != nil {
		return err
	}
	if file != nil && !i.onePod(c, *file) {
		return i.importForeign(c, *file)
	}
	for _, flag := range []string{"service", "param", "environment"} {
		if c.IsSet(flag) {
			return command.Usagef(command.Path(c), "--%s: %s is not a file that has any (docs/importing.md)", flag, from)
		}
	}
	req, err := i.parse(c, from)
	if err != nil {
		return err
	}
	r, err := i.convert(c, req)
	if err != nil {
		return err
	}
	if c.Bool("yaml") && !r.yaml {
		r.yaml = true
		if r.Result, err = yamlDefinition(r.Result); err != nil {
			return err
		}
	}
	report := importReport{Kind: r.kind, Name: req.name, Form: r.Form, Files: []outputFile{{filepath.Join(req.dir, req.name+r.extension()), r.Definition}}}
	for _, l := range r.Lost {
		report.Lost = append(report.Lost, taskdef.Problem{Message: term.Line(l)})
	}
	for _, n := range r.Needs {
		report.Needs = append(report.Needs, taskdef.Problem{Message: term.Line(n)})
	}
	if r.Copies == 1 { // a unit runs one task
		report.Files = append(report.Files, outputFile{filepath.Join(req.dir, req.name+taskunit.Extension), []byte(r.Unit)})
	}
	for _, f := range r.Files {
		report.Files = append(report.Files, outputFile{filepath.Join(req.dir, f.Name), f.Data})
	}
	if r.Copies > 1 {
		report.Commands = append(report.Commands, serviceLine(req.name, report.Files[0].path, r.Result))
	} else {
		report.Commands = append(report.Commands, strings.Join(append([]string{"podtask run -d --wait=healthy --name", req.name, shellWord(report.Files[0].path)}, r.RunFlags...), " "))
	}
	return i.finish(c, req, report)
}

// onePod reports whether a file is a manifest that podtask runs as it is, so that its text can stay.
func (i importer) onePod(c *cli.Context, f foreignfile.File) bool {
	if ext := filepath.Ext(f.Base); f.Dir == "" || c.IsSet("service") || ext != ".yaml" && ext != ".yml" {
		return false
	}
	return kubernetes.OnePod(f.Name, f.Source)
}

// write writes the files and prints their names. A Pod that is converted in place stays as it is.
func (i importer) write(out io.Writer, req importRequest, files []outputFile) error {
	for _, f := range files {
		if _, err := os.Lstat(f.path); err == nil && !req.replace && !sameFile(f.path, req.from) {
			return fmt.Errorf("%s already exists: overwrite it with --replace, or write elsewhere with --output DIR", f.path)
		}
	}
	if err := os.MkdirAll(req.dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if !sameFile(f.path, req.from) {
			// Variables may hold secrets.
			if err := atomicfile.Write(f.path, f.data, 0o600); err != nil {
				return err
			}
		}
		fmt.Fprintln(out, f.path)
	}
	return nil
}

// serviceLine returns the command line, for a shell, that runs the replicas of a Compose file as a
// service.
func serviceLine(name, file string, r convert.Result) string {
	line := fmt.Sprintf("podtask service create %s %s --count %d", name, shellWord(file), r.Copies)
	for _, address := range r.Listen {
		line += " --listen " + address
	}
	for _, flag := range r.RunFlags {
		line += " " + flag
	}
	return line + " --wait"
}

// shellWord quotes a file for a shell where that is needed.
func shellWord(file string) string {
	plain := func(c rune) bool {
		return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("/._-+@:,", c)
	}
	if !strings.ContainsFunc(file, func(c rune) bool { return !plain(c) }) {
		return file
	}
	return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
}

// sameFile reports whether two paths are those of one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// convert converts a source. The extension tells its kind; a name that is not a file is a task.
func (i importer) convert(c *cli.Context, req importRequest) (conversion, error) {
	from, name := req.from, req.name
	path, err := filepath.Abs(from)
	if err != nil {
		return conversion{}, err
	}
	src, err := command.ReadSmall(path)
	switch ext := filepath.Ext(from); {
	case errors.Is(err, fs.ErrNotExist) && namesTask(from):
		return jsonConversion("a task")(i.task(c, from, name))
	case err != nil:
		return conversion{}, fmt.Errorf("read what is to be converted: %w", err)
	case ext == ".yaml" || ext == ".yml":
		if taskdef.ReadSource(path, src).Manifest() {
			return i.pod(path, name, src)
		}
		r, err := i.request(path, name, src)
		if err != nil {
			return conversion{}, err
		}
		r.Profiles = req.profiles
		if r.Output, err = filepath.Abs(req.dir); err != nil {
			return conversion{}, err
		}
		return jsonConversion("a Compose file")(i.compose(c.Context, r))
	case ext == ".container":
		f, err := withDropIns(taskunit.Read(path, string(src)))
		if err != nil {
			return conversion{}, err
		}
		return jsonConversion("a Quadlet file")(quadlet.Convert(name, withNamed(f), i.manager()))
	case ext == ".pod":
		files, err := membersOf(path)
		if err != nil {
			return conversion{}, err
		}
		f, err := withDropIns(taskunit.Read(path, string(src)))
		if err != nil {
			return conversion{}, err
		}
		return jsonConversion("a Quadlet file")(quadlet.Convert(name, withNamed(append(files, f)...), i.manager()))
	}
	if instead := quadlet.Instead(filepath.Ext(from)); instead != "" {
		return conversion{}, command.Usagef(command.Path(c), "%s: a %s file is not imported: %s", from, filepath.Ext(from), members.Plain(instead))
	}
	return conversion{}, command.Usagef(command.Path(c), "%s: it is a Compose file or a Pod (.yaml), a .pod, a .container or a task", from)
}

// conversion is the result of a conversion. A Pod remains YAML.
type conversion struct {
	convert.Result
	kind string // of the source
	yaml bool
}

func (r conversion) extension() string {
	if r.yaml {
		return ".yaml"
	}
	return ".json"
}

// jsonConversion returns the result of a conversion to JSON. Kind is what was converted.
func jsonConversion(kind string) func(r convert.Result, err error) (conversion, error) {
	return func(r convert.Result, err error) (conversion, error) { return conversion{Result: r, kind: kind}, err }
}

// pod makes a unit for a Kubernetes manifest, which podtask runs as it is.
func (i importer) pod(path, name string, src []byte) (conversion, error) {
	_, f, err := command.Definition{}.Check(define.Document{Name: path, Dir: filepath.Dir(path), Source: src})
	if err != nil {
		return conversion{}, err
	}
	f.Print(i.errOut)
	if !f.Valid {
		return conversion{}, command.ExitStatus(command.ExitInvalid)
	}
	unit, err := unitFor(name, ".yaml")
	return conversion{convert.Result{Definition: src, Unit: unit, Copies: 1}, "a Kubernetes manifest", true}, err
}

// composeVariables returns the variables of a Compose file in a directory, and the names of those that only the environment has.
func (i importer) composeVariables(dir string) (vars map[string]string, shell map[string]bool, err error) {
	return i.caller().Variables(dir)
}

// readBeside reads a file that lies beside the imported one. The user did not name it, so a named pipe is an error: a read
// would wait for its writer.
func readBeside(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return command.ReadSmall(name)
}

// manager is what this user's systemd has for the specifiers of a unit.
func (i importer) manager() quadlet.Manager {
	m := quadlet.Manager{UID: strconv.Itoa(os.Getuid()), GID: strconv.Itoa(os.Getgid()), Home: i.getenv("HOME"), Shell: i.getenv("SHELL"), Runtime: i.getenv("XDG_RUNTIME_DIR")}
	if u, err := user.Current(); err == nil {
		m.User, m.Home = u.Username, cmp.Or(m.Home, u.HomeDir)
		if g, err := user.LookupGroupId(u.Gid); err == nil {
			m.Group = g.Name
		}
	}
	if m.Home != "" {
		m.Config = cmp.Or(i.getenv("XDG_CONFIG_HOME"), filepath.Join(m.Home, ".config"))
		m.State = cmp.Or(i.getenv("XDG_STATE_HOME"), filepath.Join(m.Home, ".local/state"))
		m.Cache = cmp.Or(i.getenv("XDG_CACHE_HOME"), filepath.Join(m.Home, ".cache"))
	}
	return m
}

// membersOf reads the .container files beside a .pod that name it.
func membersOf(pod string) ([]taskunit.File, error) {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(pod), "*.container"))
	if err != nil {
		return nil, err
	}
	var out []taskunit.File
	for _, path := range paths {
		if strings.HasSuffix(path, "@.container") {
			continue // a template, of which Quadlet runs instances only
		}
		text, err := readBeside(path)
		if err != nil {
			return nil, err
		}
		f, err := withDropIns(taskunit.Read(path, string(text)))
		if err != nil {
			return nil, err
		}
		for _, a := range f.Assignments() {
			if a.Section == "Container" && a.Key == "Pod" && a.Value == filepath.Base(pod) {
				out = append(out, f)
				break
			}
		}
	}
	return out, nil
}

// withDropIns merges the drop-ins beside a file, as Quadlet does: those of web.container are the *.conf of
// web.container.d and container.d.
func withDropIns(f taskunit.File) (taskunit.File, error) {
	paths := map[string]string{}
	for _, sub := range taskunit.DropInDirs(filepath.Base(f.Path)) {
		dir := filepath.Join(filepath.Dir(f.Path), sub)
		found, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("read the drop-ins of %s: %w", filepath.Base(f.Path), err)
		}
		for _, e := range found {
			if name := e.Name(); filepath.Ext(name) == ".conf" && paths[name] == "" {
				paths[name] = filepath.Join(dir, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		text, err := readBeside(paths[name])
		if err != nil {
			return f, fmt.Errorf("read a drop-in of %s: %w", filepath.Base(f.Path), err)
		}
		f = f.With(taskunit.Read(paths[name], string(text)))
	}
	return f, nil
}

// withNamed adds the .volume and .image files beside the files that name them. Quadlet reports those that do
// not exist.
func withNamed(files ...taskunit.File) []taskunit.File {
	extensions := map[string]string{"Volume": ".volume", "Image": ".image"}
	read := map[string]bool{}
	out := files
	for _, f := range files {
		for _, a := range f.Assignments() {
			name, _, _ := strings.Cut(a.Value, ":")
			path := filepath.Join(filepath.Dir(f.Path), name)
			if extension := extensions[a.Key]; extension == "" || filepath.Ext(name) != extension || read[path] {
				continue
			}
			read[path] = true
			if text, err := readBeside(path); err == nil {
				if f, err := withDropIns(taskunit.Read(path, string(text))); err == nil {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// task converts a recorded task.
func (i importer) task(c *cli.Context, ref, name string) (convert.Result, error) {
	st, err := i.findTask(c, ref)
	if err != nil {
		return convert.Result{}, err
	}
	_, runtimeDir, err := command.Dirs(i.getenv, "")
	if err != nil {
		return convert.Result{}, err
	}
	return convert.Task(name, st.Task, convert.Sent(command.SentDir(runtimeDir)))
}
