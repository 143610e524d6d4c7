package compose

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
)

// StackResult names what came of a Compose project that becomes several services and jobs.
type StackResult struct {
	// Name is the one of the project.
	Name    string
	Members []StackMember
	// Lost, Needs and Files are as in Result.
	Lost, Needs []string
	Files       []convert.File
	// Secrets are to be kept by Podman under their names.
	Secrets []convert.File
	Volumes []StackVolume
}

// StackMember is a service of the project, with those that share its namespaces or volumes.
type StackMember struct {
	// Name is the one of the service, Object the one on the host.
	Name, Object string
	// Place is FILE:LINE.
	Place string
	// Definition is a task definition, JSON.
	Definition []byte
	// Job: it runs to its end, and Why says how that is known.
	Job bool
	Why string
	// Copies describes how many copies of it the project wants.
	Copies int
	// Listen are the addresses that the project publishes: [IP:]PORT=CONTAINER:PORT.
	Listen []string
	// Names lists those by which others reach it, Ports the TCP ports that the file says it has.
	Names []StackName
	// After are the members that it waits for.
	After []StackDependency
	// StopFirst: a copy stops before the next one starts, and WhyStop says why.
	StopFirst bool
	WhyStop   string
	// PIDs limits its processes; 0 for no limit.
	PIDs int64
}

// StackName is a name of a container of a member, with the TCP ports that the file says it has.
type StackName struct {
	Name, Container string
	Ports           []uint16
}

// StackDependency is a member that another one waits for, in the words of Compose.
type StackDependency struct {
	Name, Condition string
	Place           string // FILE:LINE
}

// ConvertStack converts a Compose file as Compose does, except that each service becomes a task definition of its own. Services that share
// a network namespace, another namespace or the volumes of one another are one.
func ConvertStack(file, task string, src []byte, o Options) (StackResult, error) {
	name := path.Base(file)
	var doc yaml.Node
	if len(src) > maxText {
		return StackResult{}, fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return StackResult{}, templateError(name, src, fmt.Errorf("%s: %w", name, err))
	}
	c := conversion{Builder: convert.Builder{Name: name, Dir: path.Dir(file)}, lines: numbered(&doc), given: o.Lookup, shell: o.Shell, public: map[string]bool{}, task: task, output: cmp.Or(o.Output, path.Dir(file)), stack: &stackParts{}}
	if c.given == nil {
		c.given = func(string) (string, bool) { return "", false }
	}
	if c.lines.at("services") == 0 && c.lines.at("include") == 0 {
		return StackResult{}, fmt.Errorf("%s is not a Compose file: it has no services", name)
	}
	if errs := c.faults(&doc); errs != nil {
		return StackResult{}, errs
	}
	if err := c.load(file, src, o); err != nil {
		return StackResult{}, templateError(name, src, err)
	}
	c.withoutCopies()
	if len(c.project.Services) == 0 {
		return StackResult{}, fmt.Errorf("%s has no services to convert%s", name, c.leftOut())
	}
	return c.asStack()
}

// stackParts name what the conversion of a stack gathers beside its members.
type stackParts struct {
	all     types.Services // of the project, while that has one member's only
	secrets []convert.File
}

// faults finds all dependencies on what is not in the file, all circles and all names that are there twice; the library reports the first.
// What other files add is not known here, so that nothing is reported of a file that has other files.
func (c *conversion) faults(doc *yaml.Node) error {
	services := memberOf(doc, "services")
	if services == nil || services.Kind != yaml.MappingNode {
		return nil
	}
	var errs []error
	tell := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %w", c.Name, line, fmt.Errorf(format, args...)))
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(services.Content); i += 2 {
		key := services.Content[i]
		if before := seen[key.Value]; before > 0 {
			tell(key.Line, "service %s is there twice: the other one is in line %d", key.Value, before)
		}
		seen[key.Value] = cmp.Or(seen[key.Value], key.Line)
	}
	if memberOf(doc, "include") != nil || strings.Contains(strings.Join(slices.Collect(maps.Keys(c.lines)), " "), "\x00extends") {
		return errors.Join(errs...)
	}
	for i := 0; i+1 < len(services.Content); i += 2 {
		of := services.Content[i].Value
		for name, at := range dependenciesOf(services.Content[i+1]) {
			if seen[name] == 0 && at.required {
				tell(at.line, "service %s depends on undefined service %s", of, name)
			}
		}
	}
	for _, circle := range composeCircles(services) {
		tell(c.lines.at("services", circle[0], "depends_on"), "%s wait for each other in a circle: none of them could be first", strings.Join(append(circle, circle[0]), " → "))
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// composeCircles returns a circle for each group of services that depend on each other.
func composeCircles(services *yaml.Node) (all [][]string) {
	graph := map[string][]string{}
	var order []string
	for i := 0; i+1 < len(services.Content); i += 2 {
		name := services.Content[i].Value
		order = append(order, name)
		graph[name] = slices.Sorted(maps.Keys(dependenciesOf(services.Content[i+1])))
	}
	state, path := map[string]int{}, []string{}
	var walk func(name string)
	walk = func(name string) {
		state[name] = 1
		path = append(path, name)
		for _, next := range graph[name] {
			switch {
			case state[next] == 1:
				all = append(all, slices.Clone(path[slices.Index(path, next):]))
			case state[next] == 0:
				walk(next)
			}
		}
		path = path[:len(path)-1]
		state[name] = 2
	}
	for _, name := range order {
		if state[name] == 0 {
			walk(name)
		}
	}
	return all
}

// placed is a dependency in a document.
type placed struct {
	line     int
	required bool
}

// dependenciesOf returns the depends_on of a service of a document.
func dependenciesOf(service *yaml.Node) map[string]placed {
	found := map[string]placed{}
	on := memberOf(service, "depends_on")
	switch {
	case on == nil:
	case on.Kind == yaml.SequenceNode:
		for _, item := range on.Content {
			found[item.Value] = placed{item.Line, true}
		}
	case on.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(on.Content); i += 2 {
			required := memberOf(on.Content[i+1], "required")
			found[on.Content[i].Value] = placed{on.Content[i].Line, required == nil || required.Value != "false"}
		}
	}
	delete(found, "<<")
	return found
}

// memberOf returns a member of a mapping, or of the mapping that a document is; nil if there is none.
func memberOf(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			if n.Content[i+1].Kind == yaml.AliasNode {
				return n.Content[i+1].Alias
			}
			return n.Content[i+1]
		}
	}
	return nil
}

// asStack converts the services of the project, group by group. All problems are reported at once.
func (c *conversion) asStack() (StackResult, error) {
	names := c.inOrder(slices.Collect(maps.Keys(c.project.Services)), "services")
	if len(names) > maxServices {
		return StackResult{}, fmt.Errorf("%s has %d services, and a stack has at most %d", c.Name, len(names), maxServices)
	}
	whole := c.project
	c.stack.all = whole.Services
	r := StackResult{Name: whole.Name}
	groups := c.groups(names)
	leader := map[string]string{}
	for _, g := range groups {
		for _, n := range g {
			leader[n] = g[0]
		}
	}
	var errs []error
	for _, g := range groups {
		m, err := c.member(whole, g, leader)
		errs = append(errs, err)
		r.Members = append(r.Members, m)
	}
	if err := errors.Join(errs...); err != nil {
		return StackResult{}, err
	}
	c.project = whole
	c.notCarried()
	c.apart(names)
	for _, name := range slices.Sorted(maps.Keys(whole.Volumes)) {
		if v := whole.Volumes[name]; !bool(v.External) {
			r.Volumes = append(r.Volumes, StackVolume{v.Name, v.DriverOpts, v.Labels})
		}
	}
	slices.SortFunc(c.Lost, func(a, b convert.Loss) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text)) })
	for _, l := range slices.CompactFunc(c.Lost, func(a, b convert.Loss) bool { return a.Text == b.Text }) {
		if l.Need {
			r.Needs = append(r.Needs, l.Text)
		} else {
			r.Lost = append(r.Lost, l.Text)
		}
	}
	r.Files, r.Secrets = c.files, c.stack.secrets
	return r, nil
}

// groups returns the services that are one task each: those that share namespaces or the volumes of a container. The first of a group is
// the one that the others join.
func (c *conversion) groups(names []string) (groups [][]string) {
	of := map[string]string{}
	var find func(name string) string
	find = func(name string) string {
		if of[name] == "" || of[name] == name {
			return name
		}
		return find(of[name])
	}
	for _, name := range names {
		s := c.project.Services[name]
		for _, mode := range []string{s.NetworkMode, s.Ipc, s.Pid} {
			if other, shares := strings.CutPrefix(mode, "service:"); shares {
				of[find(name)] = find(other)
			}
		}
		for _, from := range s.VolumesFrom {
			if other, _, _ := strings.Cut(from, ":"); other != "container" {
				of[find(name)] = find(other)
			}
		}
	}
	index := map[string]int{}
	for _, name := range names {
		first := find(name)
		i, there := index[first]
		if !there {
			i = len(groups)
			index[first] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], name)
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b string) int {
			if find(a) == a {
				return -1
			}
			if find(b) == b {
				return 1
			}
			return 0
		})
	}
	return groups
}

// member converts a group of services.
func (c *conversion) member(whole *types.Project, group []string, leader map[string]string) (StackMember, error) {
	first := whole.Services[group[0]]
	m := StackMember{Name: first.Name, Object: c.task + "-" + convert.Plain(first.Name), Place: c.Place(c.lines.at("services", first.Name)), Copies: first.GetScale()}
	part := *whole
	part.Services = types.Services{}
	for _, name := range group {
		s := whole.Services[name]
		s.DependsOn = maps.Clone(s.DependsOn)
		for on := range s.DependsOn {
			if leader[on] != leader[name] {
				delete(s.DependsOn, on)
			}
		}
		part.Services[name] = s
	}
	c.project, c.Def, c.flags = &part, convert.Definition{}, nil
	if err := c.refuse(group); err != nil {
		return m, err
	}
	m.Job, m.Why = c.isJob(first, len(group))
	c.reserve()
	for _, name := range group {
		c.Def.Containers = append(c.Def.Containers, c.withHooks(part.Services[name])...)
	}
	c.settle()
	if len(c.Def.Containers) > 1 && c.Def.NetworkMode == "" { // with a network for each, a name of the stack would be that of a container
		c.Def.Extensions = &convert.Extensions{Network: taskdef.NetworkShared}
	}
	for i := range c.Def.Containers {
		ctr := &c.Def.Containers[i]
		ctr.ExtraHosts = slices.DeleteFunc(ctr.ExtraHosts, func(h convert.Host) bool {
			return h.Address == "127.0.0.1" && slices.ContainsFunc(c.Def.Containers, func(other convert.Container) bool { return other.Name == h.Name })
		})
		if !m.Job { // the service replaces copies that end, and counts them
			ctr.Restart = nil
		}
	}
	m.Names, m.After = c.stackNames(group), c.waits(whole, group, leader)
	m.Listen = c.openPorts(m.Copies)
	m.StopFirst, m.WhyStop = c.stopsFirst(first, m.Copies)
	m.PIDs = c.pids(group)
	c.Def.Tags = []convert.Tag{{Key: StackTag, Value: c.task}}
	r, err := c.Result(m.Object)
	if err != nil {
		return m, err
	}
	m.Definition = r.Definition
	if _, _, err := taskdef.Parse(c.task+"-"+m.Name+".json", r.Definition); err != nil {
		return m, c.inFile(err)
	}
	return m, nil
}

// StackTag is the tag of task definitions of a stack, with its name.
const StackTag = "stack"

// StackVolume is a volume that Podman makes for a stack.
type StackVolume struct {
	Name            string
	Options, Labels map[string]string
}

// isJob reports whether a service runs to its end, and how that is known.
func (c *conversion) isJob(s types.ServiceConfig, containers int) (job bool, why string) {
	for _, name := range slices.Sorted(maps.Keys(c.stack.all)) {
		if d, waits := c.stack.all[name].DependsOn[s.Name]; waits && d.Condition == types.ServiceConditionCompletedSuccessfully {
			return true, name + " waits for it to complete"
		}
	}
	serves := len(s.Ports)+len(s.Expose) > 0 || s.HealthCheck != nil && !s.HealthCheck.Disable || containers > 1
	restart := s.Restart
	if d := s.Deploy; d != nil {
		if strings.HasSuffix(d.Mode, "-job") {
			return true, "deploy.mode is " + d.Mode
		}
		if d.RestartPolicy != nil {
			restart = map[string]string{"none": "no", "on-failure": "on-failure"}[d.RestartPolicy.Condition]
		}
	}
	if restart == "no" && !serves {
		return true, "restart is no, and it has no port and no health check"
	}
	if (restart == "" || restart == "on-failure") && !serves && preparing.MatchString(s.Name) {
		return true, "its name says that it prepares something, it is not started again when it has succeeded, and it has no port and no health check"
	}
	return false, ""
}

// preparing matches the names of services that run once, where the file does not say it in another way.
var preparing = lazy.MustCompile(`(?i)(^|[-_.])(migrat(e|or|ion|ions)|init|setup|seed|bootstrap)([-_.]|$)`)

// stackNames are the names of the containers of a group, as they have them on a network of Compose, with their TCP ports.
func (c *conversion) stackNames(group []string) (all []StackName) {
	var names []string
	for _, name := range group {
		s := c.project.Services[name]
		if s.NetworkMode == "none" || strings.HasPrefix(s.NetworkMode, "service:") && name != group[0] {
			continue // it has no name in Compose
		}
		called := append([]string{name}, s.ContainerName)
		for _, n := range slices.Sorted(maps.Keys(s.Networks)) {
			if on := s.Networks[n]; on != nil {
				called = append(called, on.Aliases...)
			}
		}
		for _, other := range slices.Sorted(maps.Keys(c.stack.all)) {
			for _, link := range c.stack.all[other].Links {
				if of, alias, named := strings.Cut(link, ":"); named && of == name {
					called = append(called, alias)
				}
			}
		}
		for _, n := range called {
			if n = strings.ToLower(n); n != "" && !slices.Contains(names, n) {
				names = append(names, n)
				all = append(all, StackName{Name: n, Container: convert.Plain(name), Ports: c.tcpPorts(group)})
			}
		}
	}
	return all
}

// tcpPorts are the TCP ports that the file says the services of a group have: published and exposed ones.
func (c *conversion) tcpPorts(group []string) (ports []uint16) {
	add := func(n int) {
		if n > 0 && n < 1<<16 && !slices.Contains(ports, uint16(n)) {
			ports = append(ports, uint16(n))
		}
	}
	for _, name := range group {
		for _, p := range c.project.Services[name].Ports {
			if p.Protocol == "" || p.Protocol == "tcp" {
				add(int(p.Target))
			}
		}
		for _, text := range c.project.Services[name].Expose {
			number, protocol, _ := strings.Cut(text, "/")
			if first, last, ranged := strings.Cut(number, "-"); protocol == "" || protocol == "tcp" {
				from, err := strconv.Atoi(first)
				to := from
				if ranged {
					to, _ = strconv.Atoi(last)
				}
				for n := from; err == nil && n <= to && n-from < 100; n++ {
					add(n)
				}
			}
		}
	}
	return ports
}

// waits are the dependencies of a group on other ones, each once, with the strongest condition.
func (c *conversion) waits(whole *types.Project, group []string, leader map[string]string) (all []StackDependency) {
	strength := []string{"", types.ServiceConditionStarted, types.ServiceConditionHealthy, types.ServiceConditionCompletedSuccessfully}
	for _, name := range group {
		on := whole.Services[name].DependsOn
		for _, other := range c.inOrder(slices.Collect(maps.Keys(on)), "services", name, "depends_on") {
			d := StackDependency{Name: leader[other], Condition: cmp.Or(on[other].Condition, types.ServiceConditionStarted), Place: c.Place(c.lines.at("services", name, "depends_on", other))}
			if d.Name == "" || d.Name == leader[name] {
				continue // it is left out and not required, or in the same task
			}
			i := slices.IndexFunc(all, func(have StackDependency) bool { return have.Name == d.Name })
			switch {
			case i < 0:
				all = append(all, d)
			case slices.Index(strength, d.Condition) > slices.Index(strength, all[i].Condition):
				all[i] = d
			}
		}
	}
	return all
}

// openPorts takes fixed TCP ports of the host out of the definition and returns the addresses at which the service listens instead. Ports
// that are only for the host's own connections to a copy are published on its loopback interface.
func (c *conversion) openPorts(copies int) (addresses []string) {
	for i := range c.Def.Containers {
		ctr := &c.Def.Containers[i]
		for k := range ctr.PortMappings {
			p := &ctr.PortMappings[k]
			if p.HostPort == 0 {
				continue
			}
			if p.Protocol == "udp" {
				if copies > 1 {
					c.Lose(c.lines.at("services", ctr.Name, "ports"), "port %d/udp of %s: each copy gets a free port, because a service forwards TCP only", p.HostPort, ctr.Name)
					p.HostPort = 0
				}
				continue
			}
			address := fmt.Sprintf("%d=%s:%d", p.HostPort, convert.Plain(ctr.Name), p.ContainerPort)
			if p.Extra != nil && p.Extra.HostIP != "" {
				address = net.JoinHostPort(p.Extra.HostIP, "") + address
			}
			addresses = append(addresses, address)
			p.HostPort, p.Extra = 0, &convert.PortExtra{HostIP: "127.0.0.1"}
		}
		ctr.PortMappings = slices.CompactFunc(ctr.PortMappings, func(a, b convert.Port) bool {
			return a.ContainerPort == b.ContainerPort && a.Protocol == b.Protocol && a.HostPort == b.HostPort
		})
	}
	return addresses
}

// stopsFirst reports whether a copy has to stop before the next one starts: two copies must not write to the same files.
func (c *conversion) stopsFirst(s types.ServiceConfig, copies int) (stop bool, why string) {
	if s.Deploy != nil && s.Deploy.UpdateConfig != nil && s.Deploy.UpdateConfig.Order != "" {
		return s.Deploy.UpdateConfig.Order == "stop-first", "deploy.update_config.order is " + s.Deploy.UpdateConfig.Order
	}
	if copies > 1 {
		return false, ""
	}
	for _, ctr := range c.Def.Containers {
		for _, m := range ctr.MountPoints {
			if !m.ReadOnly {
				return true, "it writes to the volume " + m.Volume
			}
		}
	}
	return false, ""
}

// pids is the limit of processes of a group; 0 for none.
func (c *conversion) pids(group []string) (total int64) {
	for _, name := range group {
		s := c.project.Services[name]
		limit := s.PidsLimit
		if d := s.Deploy; d != nil && d.Resources.Limits != nil && d.Resources.Limits.Pids != 0 {
			limit = d.Resources.Limits.Pids
		}
		if limit <= 0 {
			return 0
		}
		total += limit
	}
	return total
}

// apart names which services Compose keeps apart and a stack does not.
func (c *conversion) apart(names []string) {
	for i, a := range names {
		for _, b := range names[i+1:] {
			one, other := c.project.Services[a].Networks, c.project.Services[b].Networks
			common := slices.ContainsFunc(slices.Collect(maps.Keys(one)), func(n string) bool { _, both := other[n]; return both })
			if len(one) > 0 && len(other) > 0 && !common {
				c.Lose(c.lines.at("networks"), "networks: %s and %s share none in Compose; the services of a stack all reach each other by name", a, b)
				return
			}
		}
	}
}

// keep keeps a text that may be a secret and returns the source of a secret that gives it: a file beside the definition, or for a stack a
// secret of Podman whose name has the digest of its text, so that an earlier revision keeps its own.
func (c *conversion) keep(source, text string) string {
	if c.stack == nil {
		return "file:" + c.writeBeside(source, text)
	}
	prefix := SecretPrefix(c.task) + convert.Plain(source)
	name := prefix + "-" + convert.Version(prefix, []byte(text))
	if !slices.ContainsFunc(c.stack.secrets, func(f convert.File) bool { return f.Name == name }) {
		c.stack.secrets = append(c.stack.secrets, convert.File{Name: name, Data: []byte(text)})
	}
	return "podman:" + name
}

// SecretPrefix begins the names of the secrets that Podman keeps for a stack.
func SecretPrefix(stack string) string { return "podtask-stack-" + stack + "." }

// stackFile is the name of a file that belongs to a stack.
func (c *conversion) stackFile(base, text string) string {
	return filepath.Base(base) + "-" + convert.Version(filepath.Base(base), []byte(text))
}
