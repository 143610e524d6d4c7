package foreign

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/shlex"
	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// copilotTypes are the types of manifests that become a service or a schedule.
var copilotTypes = []string{"Load Balanced Web Service", "Backend Service", "Worker Service", "Scheduled Job"}

func isCopilotType(kind string) bool {
	return slices.Contains(copilotTypes, kind) || kind == "Request-Driven Web Service" || kind == "Static Site"
}

// membersOfCopilot decides about the members of a manifest. A star stands for the names of the user.
var membersOfCopilot = newTable(
	honored(
		"name", "type", "image", "image.location", "image.credentials", "image.labels", "image.depends_on", "image.port", "image.healthcheck", "cpu", "memory", "platform",
		"variables", "secrets", "sidecars", "sidecars.*", "entrypoint", "command", "storage", "storage.readonly_fs", "storage.ephemeral", "storage.volumes",
		"storage.volumes.*", "storage.volumes.*.path", "storage.volumes.*.read_only", "deployment", "deployment.rolling", "on", "on.schedule", "timeout", "taskdef_overrides",
		"environments", "build", "sidecars.*.image", "sidecars.*.image.location", "sidecars.*.port", "sidecars.*.essential", "sidecars.*.variables", "sidecars.*.secrets", "sidecars.*.mount_points",
		"sidecars.*.labels", "sidecars.*.depends_on", "sidecars.*.healthcheck", "sidecars.*.entrypoint", "sidecars.*.command", "sidecars.*.credentialsParameter",
	),
	droppedSometimes("image.build", "podtask builds no images: an image that Copilot would build is asked for", "`podman build`, and --param image.CONTAINER=NAME"),
	droppedSometimes("sidecars.*.image.build", "podtask builds no images: an image that Copilot would build is asked for", "`podman build`, and --param image.CONTAINER=NAME"),
	droppedSometimes("http", "host names, paths, certificates and health checks of the load balancer", "write image.healthcheck, so that podtask knows which copies are healthy"),
	droppedSometimes("nlb", "a service forwards TCP only", ""),
	droppedSometimes("count", "the number of copies does not follow the load", "podtask service scale changes it"),
	droppedSometimes("env_file", "its path is relative to the workspace in Copilot, and to the definition here", "write the definition there with --output, or change the path"),
	droppedSometimes("envFile", "as env_file", ""),
	droppedSometimes("sidecars.*.env_file", "as env_file", ""),
	droppedSometimes("sidecars.*.envFile", "as env_file", ""),
	droppedSometimes("storage.volumes.*.efs", "a file system that Copilot makes", "give --map-volume NAME=PATH"),
	droppedSometimes("deployment.rollback_alarms", "no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)"),
	dropped("network", "there are no subnets, security groups or Service Connect here", "reach the service by the address of --listen"),
	dropped("observability", "no traces are collected", "run a collector as a sidecar"),
	dropped("publish", "topics of SNS are not made, and COPILOT_SNS_TOPIC_ARNS is not set", ""),
	dropped("subscribe", "no queue of SQS is made, and COPILOT_QUEUE_URI is not set", "set COPILOT_QUEUE_URI in variables"),
	dropped("logging", "the log router of Copilot is not started", "write a container with firelensConfiguration into the definition (docs/logs.md)"),
	dropped("alb", "there is no load balancer here", ""),
	dropped("retries", "a run that fails is not repeated", ""),
	noMeaning("`podtask exec` always works", "exec"),
)

// copilot reads a manifest of Copilot.
func (r *reader) copilot(docs []*doctree.Node) []*workload {
	root := docs[0]
	name := textOf(root.Member("name"))
	return []*workload{{names: []string{name, textOf(root.Member("type"))}, name: name, build: func(res *Result) *doctree.Node { return r.manifest(res, root) }}}
}

// manifest makes a task definition of a manifest.
func (r *reader) manifest(res *Result, root *doctree.Node) *doctree.Node {
	kind := textOf(root.Member("type"))
	if !slices.Contains(copilotTypes, kind) {
		r.wrong(root.Member("type"), "a "+kind+" does not run on ECS", "import reads manifests of a "+strings.Join(copilotTypes, ", "))
		return root
	}
	root = r.environment(root)
	r.interpolate(root)
	c := copilotManifest{reader: r, root: root, name: textOf(root.Member("name"))}
	teller{reader: r, table: membersOfCopilot, what: "the manifest"}.tell(root)
	def := c.definition()
	if kind == "Scheduled Job" {
		c.job(res, def)
	} else {
		c.service(res, def)
	}
	r.overrides(def, root.Member("taskdef_overrides"))
	return def
}

// environment merges the settings of the chosen environment into a manifest.
func (r *reader) environment(root *doctree.Node) *doctree.Node {
	all := root.Member("environments")
	var names []string
	for _, f := range fields(all) {
		names = append(names, f.Key)
	}
	chosen := all.Member(r.Environment)
	switch {
	case r.Environment == "" && len(names) > 0:
		r.lose(all, "the settings of the environments "+strings.Join(names, ", ")+" are not applied", "choose one with --environment")
	case r.Environment != "" && chosen == nil && len(names) > 0:
		r.wrong(all, "there are no settings for the environment "+doctree.Quote(r.Environment), "the manifest has "+strings.Join(names, ", "))
	}
	remove(root, "environments")
	if chosen != nil {
		merge(root, chosen)
	}
	return root
}

// merge replaces the members of an object by those of another one; objects are merged.
func merge(n, with *doctree.Node) {
	for _, f := range with.Fields {
		if have := n.Member(f.Key); have != nil && have.Kind == doctree.Object && f.Value.Kind == doctree.Object {
			merge(have, f.Value)
			continue
		}
		set(n, f.Key, f.Value)
	}
}

// interpolate replaces ${NAME} in all texts.
func (r *reader) interpolate(n *doctree.Node) {
	if n.Kind == doctree.Text && strings.Contains(n.Text, "${") {
		n.Text = replaceBetween(n.Text, "${", "}", func(name string) string {
			if !isVariable(name) { // it is for a shell
				return "${" + name + "}"
			}
			if name == "COPILOT_ENVIRONMENT_NAME" && r.Environment != "" {
				return r.Environment
			}
			v, ok := r.variable(name)
			if !ok {
				r.askFor(n, name, "the manifest needs the variable "+name, "set it, or give --param "+name+"=VALUE")
			}
			if r.text += len(v); r.text > maxText {
				r.wrong(n, "the variables make too much text", "")
				return ""
			}
			return v
		})
	}
	for _, item := range n.Items {
		r.interpolate(item)
	}
	for _, f := range n.Fields {
		r.interpolate(f.Value)
	}
}

// isVariable reports whether a text can be the name of a variable.
func isVariable(s string) bool {
	return s != "" && !(s[0] >= '0' && s[0] <= '9') && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_')
	})
}

// copilotManifest is the conversion of a manifest.
type copilotManifest struct {
	*reader
	root *doctree.Node
	name string
	port int // of the main container; 0 for none
}

// definition makes the task definition.
func (c *copilotManifest) definition() *doctree.Node {
	root := c.root
	def := c.object(root, "family", c.textAt(root, plain(c.name)), "networkMode", c.textAt(root, "awsvpc"))
	for _, member := range []struct {
		name string
		def  int
	}{{"cpu", 256}, {"memory", 512}} {
		v := root.Member(member.name)
		if v == nil {
			v = c.number(root, member.def)
		}
		set(def, member.name, c.textAt(v, textOf(v)))
	}
	if p := root.Member("platform"); p != nil {
		system, arch, _ := strings.Cut(textOf(p), "/")
		if p.Kind == doctree.Object {
			system, arch = textOf(p.Member("osfamily")), textOf(p.Member("architecture"))
		}
		arch = map[string]string{"amd64": "X86_64", "x86_64": "X86_64", "arm": "ARM64", "arm64": "ARM64"}[strings.ToLower(arch)]
		family := strings.ToUpper(cmp.Or(system, "linux"))
		set(def, "runtimePlatform", c.object(p, "cpuArchitecture", c.textAt(p, cmp.Or(arch, "X86_64")), "operatingSystemFamily", c.textAt(p, family)))
	}
	image := root.Member("image")
	main := c.container(orAt(image, root), c.name, root, image, c.name)
	list := c.list(root, main)
	for _, f := range fields(root.Member("sidecars")) {
		list.Items = append(list.Items, c.sidecar(f))
	}
	set(def, "containerDefinitions", list)
	c.storage(def, main)
	c.ports(main)
	env := main.Member("environment")
	if env == nil {
		env = c.list(root)
		set(main, "environment", env)
	}
	add := func(name, value string) {
		env.Items = append(env.Items, c.object(root, "name", c.textAt(root, name), "value", c.textAt(root, value)))
	}
	add("COPILOT_SERVICE_NAME", c.name)
	if c.Environment != "" {
		add("COPILOT_ENVIRONMENT_NAME", c.Environment)
	}
	c.lose(root, "other variables that Copilot sets, such as COPILOT_APPLICATION_NAME and COPILOT_SERVICE_DISCOVERY_ENDPOINT", "set those that the program reads in variables")
	return def
}

// container makes a container of a manifest or a sidecar. Image is its member image, param what --param calls it.
func (c *copilotManifest) container(at *doctree.Node, name string, n, image *doctree.Node, param string) *doctree.Node {
	out := c.object(at, "name", c.textAt(at, plain(name)))
	set(out, "image", c.image(at, name, image, param))
	for member, key := range map[string]string{"entrypoint": "entryPoint", "command": "command"} {
		if v := n.Member(member); v != nil {
			set(out, key, c.words(v))
		}
	}
	c.values(out, n)
	for _, member := range []string{"env_file", "envFile"} {
		if v := n.Member(member); v != nil {
			set(out, "environmentFiles", c.list(v, c.object(v, "type", c.textAt(v, "s3"), "value", v)))
			c.lose(v, member+": its path is relative to the workspace in Copilot, and to the definition here", "write the definition there with --output, or change the path")
		}
	}
	health := n.Member("healthcheck")
	if health == nil {
		health = image.Member("healthcheck")
	}
	if health != nil {
		set(out, "healthCheck", c.health(health))
	}
	depends := n.Member("depends_on")
	if depends == nil {
		depends = image.Member("depends_on")
	}
	if depends != nil {
		list := c.list(depends)
		for _, f := range depends.Fields {
			list.Items = append(list.Items, c.object(f.Value, "containerName", c.textAt(f.Value, plain(f.Key)), "condition", c.textAt(f.Value, strings.ToUpper(textOf(f.Value)))))
		}
		set(out, "dependsOn", list)
	}
	labels := n.Member("labels")
	if labels == nil {
		labels = image.Member("labels")
	}
	if labels != nil {
		set(out, "dockerLabels", labels)
	}
	credentials := n.Member("credentialsParameter")
	if credentials == nil {
		credentials = image.Member("credentials")
	}
	if credentials != nil {
		set(out, "repositoryCredentials", c.object(credentials, "credentialsParameter", credentials))
	}
	return out
}

// values gives a container its variables and secrets.
func (c *copilotManifest) values(out, n *doctree.Node) {
	if v := n.Member("variables"); v != nil {
		list := c.list(v)
		for _, f := range v.Fields {
			if f.Value.Kind == doctree.Object {
				text, ok := c.param(f.Key)
				if !ok {
					c.ask(f.Value, f.Key, "the variable "+f.Key+" is read from another stack (from_cfn)")
				}
				f.Value = c.textAt(f.Value, text)
			}
			list.Items = append(list.Items, c.object(f.Value, "name", c.textAt(f.Value, f.Key), "value", c.textAt(f.Value, textOf(f.Value))))
		}
		set(out, "environment", list)
	}
	if v := n.Member("secrets"); v != nil {
		list := c.list(v)
		for _, f := range v.Fields {
			list.Items = append(list.Items, c.object(f.Value, "name", c.textAt(f.Value, f.Key), "valueFrom", c.secret(f)))
		}
		set(out, "secrets", list)
	}
}

// image returns the image of a container.
func (c *copilotManifest) image(at *doctree.Node, name string, image *doctree.Node, param string) *doctree.Node {
	if v, ok := c.param("image." + param); ok {
		return c.textAt(orAt(image, at), v)
	}
	switch {
	case scalar(image):
		return image
	case image.Member("location") != nil:
		return image.Member("location")
	}
	build := image.Member("build")
	dir, options := ".", ""
	switch {
	case scalar(build):
		if i := strings.LastIndexByte(build.Text, '/'); i > 0 {
			dir = build.Text[:i]
		}
	case build.Member("context") != nil:
		dir = textOf(build.Member("context"))
	}
	for _, o := range []struct{ member, flag string }{{"dockerfile", " -f "}, {"target", " --target "}} {
		if v := textOf(build.Member(o.member)); v != "" {
			options += o.flag + shellWord(v)
		}
	}
	for _, arg := range fields(build.Member("args")) {
		options += " --build-arg " + shellWord(arg.Key+"="+textOf(arg.Value))
	}
	local := "localhost/" + strings.ToLower(plain(name))
	c.askFor(orAt(build, at), "image."+param, "the container "+name+" has no image: podtask builds none",
		"run `podman build -t "+local+options+" "+shellWord(dir)+"`, and give --param "+shellWord("image."+param+"="+local))
	return c.textAt(at, local)
}

// words returns a command as a list of words.
func (c *copilotManifest) words(v *doctree.Node) *doctree.Node {
	if v.Kind == doctree.List {
		return v
	}
	words, err := shlex.Split(textOf(v))
	if err != nil {
		c.wrong(v, "the command cannot be split into words", "write it as a list")
	}
	list := c.list(v)
	for _, w := range words {
		list.Items = append(list.Items, c.textAt(v, w))
	}
	return list
}

// secret returns the valueFrom of a secret: a name or an ARN, or secretsmanager: NAME.
func (c *copilotManifest) secret(f doctree.Field) *doctree.Node {
	v := f.Value
	if scalar(v) {
		return v
	}
	if name := v.Member("secretsmanager"); name != nil {
		return c.textAt(name, "arn:aws:secretsmanager:local:000000000000:secret:"+textOf(name))
	}
	text, ok := c.param(f.Key)
	if !ok {
		c.ask(v, f.Key, "the secret "+f.Key+" is named in another stack (from_cfn)")
	}
	return c.textAt(v, text)
}

// health makes a health check.
func (c *copilotManifest) health(n *doctree.Node) *doctree.Node {
	out := c.object(n, "command", n.Member("command"))
	for member, key := range map[string]string{"interval": "interval", "timeout": "timeout", "start_period": "startPeriod"} {
		if v := n.Member(member); v != nil {
			set(out, key, c.seconds(v))
		}
	}
	if v := n.Member("retries"); v != nil {
		set(out, "retries", v)
	}
	slices.SortFunc(out.Fields, func(a, b doctree.Field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// seconds returns a duration in whole seconds.
func (c *copilotManifest) seconds(v *doctree.Node) *doctree.Node {
	if v.Kind == doctree.Number {
		return v
	}
	d, err := time.ParseDuration(textOf(v))
	if err != nil {
		c.wrong(v, doctree.Quote(textOf(v))+" is no duration such as 10s", "")
	}
	return c.number(v, int(d.Seconds()))
}

// sidecar makes a container of a sidecar.
func (c *copilotManifest) sidecar(f doctree.Field) *doctree.Node {
	n := f.Value
	out := c.container(n, f.Key, n, n.Member("image"), f.Key)
	if v := n.Member("essential"); v != nil {
		set(out, "essential", v)
	}
	if v := n.Member("port"); v != nil {
		word, protocol, _ := strings.Cut(textOf(v), "/")
		port, err := strconv.Atoi(word)
		if err != nil {
			c.wrong(v, "port: "+doctree.Quote(textOf(v))+" is no port such as 80 or 53/udp", "")
		}
		mapping := c.object(v, "containerPort", c.number(v, port))
		if protocol != "" {
			set(mapping, "protocol", c.textAt(v, protocol))
		}
		set(out, "portMappings", c.list(v, mapping))
	}
	if v := n.Member("mount_points"); v != nil {
		list := c.list(v)
		for _, m := range v.Items {
			list.Items = append(list.Items, c.object(m, "sourceVolume", m.Member("source_volume"), "containerPath", m.Member("path"), "readOnly", m.Member("read_only")))
		}
		set(out, "mountPoints", list)
	}
	return out
}

// storage makes the volumes of the task, and mounts them into the main container.
func (c *copilotManifest) storage(def, main *doctree.Node) {
	s := c.root.Member("storage")
	if v := s.Member("readonly_fs"); v != nil {
		set(main, "readonlyRootFilesystem", v)
	}
	if v := s.Member("ephemeral"); v != nil {
		set(def, "ephemeralStorage", c.object(v, "sizeInGiB", v))
	}
	volumes, mounts := c.list(s), c.list(s)
	for _, f := range fields(s.Member("volumes")) {
		v := f.Value
		volume := c.object(v, "name", c.textAt(v, plain(f.Key)))
		switch efs := v.Member("efs"); {
		case efs == nil || scalar(efs) && !isTrue(efs):
		case scalar(efs) || efs.Member("id") == nil || !scalar(efs.Member("id")):
			set(volume, "efsVolumeConfiguration", c.object(efs, "fileSystemId", c.textAt(efs, "fs-copilot")))
			c.lose(efs, "the file system of the volume "+f.Key+" is made by Copilot; fs-copilot stands for it", "")
		default:
			e := c.object(efs, "fileSystemId", efs.Member("id"), "rootDirectory", efs.Member("root_dir"))
			if auth := efs.Member("auth"); auth != nil {
				a := c.object(auth, "accessPointId", auth.Member("access_point_id"))
				if isTrue(auth.Member("iam")) {
					set(a, "iam", c.textAt(auth, "ENABLED"))
				}
				set(e, "authorizationConfig", a)
				set(e, "transitEncryption", c.textAt(auth, "ENABLED"))
			}
			set(volume, "efsVolumeConfiguration", e)
		}
		volumes.Items = append(volumes.Items, volume)
		if p := v.Member("path"); p != nil {
			readOnly := v.Member("read_only")
			if readOnly == nil {
				readOnly = c.boolean(v, true) // as in Copilot
			}
			mounts.Items = append(mounts.Items, c.object(v, "sourceVolume", c.textAt(v, plain(f.Key)), "containerPath", p, "readOnly", readOnly))
		}
	}
	if len(volumes.Items) > 0 {
		set(def, "volumes", volumes)
	}
	if len(mounts.Items) > 0 {
		set(main, "mountPoints", mounts)
	}
}

// ports publishes the port of the main container.
func (c *copilotManifest) ports(main *doctree.Node) {
	port := c.root.Member("image").Member("port")
	if p, ok := intOf(port); ok {
		c.port = p
		set(main, "portMappings", c.list(port, c.object(port, "containerPort", c.number(port, p))))
	}
}

// count is how many copies a service has.
func (c *copilotManifest) count() int {
	count, n := 1, c.root.Member("count")
	if v, ok := intOf(n); ok {
		count = v
	} else if n != nil {
		limits := n.Member("range")
		if limits.Member("min") != nil {
			limits = limits.Member("min")
		}
		least, _, _ := strings.Cut(textOf(limits), "-")
		if v, ok := intOf(c.textAt(n, least)); ok {
			count = v
		} else if v, ok := intOf(n.Member("spot")); ok {
			count = v
		}
		if n.Member("range") != nil {
			c.lose(n, fmt.Sprintf("count: the number of copies does not follow the load; it is %d", count), "podtask service scale changes it")
		}
	}
	return count
}

// service makes the command of a service.
func (c *copilotManifest) service(res *Result, def *doctree.Node) {
	s := &Service{Flags: []string{"--count", fmt.Sprint(c.count())}}
	res.Service = s
	switch rolling := textOf(c.root.Member("deployment").Member("rolling")); rolling {
	case "recreate":
		s.Flags = append(s.Flags, "--min-healthy", "0", "--max", "100")
	default:
		s.Flags = append(s.Flags, "--min-healthy", "100", "--max", "200")
	}
	if a := c.root.Member("deployment").Member("rollback_alarms"); a != nil {
		c.lose(a, "deployment.rollback_alarms: no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)")
	}
	c.networkBalancer(s, def)
	c.http(s, def)
}

// networkBalancer turns the listeners of nlb into addresses of the service.
func (c *copilotManifest) networkBalancer(s *Service, def *doctree.Node) {
	nlb := c.root.Member("nlb")
	if nlb == nil || nlb.Kind != doctree.Object {
		return
	}
	for _, l := range append([]*doctree.Node{nlb}, items(nlb.Member("additional_listeners"))...) {
		word, protocol, _ := strings.Cut(textOf(l.Member("port")), "/")
		from, ok := intOf(c.textAt(l, word))
		if !ok {
			continue
		}
		container, to := plain(c.name), from
		if target := l.Member("target_container"); target != nil {
			container = plain(textOf(target))
		} else if c.port != 0 && l == nlb {
			to = c.port
		}
		if v, ok := intOf(l.Member("target_port")); ok {
			to = v
		}
		if protocol == "udp" {
			c.lose(l, fmt.Sprintf("nlb: port %d/udp, because a service forwards TCP only", from), "")
			continue
		}
		if from < 1024 { // which users may not open
			from += 8000
		}
		c.publish(def, container, to)
		s.Flags = append(s.Flags, "--listen", fmt.Sprintf("%d=%s:%d", from, container, to))
		c.lose(l, fmt.Sprintf("nlb: certificates and health checks of the load balancer; the service listens on port %d instead", from), "")
	}
}

// publish gives a container a port, if it has it not yet.
func (c *copilotManifest) publish(def *doctree.Node, name string, port int) {
	for _, ctr := range items(def.Member("containerDefinitions")) {
		if textOf(ctr.Member("name")) != name {
			continue
		}
		ports := ctr.Member("portMappings")
		if ports == nil {
			ports = c.list(ctr)
			set(ctr, "portMappings", ports)
		}
		for _, p := range ports.Items {
			if have, _ := intOf(p.Member("containerPort")); have == port {
				return
			}
		}
		ports.Items = append(ports.Items, c.object(ctr, "containerPort", c.number(ctr, port)))
	}
}

// http turns the rules of a load balancer into an address of the service.
func (c *copilotManifest) http(s *Service, def *doctree.Node) {
	http := c.root.Member("http")
	if http == nil || http.Kind != doctree.Object {
		return
	}
	if v := http.Member("grace_period"); v != nil {
		s.Flags = append(s.Flags, "--health-grace", textOf(v))
	} else if v := http.Member("healthcheck").Member("grace_period"); v != nil {
		s.Flags = append(s.Flags, "--health-grace", textOf(v))
	}
	if v := http.Member("deregistration_delay"); v != nil {
		s.Flags = append(s.Flags, "--drain", textOf(v))
	}
	container, port := plain(c.name), c.port
	target := http.Member("target_container")
	if target == nil {
		target = http.Member("targetContainer")
	}
	if target != nil {
		container = plain(textOf(target))
		p, _, _ := strings.Cut(textOf(c.root.Member("sidecars").Member(textOf(target)).Member("port")), "/")
		port, _ = intOf(c.textAt(target, p))
	}
	if v, ok := intOf(http.Member("target_port")); ok {
		port = v
	}
	if port == 0 {
		c.wrong(http, "http: the container "+container+" has no port", "write image.port")
		return
	}
	at := port
	if at < 1024 { // which users may not open
		at += 8000
	}
	c.publish(def, container, port)
	s.Flags = append(s.Flags, "--listen", fmt.Sprintf("%d=%s:%d", at, container, port))
	c.lose(http, fmt.Sprintf("http: host names, paths, certificates and health checks of the load balancer; the service listens on port %d instead", at), "write image.healthcheck, so that podtask knows which copies are healthy")
}

// job makes the command of a schedule.
func (c *copilotManifest) job(res *Result, def *doctree.Node) {
	at := c.root.Member("on").Member("schedule")
	if v := c.root.Member("timeout"); v != nil {
		set(def, "x-podtask", c.object(v, "timeout", c.seconds(v)))
	}
	if at == nil {
		c.wrong(c.root, "on.schedule is missing", "")
		return
	}
	expression := strings.TrimSpace(textOf(at))
	if every, ok := strings.CutPrefix(expression, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(every))
		if err != nil || d < time.Minute || d%time.Minute != 0 {
			c.wrong(at, "@every takes a number of minutes or hours, not "+doctree.Quote(every), "")
			return
		}
		unit, n := "minutes", int(d/time.Minute)
		if n%60 == 0 {
			unit, n = "hours", n/60
		}
		if n == 1 {
			unit = unit[:len(unit)-1]
		}
		expression = fmt.Sprintf("rate(%d %s)", n, unit)
	}
	switch {
	case expression == "none":
		c.lose(at, "on.schedule none: nothing starts the job by itself", "")
	case calendar.IsEventBridge(expression):
		c.schedule(res, due{at: at, expression: expression}, false)
	default:
		events, err := calendar.Cron(expression)
		if err != nil {
			c.wrong(at, err.Error(), "")
			return
		}
		s := Schedule{Name: res.Name}
		for _, e := range events {
			s.Flags = append(s.Flags, "--at", e)
		}
		s.Flags = append(s.Flags, "--timezone", "UTC")
		res.Schedules = append(res.Schedules, s)
	}
}
