package compose

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// Loader reads files that are one project as Compose does, the later ones merged over the first, with the files
// that they include and extend, and the services without a profile or with one of the profiles. name is the name of the
// project; empty means that of the files, else of the directory of the first. It calls substitute to fill variables in.
// It leaves files of variables to the start of the task.
type Loader func(files []types.ConfigFile, name string, profiles []string, substitute func(text string, file template.Mapping) (string, error)) (*types.Project, error)

// Options are what a Compose file is read with.
type Options struct {
	// Load is composefile.Load.
	Load Loader
	// Lookup returns the variables for ${NAME}; nil has none. Those that Compose itself reads have the same meaning
	// here: COMPOSE_PROJECT_NAME, COMPOSE_PROFILES. COMPOSE_FILE is listed as lost.
	Lookup func(name string) (value string, ok bool)
	// Shell are the variables that only the environment of the user has, and no file: a unit or a service has none of them.
	Shell map[string]bool
	// Profiles choose services, as --profile of Compose does; with none of them COMPOSE_PROFILES does. Services without a
	// profile are always converted.
	Profiles []string
	// Override is the path of a file that is merged over the Compose file; empty for none. See ComposeOverride.
	Override string
	// Output is the directory, absolute, in which the result is written; empty means that of the file.
	Output string
}

// Convert converts a Compose file, with the files that it includes and extends. File is
// its path, to whose directory relative paths are relative; task is what the unit and the
// task are to be called. The error is for a file of which no valid definition can be made.
//
// o.Load reads the file as Compose does, so variables, anchors,
// extends, include, profiles and the names of volumes are as in Compose.
//
// All services become containers of one task, on a network of its own, where each is known
// by its name. A service that another waits for to complete is
// not essential; all others are.
func Convert(file, task string, src []byte, o Options) (convert.Result, error) {
	name := path.Base(file)
	if len(src) > maxText {
		return convert.Result{}, fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return convert.Result{}, templateError(name, src, fmt.Errorf("%s: %w", name, err))
	}
	c := conversion{Builder: convert.Builder{Name: name, Origin: printable(name), Dir: path.Dir(file)}, lines: numbered(&doc), given: o.Lookup, shell: o.Shell, public: map[string]bool{}, task: task, output: cmp.Or(o.Output, path.Dir(file))}
	if c.given == nil {
		c.given = func(string) (string, bool) { return "", false }
	}
	if c.lines.at("services") == 0 && c.lines.at("include") == 0 {
		return convert.Result{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	if err := c.load(file, src, o); err != nil {
		return convert.Result{}, templateError(name, src, err)
	}
	c.withoutCopies()
	names := c.inOrder(slices.Collect(maps.Keys(c.project.Services)), "services")
	switch {
	case len(names) == 0:
		return convert.Result{}, fmt.Errorf("%s has no services to convert%s", name, c.leftOut())
	case len(names) > maxServices:
		return convert.Result{}, fmt.Errorf("%s has %d services, and a task has at most 10 containers: write a file for each task", name, len(names))
	}
	if err := c.refuse(names); err != nil {
		return convert.Result{}, err
	}
	c.reserve()
	for _, name := range names {
		c.Def.Containers = append(c.Def.Containers, c.withHooks(c.project.Services[name])...)
	}
	c.settle()
	c.params()
	c.notCarried()
	c.processes(names)
	copies := c.copies()
	var listen []string
	if copies > 1 {
		listen = c.listen()
	}
	slices.SortFunc(c.Lost, func(a, b convert.Loss) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
	r, err := c.Result(task)
	if err != nil {
		return convert.Result{}, err
	}
	r.Copies, r.Listen, r.Files, r.RunFlags, r.Form = copies, listen, c.files, c.flags, c.form(names)
	if _, _, err := taskdef.Parse(task+".json", r.Definition); err != nil {
		return convert.Result{}, c.inFile(err)
	}
	return r, nil
}

// form says that the services become one task, and whether a stack fits better.
func (c *conversion) form(names []string) string {
	if len(names) < 2 {
		return ""
	}
	var apart, keep []string
	for _, name := range names {
		s := c.project.Services[name]
		for _, of := range names {
			if c.project.Services[of].DependsOn[name].Condition == types.ServiceConditionCompletedSuccessfully {
				apart = append(apart, name+" runs to its end")
				break
			}
		}
		if n := s.GetScale(); n > 1 {
			apart = append(apart, fmt.Sprintf("%s has %d copies", name, n))
		}
		if slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Type == types.VolumeTypeVolume && !v.ReadOnly }) {
			keep = append(keep, name)
		}
	}
	if len(keep) > 1 {
		apart = append(apart, strings.Join(keep, " and ")+" keep data of their own")
	}
	other := "is for services that are updated apart"
	if len(apart) > 0 {
		other = "fits better, because " + strings.Join(apart, ", ")
	}
	return fmt.Sprintf("the %d services become one task, with one update, one restart and one failure for all; a stack (podtask stack up %s) %s", len(names), c.Name, other)
}

// templateError returns the error of a file that cannot be read, or that it is a template.
func templateError(name string, src []byte, err error) error {
	if tag, found := unrendered.Find(src); found {
		return fmt.Errorf("%s:%d:%d: %q is a tag of a template that was not rendered: %s", name, tag.Line, tag.Col, tag.Tag, unrendered.Fix)
	}
	return err
}

// Bounds of a Compose file and of the files that it reads.
const (
	maxText     = 1 << 20 // bytes of each
	maxServices = 100
	maxFiles    = 100
)

// conversion is the conversion of one file.
type conversion struct {
	convert.Builder
	lines   lines
	project *types.Project
	// given returns the variables of the user for ${NAME}.
	given func(name string) (string, bool)
	// shell are the variables that only the environment has.
	shell map[string]bool
	// public are the files of secrets that other users can read.
	public map[string]bool
	// task is the name of the result, output the directory in which it is written, with files.
	task, output string
	files        []convert.File
	flags        []string // of the command that runs the result
	// stack: each group of services becomes a task of its own; nil for one task.
	stack *stackParts
}

// refuse returns an error for services that cannot become containers, each with its place.
func (c *conversion) refuse(names []string) error {
	var errs []error
	for _, name := range names {
		s := c.project.Services[name]
		at := func(member string) string {
			return fmt.Sprintf("%s: %s.%s", c.Place(c.lines.at("services", name, member)), name, member)
		}
		if tag := unrendered.Tag(s.Image); tag != "" {
			errs = append(errs, fmt.Errorf("%s: %q is a tag of a template that was not rendered: %s", at("image"), tag, unrendered.Fix))
		}
		if s.Provider != nil {
			errs = append(errs, fmt.Errorf("%s: the program %s makes it, which podtask does not run: leave the service out, and write what it gives to the others, such as an address, into their environment", at("provider"), s.Provider.Type))
		}
		if len(s.Models) > 0 && s.Provider == nil {
			c.Lose(c.lines.at("services", name, "models"), "%s.models: no model is served: run a server of models as a service, and write its address and the name of the model into the environment", name)
		}
		if s.Build != nil && s.Image != "" {
			c.Lose(c.lines.at("services", name, "build"), "%s.build: podtask builds no images: run `podman build -t %s %s`", name, s.Image, c.relative(s.Build.Context))
		}
		if s.Build != nil && s.Image == "" {
			image := "localhost/" + strings.ToLower(c.project.Name) + "-" + name
			context := c.relative(s.Build.Context)
			errs = append(errs, fmt.Errorf("%s: podtask builds no images: run `podman build -t %s %s`, and write image: %s", at("build"), image, context, image))
		}
		if of, shares := strings.CutPrefix(s.NetworkMode, "service:"); shares && !c.allShare(of) {
			errs = append(errs, fmt.Errorf("%s: %s would share the network of %s alone, and the containers of a task either all share one or each have their own: give all services but %s network_mode service:%s, or put these two into a file of their own", at("network_mode"), name, of, of, of))
		}
	}
	return errors.Join(errs...)
}

// allShare reports whether all services but one have the network of that one.
func (c *conversion) allShare(of string) bool {
	for name, s := range c.project.Services {
		if name != of && s.NetworkMode != "service:"+of {
			return false
		}
	}
	return true
}

// settle does what needs all services.
func (c *conversion) settle() {
	completes := map[string]bool{}
	for _, s := range c.project.Services {
		for name, d := range s.DependsOn {
			if d.Condition == types.ServiceConditionCompletedSuccessfully {
				completes[name] = true
			}
		}
	}
	for i := range c.Def.Containers {
		ctr := &c.Def.Containers[i]
		if completes[ctr.Name] {
			ctr.Essential, ctr.Restart = false, nil
		}
		// The task has not succeeded if this one ends before it is healthy, and those that wait for it never start.
		if ctr.Restart == nil && slices.ContainsFunc(c.Def.Containers, func(other convert.Container) bool {
			return slices.Contains(other.DependsOn, convert.Dependency{Container: ctr.Name, Condition: conditions[types.ServiceConditionHealthy]})
		}) {
			ctr.Essential = false
		}
	}
	c.Unit.Install = []string{"WantedBy=default.target"}
	c.Unit.Service = []string{"Restart=on-failure"}
	c.network()
	c.namespaces()
	c.names()
}

// names makes containers known under the names that the file gives them besides that of their service:
// aliases on a network, container_name and links. A link of a definition is known to all containers of a
// task; the container that has it starts after the one that it names.
func (c *conversion) names() {
	if c.stack != nil {
		return // the stack has them
	}
	for i := range c.Def.Containers {
		ctr := &c.Def.Containers[i]
		s := c.project.Services[ctr.Name]
		for _, link := range s.Links {
			if of, alias, named := strings.Cut(link, ":"); named && of != alias {
				c.alias(of, alias, c.lines.at("services", ctr.Name, "links"))
			}
		}
		aliases := []string{s.ContainerName}
		for _, name := range slices.Sorted(maps.Keys(s.Networks)) {
			if n := s.Networks[name]; n != nil {
				aliases = append(aliases, n.Aliases...)
			}
		}
		for _, alias := range aliases {
			if alias != "" && alias != ctr.Name {
				c.alias(ctr.Name, alias, c.lines.at("services", ctr.Name))
			}
		}
	}
}

// alias makes a container known to the others under another name.
func (c *conversion) alias(of, alias string, line int) {
	link := of + ":" + alias
	after := c.startsAfter(of)
	host := -1
	for i, ctr := range c.Def.Containers {
		if slices.Contains(ctr.Links, link) {
			return
		}
		depends := slices.ContainsFunc(ctr.DependsOn, func(d convert.Dependency) bool { return d.Container == of })
		if ctr.Name != of && !after[ctr.Name] && (host < 0 || depends) {
			host = i
		}
	}
	if host < 0 || c.Def.NetworkMode == "host" || c.Def.Extensions != nil {
		c.Lose(line, "%s: the name %s: only %s leads to it", of, alias, of)
		return
	}
	c.Def.Containers[host].Links = append(c.Def.Containers[host].Links, link)
}

// startsAfter returns the containers that a container waits for, directly or not, by dependsOn or links.
func (c *conversion) startsAfter(name string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		for _, ctr := range c.Def.Containers {
			if ctr.Name != name {
				continue
			}
			before := make([]string, 0, len(ctr.DependsOn)+len(ctr.Links))
			for _, d := range ctr.DependsOn {
				before = append(before, d.Container)
			}
			for _, link := range ctr.Links {
				of, _, _ := strings.Cut(link, ":")
				before = append(before, of)
			}
			for _, other := range before {
				if !seen[other] {
					seen[other] = true
					visit(other)
				}
			}
		}
	}
	visit(name)
	return seen
}

// namespaces takes over the processes and the shared memory of the host, which a task has for all of its containers.
func (c *conversion) namespaces() {
	for member, of := range map[string]struct {
		mode func(types.ServiceConfig) string
		to   *string
	}{
		"pid": {func(s types.ServiceConfig) string { return s.Pid }, &c.Def.PIDMode},
		"ipc": {func(s types.ServiceConfig) string { return s.Ipc }, &c.Def.IPCMode},
	} {
		all := len(c.project.Services) > 0
		for _, s := range c.project.Services {
			all = all && of.mode(s) == "host"
		}
		if all {
			*of.to = "host"
			continue
		}
		row := composeMembers()["services."+member]
		for name, s := range c.project.Services {
			if of.mode(s) != "" {
				c.Lose(c.lines.at("services", name, member), "%s.%s %s: %s: %s", name, member, of.mode(s), members.Plain(row.Note), members.Plain(row.Remedy))
			}
		}
	}
}

// network takes over the network of the host if all services use it.
func (c *conversion) network() {
	onHost := 0
	for _, s := range c.project.Services {
		if s.NetworkMode == "host" {
			onHost++
		}
	}
	if onHost == len(c.project.Services) {
		c.Def.NetworkMode = "host"
		return
	}
	for name := range c.project.Services {
		if len(c.project.Services) > 1 && c.allShare(name) {
			c.Share()
			return
		}
	}
	for name, s := range c.project.Services {
		if m := s.NetworkMode; m != "" && m != "bridge" {
			c.Lose(c.lines.at("services", name, "network_mode"), "%s.network_mode %s: each container has its own address on the network of the task", name, m)
		}
	}
}

// processes takes over the limits of processes. A task has one for all of its containers.
func (c *conversion) processes(names []string) {
	total, lines := int64(0), map[string]int{}
	for _, name := range names {
		s := c.project.Services[name]
		limit, line := s.PidsLimit, c.lines.at("services", name, "pids_limit")
		if d := s.Deploy; d != nil && d.Resources.Limits != nil && d.Resources.Limits.Pids != 0 {
			limit, line = d.Resources.Limits.Pids, c.lines.at("services", name, "deploy", "resources", "limits", "pids")
		}
		if limit > 0 {
			total += limit
			lines[name] = line
		}
	}
	if len(lines) == 0 {
		return
	}
	if len(lines) < len(names) {
		for _, name := range names {
			if line, limited := lines[name]; limited {
				c.Lose(line, "%s: a task has one limit of processes for all containers, and not all services have one: give --pids-limit, or TasksMax= in [Task]", name)
			}
		}
		return
	}
	c.Unit.Task = append(c.Unit.Task, fmt.Sprintf("TasksMax=%d", total))
	c.flags = append(c.flags, "--pids-limit", strconv.FormatInt(total, 10))
}

// withoutCopies leaves out the services of which Compose starts none.
func (c *conversion) withoutCopies() {
	for name, s := range c.project.Services {
		if s.GetScale() == 0 {
			c.Lose(c.lines.at("services", name), "service %s: it has no replicas", name)
			delete(c.project.Services, name)
		}
	}
}

// copies is the number of copies of the task that the services want.
func (c *conversion) copies() int {
	wanted := map[int]bool{}
	for _, s := range c.project.Services {
		wanted[s.GetScale()] = true
	}
	if len(wanted) == 1 {
		for n := range wanted {
			return n
		}
	}
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.project.Services)), "services") {
		if s := c.project.Services[name]; s.GetScale() != 1 {
			c.Lose(c.lines.at("services", name, "deploy", "replicas"), "%s has %d replicas: a task has one; "+
				"`podtask service create NAME FILE --count N` keeps N copies of the whole task", name, s.GetScale())
		}
	}
	return 1
}

// listen takes the fixed host ports out of the definition, because only one copy could have
// each, and returns the addresses at which a service forwards connections to all copies.
func (c *conversion) listen() (addresses []string) {
	for i := range c.Def.Containers {
		ctr := &c.Def.Containers[i]
		for k := range ctr.PortMappings {
			p := &ctr.PortMappings[k]
			if p.HostPort == 0 {
				continue
			}
			address := fmt.Sprintf("%d=%s:%d", p.HostPort, ctr.Name, p.ContainerPort)
			if p.Extra != nil && p.Extra.HostIP != "" {
				address = net.JoinHostPort(p.Extra.HostIP, address)
			}
			if p.Protocol == "udp" {
				c.Lose(c.lines.at("services", ctr.Name, "ports"), "port %d/udp of %s: each copy gets a free port, because a service forwards TCP only", p.HostPort, ctr.Name)
			} else {
				addresses = append(addresses, address)
			}
			p.HostPort = 0
		}
	}
	return addresses
}

// sharedNetwork says how services of a network that other projects are on too are reached by name. called is the name of the
// network in Podman.
func (c *conversion) sharedNetwork(name, called string) {
	var flags strings.Builder
	for _, ctr := range c.Def.Containers {
		on, connected := c.project.Services[ctr.Name].Networks[name]
		if !connected {
			continue
		}
		names := []string{ctr.Name}
		if on != nil {
			names = append(names, on.Aliases...)
		}
		for _, p := range ctr.PortMappings {
			if p.Protocol == "udp" {
				continue
			}
			for _, n := range names {
				fmt.Fprintf(&flags, " --name-as %s:%d=%s:%d", n, p.ContainerPort, ctr.Name, p.ContainerPort)
			}
		}
	}
	if flags.Len() > 0 {
		c.Lose(c.lines.at("networks", name), "networks.%s: others on this network reach the task by name if it is a service: `podtask service create NAME FILE --namespace %s%s`", name, called, flags.String())
	}
}

// notCarried lists what the file has outside of services and a task does not.
func (c *conversion) notCarried() {
	for name, s := range c.project.DisabledServices {
		c.Lose(c.lines.at("services", name), "service %s: none of its profiles is chosen (%s)", name, strings.Join(s.Profiles, ", "))
	}
	if line := c.lines.at("networks"); line != 0 && c.stack == nil {
		c.Lose(line, "networks: the containers of a task share one")
	}
	for _, name := range slices.Sorted(maps.Keys(c.project.Networks)) {
		n := c.project.Networks[name]
		switch {
		case bool(n.External) && c.stack != nil:
			c.Lose(c.lines.at("networks", name), "networks.%s: it is shared with other projects, and a stack has the names of its own services only", name)
		case bool(n.External):
			c.sharedNetwork(name, cmp.Or(n.Name, name))
		}
		if n.Internal {
			c.Lose(c.lines.at("networks", name, "internal"), "networks.%s.internal: the containers of a task reach other hosts", name)
		}
	}
	c.left(*c.project, c.lines.path(), "")
	for name, v := range c.project.Volumes {
		if v.Driver == "local" { // it is the only one
			v.Driver = ""
		}
		c.left(v, c.lines.path("volumes", name), "volumes")
	}
	for name, s := range c.project.Configs {
		c.left(types.FileObjectConfig(s), c.lines.path("configs", name), "configs")
	}
	for name, s := range c.project.Secrets {
		c.left(types.FileObjectConfig(s), c.lines.path("secrets", name), "secrets")
	}
}

// leftOut explains why no service is left.
func (c *conversion) leftOut() string {
	if len(c.project.DisabledServices) == 0 {
		return ""
	}
	return ": each has profiles, of which none is chosen"
}

// reserve keeps the names of the file's volumes from paths of the host.
func (c *conversion) reserve() {
	for _, v := range c.project.Volumes {
		c.Reserved = append(c.Reserved, v.Name)
	}
}
