package compose

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// serviceConversion is the conversion of one service to a container.
type serviceConversion struct {
	*conversion
	from types.ServiceConfig
	ctr  convert.Container
}

// service converts one service.
func (c *conversion) service(s types.ServiceConfig) convert.Container {
	one := serviceConversion{conversion: c, from: s, ctr: convert.Container{
		Name: s.Name, Essential: true, Image: fullImage(s), Command: s.Command, EntryPoint: s.Entrypoint, User: s.User, WorkingDirectory: s.WorkingDir,
		Labels: s.Labels, ReadOnly: s.ReadOnly, Hostname: s.Hostname, DNSServers: s.DNS, DNSSearch: s.DNSSearch, Privileged: s.Privileged,
		Terminal: s.Tty, Interactive: s.StdinOpen, CPU: s.CPUShares, Memory: convert.Mebibytes(s.MemLimit), Reservation: convert.Mebibytes(s.MemReservation),
		StopTimeout: stopTimeout(s.StopGracePeriod),
	}}
	if s.CPUS > 0 {
		one.ctr.AddExtensions().CPULimit = decimal(s.CPUS)
	}
	one.programs()
	one.environment()
	one.dependsOn()
	one.kernel()
	one.reachable()
	one.storage()
	one.ctr.HealthCheck = one.health()
	one.restart(s.Restart, c.lines.at("services", s.Name, "restart"))
	one.deploy()
	one.swap()
	one.gpus(s.Gpus, "gpus")
	one.logging()
	c.named(s)
	c.AutoUpdate(&one.ctr, c.lines.at("services", s.Name, "labels"))
	if s.StopSignal != "" && !one.ctr.StopWith(s.StopSignal) {
		c.Lose(c.lines.at("services", s.Name, "stop_signal"), "%s.stop_signal %s: there is no such signal", s.Name, s.StopSignal)
	}
	c.left(s, c.lines.path("services", s.Name), "services")
	return one.ctr
}

// withHooks converts one service and the containers that run before it. Each hook waits for what the service waits for
// and for the hook before it, and the service waits for the last one.
func (c *conversion) withHooks(s types.ServiceConfig) []convert.Container {
	var all []convert.Container
	last := ""
	for i, hook := range s.PreStart {
		name := s.Name + "-pre-start"
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		c.lines.copy(c.lines.path("services", s.Name, "pre_start", strconv.Itoa(i)), c.lines.path("services", name))
		one := types.ServiceConfig{Name: name, ContainerSpec: hook.ContainerSpec}
		one.DependsOn, one.Volumes = s.DependsOn, slices.Clone(hook.Volumes)
		for _, v := range s.Volumes { // those of the service are mounted too
			if !slices.ContainsFunc(hook.Volumes, func(own types.ServiceVolumeConfig) bool { return own.Target == v.Target }) {
				one.Volumes = append(one.Volumes, v)
			}
		}
		if s.GetScale() > 1 && !hook.PerReplica {
			c.Lose(c.lines.at("services", s.Name, "pre_start"), "%s.pre_start runs once for each copy: a task has no container that only one of its copies runs", s.Name)
		}
		ctr := c.service(one)
		ctr.Essential = false
		if last != "" {
			ctr.DependsOn = append(ctr.DependsOn, convert.Dependency{Container: last, Condition: "SUCCESS"})
		}
		all, last = append(all, ctr), name
	}
	ctr := c.service(s)
	if last != "" {
		ctr.DependsOn = append(ctr.DependsOn, convert.Dependency{Container: last, Condition: "SUCCESS"})
	}
	return append(all, ctr)
}

// stopTimeout limits the time that a container may take to stop, in seconds: 10 where the file does not say, as in Compose.
func stopTimeout(d *types.Duration) int {
	const usual = 10
	if d == nil {
		return usual
	}
	return max(1, seconds(d))
}

// fullImage returns the name of an image with its registry. Names without one are those of Docker Hub in Compose; an
// image that the file builds has none, and is local.
func fullImage(s types.ServiceConfig) string {
	first, _, slashed := strings.Cut(s.Image, "/")
	switch {
	case s.Image == "", slashed && (strings.ContainsAny(first, ".:") || first == "localhost"), strings.Contains(s.Image, "$"):
		return s.Image
	case s.Build != nil:
		return "localhost/" + s.Image
	case slashed:
		return "docker.io/" + s.Image
	}
	return "docker.io/library/" + s.Image
}

// named lists what podtask decides itself about a container.
func (c *conversion) named(s types.ServiceConfig) {
	at := func(member string) int { return c.lines.at("services", s.Name, member) }
	if s.ContainerName != "" {
		c.Lose(at("container_name"), "%s.container_name %s: its name in Podman begins with podtask- and the task's ID; commands name it %s, other containers by both names", s.Name, s.ContainerName, s.Name)
	}
}

// programs converts an entrypoint or a command that the file empties. ECS has no empty list: an entry point of one empty
// word clears that of the image, and with it the image's command. An empty command alone is a member of podtask's own.
func (c *serviceConversion) programs() {
	if c.from.Entrypoint != nil && len(c.from.Entrypoint) == 0 {
		c.ctr.EntryPoint = []string{""}
	}
	if c.from.Command != nil && len(c.from.Command) == 0 && c.from.Entrypoint == nil {
		c.ctr.AddExtensions().EmptyCommand = true
	}
}

// environment converts variables and their files; Compose takes the value of a variable without
// "=" from .env and the environment of the user, as for ${NAME}. One that is not there is not set.
func (c *serviceConversion) environment() {
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.Environment)), "services", c.from.Name, "environment") {
		if value := c.from.Environment[name]; value != nil {
			c.ctr.Environment = append(c.ctr.Environment, convert.Pair{Name: name, Value: *value})
		} else if value, set := c.given(name); set {
			c.ctr.Environment = append(c.ctr.Environment, convert.Pair{Name: name, Value: value})
		} else {
			c.Lose(c.lines.at("services", c.from.Name, "environment", name), "variable %s of %s: neither .env nor the environment has a value, so it is not set", name, c.from.Name)
		}
	}
	c.envFiles()
}

// conditions are Compose's words for what a dependant waits for.
var conditions = map[string]string{
	"": "START", types.ServiceConditionStarted: "START", types.ServiceConditionHealthy: "HEALTHY", types.ServiceConditionCompletedSuccessfully: "SUCCESS",
}

func (c *serviceConversion) dependsOn() {
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.DependsOn)), "services", c.from.Name, "depends_on") {
		d := c.from.DependsOn[name]
		if _, there := c.project.Services[name]; !there {
			continue // it is left out, and not required
		}
		// compose-go adds dependencies with restart for links and network_mode.
		if at := c.lines.path("services", c.from.Name, "depends_on", name); c.lines[at+"\x00restart"] != 0 {
			c.left(d, at, "services.depends_on")
		}
		c.ctr.DependsOn = append(c.ctr.DependsOn, convert.Dependency{Container: name, Condition: conditions[d.Condition]})
	}
	for _, from := range c.from.VolumesFrom {
		name, mode, _ := strings.Cut(from, ":")
		if name == "container" {
			c.Lose(c.lines.at("services", c.from.Name, "volumes_from"), "%s.volumes_from %s: it is no service", c.from.Name, from)
			continue
		}
		c.ctr.VolumesFrom = append(c.ctr.VolumesFrom, convert.VolumesFrom{Container: name, ReadOnly: mode == "ro"})
	}
}

// kernel converts members about processes and the kernel.
func (c *serviceConversion) kernel() {
	at := func(member string) int { return c.lines.at("services", c.from.Name, member) }
	if c.from.Init != nil && *c.from.Init {
		c.ctr.AddLinux().Init = true
	}
	if len(c.from.CapAdd)+len(c.from.CapDrop) > 0 {
		c.ctr.AddLinux().Capabilities = &convert.Capabilities{Add: c.from.CapAdd, Drop: c.from.CapDrop}
	}
	if c.from.ShmSize > 0 {
		c.ctr.AddLinux().SharedMemory = convert.Mebibytes(c.from.ShmSize)
	}
	for _, d := range c.from.Devices {
		if !strings.HasPrefix(d.Source, "/") {
			c.Lose(at("devices"), "%s.devices %s: a device is a path below /dev; GPUs are asked for with gpus", c.from.Name, d.Source)
			continue
		}
		c.ctr.AddLinux().Devices = append(c.ctr.AddLinux().Devices, newDevice(d))
	}
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.Ulimits)), "services", c.from.Name, "ulimits") {
		u := c.from.Ulimits[name]
		l := convert.Ulimit{Name: name, Soft: int64(u.Soft), Hard: int64(u.Hard)}
		if u.Single != 0 {
			l.Soft, l.Hard = int64(u.Single), int64(u.Single)
		}
		c.ctr.Ulimits = append(c.ctr.Ulimits, l)
	}
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.Sysctls)), "services", c.from.Name, "sysctls") {
		c.ctr.SystemControls = append(c.ctr.SystemControls, convert.SystemControl{Name: name, Value: c.from.Sysctls[name]})
	}
	for _, o := range c.from.SecurityOpt {
		switch name, value, _ := strings.Cut(strings.Replace(o, "=", ":", 1), ":"); {
		case name == "no-new-privileges" && (value == "" || value == "true"):
			c.ctr.SecurityOptions = append(c.ctr.SecurityOptions, name)
		case name == "label":
			c.ctr.SecurityOptions = append(c.ctr.SecurityOptions, "label:"+value)
		default:
			c.Lose(at("security_opt"), "%s.security_opt %s: a definition has no-new-privileges and label only", c.from.Name, o)
		}
	}
}

// newDevice converts a device and its permissions, any of the letters r, w and m.
func newDevice(d types.DeviceMapping) convert.Device {
	out := convert.Device{HostPath: d.Source}
	if d.Target != d.Source {
		out.ContainerPath = d.Target
	}
	out.Permissions = convert.Permissions(d.Permissions)
	return out
}

// reachable converts ports and names of hosts.
func (c *serviceConversion) reachable() {
	for _, p := range c.from.Ports {
		out := convert.Port{ContainerPort: int(p.Target)}
		var extra convert.PortExtra
		if strings.Contains(p.Published, "-") {
			extra.HostPortRange = p.Published
		} else {
			out.HostPort, _ = strconv.Atoi(p.Published) // compose-go has checked it; empty: any
		}
		if p.Protocol != "tcp" {
			out.Protocol = p.Protocol
		}
		if p.HostIP != "" {
			extra.HostIP = strings.Trim(p.HostIP, "[]")
		}
		if extra != (convert.PortExtra{}) {
			out.Extra = &extra
		}
		c.ctr.PortMappings = append(c.ctr.PortMappings, out)
	}
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.ExtraHosts)), "services", c.from.Name, "extra_hosts") {
		for _, address := range c.from.ExtraHosts[name] {
			c.ExtraHost(&c.ctr, convert.Host{Name: name, Address: strings.Trim(address, "[]")}, c.lines.at("services", c.from.Name, "extra_hosts", name), c.from.Name+".extra_hosts "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.from.Networks)) {
		if n := c.from.Networks[name]; n != nil {
			c.left(n, c.lines.path("services", c.from.Name, "networks", name), "services.networks")
		}
	}
	for name := range c.from.Networks {
		if name != "default" && c.stack == nil {
			c.Lose(c.lines.at("services", c.from.Name, "networks"), "%s.networks: the containers of a task share one", c.from.Name)
			return
		}
	}
}

// waitedFor reports whether another service waits for a condition of this one.
func (c *serviceConversion) waitedFor(condition string) bool {
	services := c.project.Services
	if c.stack != nil {
		services = c.stack.all
	}
	for _, s := range services {
		if d, waits := s.DependsOn[c.from.Name]; waits && d.Condition == condition {
			return true
		}
	}
	return false
}

// health converts a health check. Where the file leaves the check to the image and something depends on it, the
// definition asks for that of the image.
func (c *serviceConversion) health() *convert.HealthCheck {
	check := c.from.HealthCheck
	switch {
	case check != nil && (check.Disable || len(check.Test) > 0 && check.Test[0] == "NONE"):
		return nil
	case check == nil && c.waitedFor(types.ServiceConditionHealthy), check != nil && len(check.Test) == 0:
		c.ctr.AddExtensions().ImageHealthCheck = true
		if check != nil {
			c.imageCheck(check)
		}
		return nil
	case check == nil:
		return nil
	}
	h := &convert.HealthCheck{Command: check.Test, Interval: seconds(check.Interval), Timeout: seconds(check.Timeout), StartPeriod: seconds(check.StartPeriod)}
	if check.Retries != nil {
		h.Retries = int(min(*check.Retries, 1000))
	}
	if h.Timeout == 0 {
		h.Timeout = 30 // as Compose has it; the model has 5
	}
	line := c.lines.at("services", c.from.Name, "healthcheck")
	h.Clamp(func(what string) { c.Lose(line, "healthcheck: %s", what) })
	c.left(check, c.lines.path("services", c.from.Name, "healthcheck"), "services.healthcheck")
	return h
}

// imageCheck lists what the file says about the check of the image, which says that itself.
func (c *serviceConversion) imageCheck(check *types.HealthCheckConfig) {
	for member, set := range map[string]bool{"interval": check.Interval != nil, "timeout": check.Timeout != nil, "retries": check.Retries != nil, "start_period": check.StartPeriod != nil, "start_interval": check.StartInterval != nil} {
		if set {
			c.Lose(c.lines.at("services", c.from.Name, "healthcheck", member), "%s.healthcheck.%s: the check is that of the image, with its own times: write test to change them", c.from.Name, member)
		}
	}
}

// restart also restarts a container that ran for less than a minute, with pauses that grow,
// as engines do.
func (c *serviceConversion) restart(text string, line int) {
	word, most, _ := strings.Cut(text, ":")
	policy := &convert.RestartPolicy{Enabled: true, AttemptPeriod: 60, Extra: &convert.BackOff{BackOff: 1}}
	switch word {
	case "", "no", "none":
		return
	case "always", "unless-stopped", "any":
	case "on-failure":
		policy.IgnoredExitCodes = []int{0}
	default:
		c.Lose(line, "%s.restart %s: it is always, unless-stopped, on-failure or no", c.ctr.Name, text)
		return
	}
	policy.Extra.MaxCount, _ = strconv.Atoi(most)
	c.ctr.Restart = policy
}

// swap converts the limit of memory and swap together, of which that of memory is a part.
func (c *serviceConversion) swap() {
	memory := c.from.MemLimit
	if d := c.from.Deploy; d != nil && d.Resources.Limits != nil && d.Resources.Limits.MemoryBytes > 0 {
		memory = d.Resources.Limits.MemoryBytes
	}
	if swap := c.from.MemSwapLimit; swap > 0 && memory > 0 {
		most := convert.Mebibytes(max(0, swap-memory))
		c.ctr.AddLinux().MaxSwap = &most
	} else if swap != 0 {
		c.Lose(c.lines.at("services", c.from.Name, "memswap_limit"), "%s.memswap_limit: a limit of swap needs mem_limit", c.from.Name)
	}
}

// deploy converts what Compose itself takes from this part.
func (c *serviceConversion) deploy() {
	d := c.from.Deploy
	if d == nil {
		return
	}
	path := c.lines.path("services", c.from.Name, "deploy")
	c.left(d, path, "services.deploy")
	if p := d.RestartPolicy; p != nil {
		text := p.Condition
		if text == "" {
			text = "any"
		}
		if p.MaxAttempts != nil {
			text += ":" + strconv.FormatUint(*p.MaxAttempts, 10)
		}
		c.restart(text, c.lines.below(path, "restart_policy"))
		c.left(p, path+"\x00restart_policy", "services.deploy.restart_policy")
	}
	if l := d.Resources.Limits; l != nil {
		if l.NanoCPUs > 0 {
			c.ctr.AddExtensions().CPULimit = decimal(float32(l.NanoCPUs))
		}
		if l.MemoryBytes > 0 {
			c.ctr.Memory = convert.Mebibytes(l.MemoryBytes)
		}
		c.left(l, path+"\x00resources\x00limits", "services.deploy.resources.limits")
	}
	if r := d.Resources.Reservations; r != nil {
		if r.NanoCPUs > 0 {
			c.ctr.CPU = int64(decimal(float32(r.NanoCPUs)) * unitsPerCPU)
		}
		if r.MemoryBytes > 0 {
			c.ctr.Reservation = convert.Mebibytes(r.MemoryBytes)
		}
		c.gpus(r.Devices, "deploy", "resources", "reservations", "devices")
		c.left(r, path+"\x00resources\x00reservations", "services.deploy.resources.reservations")
	}
}

// gpus converts requests for devices, which are at a member of the service. A definition names a number of GPUs.
func (c *serviceConversion) gpus(requests []types.DeviceRequest, member ...string) {
	line := c.lines.at(append([]string{"services", c.from.Name}, member...)...)
	what := c.from.Name + "." + strings.Join(member, ".")
	for _, d := range requests {
		switch {
		case len(member) > 1 && !slices.Contains(d.Capabilities, "gpu"):
			c.Lose(line, "%s: %s: only GPUs can be reserved", what, strings.Join(d.Capabilities, ", "))
		case d.Count <= 0 || len(d.IDs) > 0 || len(c.ctr.Resources) > 0:
			c.Lose(line, "%s: write how many GPUs it needs: a definition has a number, resourceRequirements of the type GPU", what)
		default:
			c.ctr.Resources = append(c.ctr.Resources, convert.Resource{Type: "GPU", Value: strconv.FormatInt(int64(d.Count), 10)})
		}
	}
}

// logging converts the drivers that podtask has.
func (c *serviceConversion) logging() {
	if c.from.Logging == nil {
		return
	}
	l, driver := &convert.LogConfiguration{Driver: c.from.Logging.Driver}, logdriver.Driver(c.from.Logging.Driver)
	kept := func(string) bool { return false }
	switch {
	case l.Driver == "", l.Driver == "local", driver == logdriver.JSONFile:
		l.Driver = string(logdriver.JSONFile)
		kept = func(option string) bool { return option == "max-size" }
	case slices.Contains(logdriver.Remote(), driver) && driver != logdriver.FireLens: // that is no driver of Docker's
		kept = func(string) bool { return true }
	case !driver.Local():
		c.Lose(c.lines.at("services", c.from.Name, "logging"), "%s.logging: podtask has no log driver %s", c.from.Name, l.Driver)
		return
	}
	for _, name := range c.inOrder(slices.Collect(maps.Keys(c.from.Logging.Options)), "services", c.from.Name, "logging", "options") {
		if !kept(name) {
			c.Lose(c.lines.at("services", c.from.Name, "logging", "options", name), "%s.logging.options.%s: the driver %s has no such option here", c.from.Name, name, l.Driver)
			continue
		}
		if l.Options == nil {
			l.Options = map[string]string{}
		}
		l.Options[name] = c.from.Logging.Options[name]
	}
	c.ctr.Logging = l
}
