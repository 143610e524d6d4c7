package copilot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/shlex"
	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// copilotTypes are the types of manifests that become a service or a schedule.
var copilotTypes = []string{"Load Balanced Web Service", "Backend Service", "Worker Service", "Scheduled Job"}

// IsType reports whether kind is a type of manifest of Copilot.
func IsType(kind string) bool {
	return slices.Contains(copilotTypes, kind) || kind == "Request-Driven Web Service" || kind == "Static Site"
}

// Members decides about the members of a manifest. A star stands for the names of the user.
var Members = toolfile.NewTable(
	toolfile.Honors(
		"name", "type", "image", "image.location", "image.credentials", "image.labels", "image.depends_on", "image.port", "image.healthcheck", "cpu", "memory", "platform",
		"variables", "secrets", "sidecars", "sidecars.*", "entrypoint", "command", "storage", "storage.readonly_fs", "storage.ephemeral", "storage.volumes",
		"storage.volumes.*", "storage.volumes.*.path", "storage.volumes.*.read_only", "deployment", "deployment.rolling", "on", "on.schedule", "timeout", "taskdef_overrides",
		"environments", "build", "sidecars.*.image", "sidecars.*.image.location", "sidecars.*.port", "sidecars.*.essential", "sidecars.*.variables", "sidecars.*.secrets", "sidecars.*.mount_points",
		"sidecars.*.labels", "sidecars.*.depends_on", "sidecars.*.healthcheck", "sidecars.*.entrypoint", "sidecars.*.command", "sidecars.*.credentialsParameter",
	),
	toolfile.DropsSometimes("image.build", "podtask builds no images: an image that Copilot would build is asked for", "`podman build`, and --param image.CONTAINER=NAME"),
	toolfile.DropsSometimes("sidecars.*.image.build", "podtask builds no images: an image that Copilot would build is asked for", "`podman build`, and --param image.CONTAINER=NAME"),
	toolfile.DropsSometimes("http", "host names, paths, certificates and health checks of the load balancer", "write image.healthcheck, so that podtask knows which copies are healthy"),
	toolfile.DropsSometimes("nlb", "a service forwards TCP only", ""),
	toolfile.DropsSometimes("count", "the number of copies does not follow the load", "podtask service scale changes it"),
	toolfile.DropsSometimes("env_file", "its path is relative to the workspace in Copilot, and to the definition here", "write the definition there with --output, or change the path"),
	toolfile.DropsSometimes("envFile", "as env_file", ""),
	toolfile.DropsSometimes("sidecars.*.env_file", "as env_file", ""),
	toolfile.DropsSometimes("sidecars.*.envFile", "as env_file", ""),
	toolfile.DropsSometimes("storage.volumes.*.efs", "a file system that Copilot makes", "give --map-volume NAME=PATH"),
	toolfile.DropsSometimes("deployment.rollback_alarms", "no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)"),
	toolfile.Drops("network", "there are no subnets, security groups or Service Connect here", "reach the service by the address of --listen"),
	toolfile.Drops("observability", "no traces are collected", "run a collector as a sidecar"),
	toolfile.Drops("publish", "topics of SNS are not made, and COPILOT_SNS_TOPIC_ARNS is not set", ""),
	toolfile.Drops("subscribe", "no queue of SQS is made, and COPILOT_QUEUE_URI is not set", "set COPILOT_QUEUE_URI in variables"),
	toolfile.Drops("logging", "the log router of Copilot is not started", "write a container with firelensConfiguration into the definition (docs/logs.md)"),
	toolfile.Drops("alb", "there is no load balancer here", ""),
	toolfile.Drops("retries", "a run that fails is not repeated", ""),
	toolfile.MeansNothing("`podtask exec` always works", "exec"),
)

// Workloads reads a manifest of Copilot.
func Workloads(r *toolfile.Reader, docs []*doctree.Node) []*toolfile.Workload {
	root := docs[0]
	name := toolfile.TextOf(root.Member("name"))
	return []*toolfile.Workload{{Names: []string{name, toolfile.TextOf(root.Member("type"))}, Name: name, Build: func(res *toolfile.Result) *doctree.Node { return manifest(r, res, root) }}}
}

// manifest makes a task definition of a manifest.
func manifest(r *toolfile.Reader, res *toolfile.Result, root *doctree.Node) *doctree.Node {
	kind := toolfile.TextOf(root.Member("type"))
	if !slices.Contains(copilotTypes, kind) {
		r.Wrong(root.Member("type"), "a "+kind+" does not run on ECS", "import reads manifests of a "+strings.Join(copilotTypes, ", "))
		return root
	}
	root = environment(r, root)
	interpolate(r, root)
	c := copilotManifest{Reader: r, root: root, name: toolfile.TextOf(root.Member("name")), taken: map[int]bool{}}
	toolfile.Teller{Reader: r, Table: Members, What: "the manifest"}.Tell(root)
	def := c.definition()
	if kind == "Scheduled Job" {
		c.job(res, def)
	} else {
		c.service(res, def)
	}
	overrides(r, def, root.Member("taskdef_overrides"))
	return def
}

// environment merges the settings of the chosen environment into a manifest.
func environment(r *toolfile.Reader, root *doctree.Node) *doctree.Node {
	all := root.Member("environments")
	var names []string
	for _, f := range toolfile.Fields(all) {
		names = append(names, f.Key)
	}
	chosen := all.Member(r.Environment)
	switch {
	case r.Environment == "" && len(names) > 0:
		r.Lose(all, "the settings of the environments "+strings.Join(names, ", ")+" are not applied", "choose one with --environment")
	case r.Environment != "" && chosen == nil && len(names) > 0:
		r.Wrong(all, "there are no settings for the environment "+doctree.Quote(r.Environment), "the manifest has "+strings.Join(names, ", "))
	}
	toolfile.Remove(root, "environments")
	if chosen != nil {
		exclude(root, chosen)
		merge(root, chosen)
	}
	return root
}

// exclude removes members of a manifest that exclude those of the environment, as Copilot does.
func exclude(root, chosen *doctree.Node) {
	for _, e := range [][3]string{{"image", "build", "location"}, {"count", "spot", "range"}, {"count", "range", "spot"}} {
		if have := root.Member(e[0]); have != nil && chosen.Member(e[0]).Member(e[1]) != nil {
			toolfile.Remove(have, e[2])
		}
	}
}

// merge replaces the members of an object by those of another one; objects are merged.
func merge(n, with *doctree.Node) {
	for _, f := range with.Fields {
		if have := n.Member(f.Key); have != nil && have.Kind == doctree.Object && f.Value.Kind == doctree.Object {
			merge(have, f.Value)
			continue
		}
		toolfile.Set(n, f.Key, f.Value)
	}
}

// interpolate replaces ${NAME} in all texts.
func interpolate(r *toolfile.Reader, n *doctree.Node) {
	if n.Kind == doctree.Text && strings.Contains(n.Text, "${") {
		n.Text = toolfile.ReplaceBetween(n.Text, "${", "}", func(name string) string {
			if !isVariable(name) { // it is for a shell
				return "${" + name + "}"
			}
			if name == "COPILOT_ENVIRONMENT_NAME" && r.Environment != "" {
				return r.Environment
			}
			v, ok := r.Variable(name)
			if !ok {
				r.AskFor(n, name, "the manifest needs the variable "+name, "set it, or give --param "+name+"=VALUE")
			}
			if r.TextBytes += len(v); r.TextBytes > toolfile.MaxText {
				r.Wrong(n, "the variables make too much text", "")
				return ""
			}
			return v
		})
	}
	for _, item := range n.Items {
		interpolate(r, item)
	}
	for _, f := range n.Fields {
		interpolate(r, f.Value)
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
	*toolfile.Reader
	root  *doctree.Node
	name  string
	port  int          // of the main container; 0 for none
	taken map[int]bool // ports on which the service listens
}

// definition makes the task definition.
func (c *copilotManifest) definition() *doctree.Node {
	root := c.root
	def := c.Object(root, "family", c.TextAt(root, toolfile.Plain(c.name)), "networkMode", c.TextAt(root, "awsvpc"))
	for _, member := range []struct {
		name string
		def  int
	}{{"cpu", 256}, {"memory", 512}} {
		v := root.Member(member.name)
		if v == nil {
			v = c.Number(root, member.def)
		}
		toolfile.Set(def, member.name, c.TextAt(v, toolfile.TextOf(v)))
	}
	if p := root.Member("platform"); p != nil {
		system, arch, _ := strings.Cut(toolfile.TextOf(p), "/")
		if p.Kind == doctree.Object {
			system, arch = toolfile.TextOf(p.Member("osfamily")), toolfile.TextOf(p.Member("architecture"))
		}
		arch = map[string]string{"amd64": "X86_64", "x86_64": "X86_64", "arm": "ARM64", "arm64": "ARM64"}[strings.ToLower(arch)]
		family := strings.ToUpper(cmp.Or(system, "linux"))
		toolfile.Set(def, "runtimePlatform", c.Object(p, "cpuArchitecture", c.TextAt(p, cmp.Or(arch, "X86_64")), "operatingSystemFamily", c.TextAt(p, family)))
	}
	image := root.Member("image")
	main := c.container(toolfile.OrAt(image, root), c.name, root, image, c.name)
	list := c.List(root, main)
	for _, f := range toolfile.Fields(root.Member("sidecars")) {
		list.Items = append(list.Items, c.sidecar(f))
	}
	toolfile.Set(def, "containerDefinitions", list)
	c.storage(def, main)
	c.ports(main)
	env := main.Member("environment")
	if env == nil {
		env = c.List(root)
		toolfile.Set(main, "environment", env)
	}
	add := func(name, value string) {
		env.Items = append(env.Items, c.Object(root, "name", c.TextAt(root, name), "value", c.TextAt(root, value)))
	}
	add("COPILOT_SERVICE_NAME", c.name)
	if c.Environment != "" {
		add("COPILOT_ENVIRONMENT_NAME", c.Environment)
	}
	c.Lose(root, "other variables that Copilot sets, such as COPILOT_APPLICATION_NAME and COPILOT_SERVICE_DISCOVERY_ENDPOINT", "set those that the program reads in variables")
	return def
}

// container makes a container of a manifest or a sidecar. Image is its member image, param what --param calls it.
func (c *copilotManifest) container(at *doctree.Node, name string, n, image *doctree.Node, param string) *doctree.Node {
	out := c.Object(at, "name", c.TextAt(at, toolfile.Plain(name)))
	toolfile.Set(out, "image", c.image(at, name, image, param))
	for member, key := range map[string]string{"entrypoint": "entryPoint", "command": "command"} {
		if v := n.Member(member); v != nil {
			toolfile.Set(out, key, c.words(v))
		}
	}
	c.values(out, n)
	for _, member := range []string{"env_file", "envFile"} {
		if v := n.Member(member); v != nil {
			toolfile.Set(out, "environmentFiles", c.List(v, c.Object(v, "type", c.TextAt(v, "s3"), "value", v)))
			c.Lose(v, member+": its path is relative to the workspace in Copilot, and to the definition here", "write the definition there with --output, or change the path")
		}
	}
	health := n.Member("healthcheck")
	if health == nil {
		health = image.Member("healthcheck")
	}
	if health != nil {
		toolfile.Set(out, "healthCheck", c.health(health))
	}
	depends := n.Member("depends_on")
	if depends == nil {
		depends = image.Member("depends_on")
	}
	if depends != nil {
		list := c.List(depends)
		for _, f := range depends.Fields {
			list.Items = append(list.Items, c.Object(f.Value, "containerName", c.TextAt(f.Value, toolfile.Plain(f.Key)), "condition", c.TextAt(f.Value, strings.ToUpper(toolfile.TextOf(f.Value)))))
		}
		toolfile.Set(out, "dependsOn", list)
	}
	labels := n.Member("labels")
	if labels == nil {
		labels = image.Member("labels")
	}
	if labels != nil {
		toolfile.Set(out, "dockerLabels", labels)
	}
	credentials := n.Member("credentialsParameter")
	if credentials == nil {
		credentials = image.Member("credentials")
	}
	if credentials != nil {
		toolfile.Set(out, "repositoryCredentials", c.Object(credentials, "credentialsParameter", credentials))
	}
	return out
}

// values gives a container its variables and secrets.
func (c *copilotManifest) values(out, n *doctree.Node) {
	if v := n.Member("variables"); v != nil {
		list := c.List(v)
		for _, f := range v.Fields {
			if f.Value.Kind == doctree.Object {
				text, ok := c.Param(f.Key)
				if !ok {
					c.Ask(f.Value, f.Key, "the variable "+f.Key+" is read from another stack (from_cfn)")
				}
				f.Value = c.TextAt(f.Value, text)
			}
			list.Items = append(list.Items, c.Object(f.Value, "name", c.TextAt(f.Value, f.Key), "value", c.TextAt(f.Value, toolfile.TextOf(f.Value))))
		}
		toolfile.Set(out, "environment", list)
	}
	if v := n.Member("secrets"); v != nil {
		list := c.List(v)
		for _, f := range v.Fields {
			list.Items = append(list.Items, c.Object(f.Value, "name", c.TextAt(f.Value, f.Key), "valueFrom", c.secret(f)))
		}
		toolfile.Set(out, "secrets", list)
	}
}

// image returns the image of a container.
func (c *copilotManifest) image(at *doctree.Node, name string, image *doctree.Node, param string) *doctree.Node {
	if v, ok := c.Param("image." + param); ok {
		return c.TextAt(toolfile.OrAt(image, at), v)
	}
	switch {
	case toolfile.Scalar(image):
		return image
	case image.Member("location") != nil:
		return image.Member("location")
	}
	build := image.Member("build")
	dir, options := ".", ""
	switch {
	case toolfile.Scalar(build):
		if i := strings.LastIndexByte(build.Text, '/'); i > 0 {
			dir = build.Text[:i]
		}
	case build.Member("context") != nil:
		dir = toolfile.TextOf(build.Member("context"))
	}
	for _, o := range []struct{ member, flag string }{{"dockerfile", " -f "}, {"target", " --target "}} {
		if v := toolfile.TextOf(build.Member(o.member)); v != "" {
			options += o.flag + toolfile.ShellWord(v)
		}
	}
	for _, arg := range toolfile.Fields(build.Member("args")) {
		options += " --build-arg " + toolfile.ShellWord(arg.Key+"="+toolfile.TextOf(arg.Value))
	}
	local := "localhost/" + strings.ToLower(toolfile.Plain(name))
	c.AskFor(toolfile.OrAt(build, at), "image."+param, "the container "+name+" has no image: podtask builds none",
		"run `podman build -t "+local+options+" "+toolfile.ShellWord(dir)+"`, and give --param "+toolfile.ShellWord("image."+param+"="+local))
	return c.TextAt(at, local)
}

// words returns a command as a list of words.
func (c *copilotManifest) words(v *doctree.Node) *doctree.Node {
	if v.Kind == doctree.List {
		return v
	}
	words, err := shlex.Split(toolfile.TextOf(v))
	if err != nil {
		c.Wrong(v, "the command cannot be split into words", "write it as a list")
	}
	list := c.List(v)
	for _, w := range words {
		list.Items = append(list.Items, c.TextAt(v, w))
	}
	return list
}

// secret returns the valueFrom of a secret: a name or an ARN, or secretsmanager: NAME.
func (c *copilotManifest) secret(f doctree.Field) *doctree.Node {
	v := f.Value
	if toolfile.Scalar(v) {
		return v
	}
	if name := v.Member("secretsmanager"); name != nil {
		return c.TextAt(name, "arn:aws:secretsmanager:local:000000000000:secret:"+toolfile.TextOf(name))
	}
	text, ok := c.Param(f.Key)
	if !ok {
		c.Ask(v, f.Key, "the secret "+f.Key+" is named in another stack (from_cfn)")
	}
	return c.TextAt(v, text)
}

// health makes a health check.
func (c *copilotManifest) health(n *doctree.Node) *doctree.Node {
	out := c.Object(n, "command", n.Member("command"))
	for member, key := range map[string]string{"interval": "interval", "timeout": "timeout", "start_period": "startPeriod"} {
		if v := n.Member(member); v != nil {
			toolfile.Set(out, key, c.seconds(v))
		}
	}
	if v := n.Member("retries"); v != nil {
		toolfile.Set(out, "retries", v)
	}
	for key, seconds := range map[string]int{"interval": 10, "timeout": 5, "retries": 2} { // Copilot's defaults are not those of ECS
		if out.Member(key) == nil {
			toolfile.Set(out, key, c.Number(n, seconds))
		}
	}
	slices.SortFunc(out.Fields, func(a, b doctree.Field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// seconds returns a duration in whole seconds.
func (c *copilotManifest) seconds(v *doctree.Node) *doctree.Node {
	if v.Kind == doctree.Number {
		return v
	}
	d, err := time.ParseDuration(toolfile.TextOf(v))
	if err != nil {
		c.Wrong(v, doctree.Quote(toolfile.TextOf(v))+" is no duration such as 10s", "")
	}
	return c.Number(v, int(d.Seconds()))
}

// sidecar makes a container of a sidecar.
func (c *copilotManifest) sidecar(f doctree.Field) *doctree.Node {
	n := f.Value
	out := c.container(n, f.Key, n, n.Member("image"), f.Key)
	if v := n.Member("essential"); v != nil {
		toolfile.Set(out, "essential", v)
	}
	if v := n.Member("port"); v != nil {
		word, protocol, _ := strings.Cut(toolfile.TextOf(v), "/")
		port, err := strconv.Atoi(word)
		if err != nil {
			c.Wrong(v, "port: "+doctree.Quote(toolfile.TextOf(v))+" is no port such as 80 or 53/udp", "")
		}
		mapping := c.Object(v, "containerPort", c.Number(v, port))
		if protocol != "" {
			toolfile.Set(mapping, "protocol", c.TextAt(v, protocol))
		}
		toolfile.Set(out, "portMappings", c.List(v, mapping))
	}
	if v := n.Member("mount_points"); v != nil {
		list := c.List(v)
		for _, m := range v.Items {
			list.Items = append(list.Items, c.Object(m, "sourceVolume", m.Member("source_volume"), "containerPath", m.Member("path"), "readOnly", m.Member("read_only")))
		}
		toolfile.Set(out, "mountPoints", list)
	}
	return out
}

// storage makes the volumes of the task, and mounts them into the main container.
func (c *copilotManifest) storage(def, main *doctree.Node) {
	s := c.root.Member("storage")
	if v := s.Member("readonly_fs"); v != nil {
		toolfile.Set(main, "readonlyRootFilesystem", v)
	}
	if v := s.Member("ephemeral"); v != nil {
		toolfile.Set(def, "ephemeralStorage", c.Object(v, "sizeInGiB", v))
	}
	volumes, mounts := c.List(s), c.List(s)
	for _, f := range toolfile.Fields(s.Member("volumes")) {
		v := f.Value
		volume := c.Object(v, "name", c.TextAt(v, toolfile.Plain(f.Key)))
		switch efs := v.Member("efs"); {
		case efs == nil || toolfile.Scalar(efs) && !toolfile.IsTrue(efs):
		case toolfile.Scalar(efs) || efs.Member("id") == nil || !toolfile.Scalar(efs.Member("id")):
			toolfile.Set(volume, "efsVolumeConfiguration", c.Object(efs, "fileSystemId", c.TextAt(efs, "fs-copilot")))
			c.Lose(efs, "the file system of the volume "+f.Key+" is made by Copilot; fs-copilot stands for it", "")
		default:
			e := c.Object(efs, "fileSystemId", efs.Member("id"), "rootDirectory", efs.Member("root_dir"))
			if auth := efs.Member("auth"); auth != nil {
				a := c.Object(auth, "accessPointId", auth.Member("access_point_id"))
				if toolfile.IsTrue(auth.Member("iam")) {
					toolfile.Set(a, "iam", c.TextAt(auth, "ENABLED"))
				}
				toolfile.Set(e, "authorizationConfig", a)
				toolfile.Set(e, "transitEncryption", c.TextAt(auth, "ENABLED"))
			}
			toolfile.Set(volume, "efsVolumeConfiguration", e)
		}
		volumes.Items = append(volumes.Items, volume)
		if p := v.Member("path"); p != nil {
			readOnly := v.Member("read_only")
			if readOnly == nil {
				readOnly = c.Boolean(v, true) // as in Copilot
			}
			mounts.Items = append(mounts.Items, c.Object(v, "sourceVolume", c.TextAt(v, toolfile.Plain(f.Key)), "containerPath", p, "readOnly", readOnly))
		}
	}
	if len(volumes.Items) > 0 {
		toolfile.Set(def, "volumes", volumes)
	}
	if len(mounts.Items) > 0 {
		toolfile.Set(main, "mountPoints", mounts)
	}
}

// ports publishes the port of the main container.
func (c *copilotManifest) ports(main *doctree.Node) {
	port := c.root.Member("image").Member("port")
	if p, ok := toolfile.IntOf(port); ok {
		c.port = p
		toolfile.Set(main, "portMappings", c.List(port, c.Object(port, "containerPort", c.Number(port, p))))
	}
}

// count is the number of copies that a service has.
func (c *copilotManifest) count() int {
	count, n := 1, c.root.Member("count")
	if v, ok := toolfile.IntOf(n); ok {
		count = v
	} else if n != nil {
		limits := n.Member("range")
		if limits.Member("min") != nil {
			limits = limits.Member("min")
		}
		least, _, _ := strings.Cut(toolfile.TextOf(limits), "-")
		if v, ok := toolfile.IntOf(c.TextAt(n, least)); ok {
			count = v
		} else if v, ok := toolfile.IntOf(n.Member("spot")); ok {
			count = v
		}
		if n.Member("range") != nil {
			c.Lose(n, fmt.Sprintf("count: the number of copies does not follow the load; it is %d", count), "podtask service scale changes it")
		}
	}
	return count
}

// service makes the command of a service.
func (c *copilotManifest) service(res *toolfile.Result, def *doctree.Node) {
	s := &toolfile.Service{Flags: []string{"--count", fmt.Sprint(c.count())}}
	res.Service = s
	switch rolling := toolfile.TextOf(c.root.Member("deployment").Member("rolling")); rolling {
	case "recreate":
		s.Flags = append(s.Flags, "--min-healthy", "0", "--max", "100")
	default:
		s.Flags = append(s.Flags, "--min-healthy", "100", "--max", "200")
	}
	if a := c.root.Member("deployment").Member("rollback_alarms"); a != nil {
		c.Lose(a, "deployment.rollback_alarms: no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)")
	}
	c.networkBalancer(s, def)
	c.http(s, def)
}

// networkBalancer turns the listeners of nlb into addresses of the service.
func (c *copilotManifest) networkBalancer(s *toolfile.Service, def *doctree.Node) {
	nlb := c.root.Member("nlb")
	if nlb == nil || nlb.Kind != doctree.Object {
		return
	}
	for _, l := range append([]*doctree.Node{nlb}, toolfile.Items(nlb.Member("additional_listeners"))...) {
		word, protocol, _ := strings.Cut(toolfile.TextOf(l.Member("port")), "/")
		from, ok := toolfile.IntOf(c.TextAt(l, word))
		if !ok {
			c.Wrong(l, "nlb: port: "+doctree.Quote(toolfile.TextOf(l.Member("port")))+" is no port such as 443/tls", "")
			continue
		}
		container, to := toolfile.Plain(c.name), from // whatever image.port says, as in Copilot
		if target := l.Member("target_container"); target != nil {
			container = toolfile.Plain(toolfile.TextOf(target))
		}
		if v, ok := toolfile.IntOf(l.Member("target_port")); ok {
			to = v
		}
		if protocol == "udp" {
			c.Lose(l, fmt.Sprintf("nlb: port %d/udp, because a service forwards TCP only", from), "")
			continue
		}
		c.publish(def, container, to)
		from = c.listen(s, from, container, to)
		c.Lose(l, fmt.Sprintf("nlb: certificates and health checks of the load balancer; the service listens on port %d instead", from), "")
	}
}

// listen gives a service an address with a port, or with the next one that is free, and returns the port.
func (c *copilotManifest) listen(s *toolfile.Service, port int, container string, to int) int {
	if port < 1024 { // which users may not open
		port += 8000
	}
	for c.taken[port] {
		port++
	}
	c.taken[port] = true
	s.Flags = append(s.Flags, "--listen", fmt.Sprintf("%d=%s:%d", port, container, to))
	return port
}

// publish gives a container a port, if it has it not yet.
func (c *copilotManifest) publish(def *doctree.Node, name string, port int) {
	for _, ctr := range toolfile.Items(def.Member("containerDefinitions")) {
		if toolfile.TextOf(ctr.Member("name")) != name {
			continue
		}
		ports := ctr.Member("portMappings")
		if ports == nil {
			ports = c.List(ctr)
			toolfile.Set(ctr, "portMappings", ports)
		}
		for _, p := range ports.Items {
			if have, _ := toolfile.IntOf(p.Member("containerPort")); have == port {
				return
			}
		}
		ports.Items = append(ports.Items, c.Object(ctr, "containerPort", c.Number(ctr, port)))
	}
}

// http turns the rules of a load balancer into an address of the service.
func (c *copilotManifest) http(s *toolfile.Service, def *doctree.Node) {
	http := c.root.Member("http")
	if http == nil || http.Kind != doctree.Object {
		return
	}
	if v := http.Member("grace_period"); v != nil {
		s.Flags = append(s.Flags, "--health-grace", toolfile.TextOf(v))
	} else if v := http.Member("healthcheck").Member("grace_period"); v != nil {
		s.Flags = append(s.Flags, "--health-grace", toolfile.TextOf(v))
	}
	if v := http.Member("deregistration_delay"); v != nil {
		s.Flags = append(s.Flags, "--drain", toolfile.TextOf(v))
	}
	container, port := toolfile.Plain(c.name), c.port
	target := http.Member("target_container")
	if target == nil {
		target = http.Member("targetContainer")
	}
	if target != nil && toolfile.TextOf(target) != c.name {
		container = toolfile.Plain(toolfile.TextOf(target))
		p, _, _ := strings.Cut(toolfile.TextOf(c.root.Member("sidecars").Member(toolfile.TextOf(target)).Member("port")), "/")
		port, _ = toolfile.IntOf(c.TextAt(target, p))
	}
	if v, ok := toolfile.IntOf(http.Member("target_port")); ok {
		port = v
	}
	if port == 0 {
		c.Wrong(http, "http: the container "+container+" has no port", "write image.port")
		return
	}
	c.publish(def, container, port)
	at := c.listen(s, port, container, port)
	if rules := http.Member("additional_rules"); rules != nil {
		c.Lose(rules, "http.additional_rules: paths that lead to other containers or ports", "give podtask service create a --listen PORT=CONTAINER:PORT for each")
	}
	c.Lose(http, fmt.Sprintf("http: host names, paths, certificates and health checks of the load balancer; the service listens on port %d instead", at), "write image.healthcheck, so that podtask knows which copies are healthy")
}

// job makes the command of a schedule.
func (c *copilotManifest) job(res *toolfile.Result, def *doctree.Node) {
	at := c.root.Member("on").Member("schedule")
	if v := c.root.Member("timeout"); v != nil {
		toolfile.Set(def, "x-podtask", c.Object(v, "timeout", c.seconds(v)))
	}
	if at == nil {
		c.Wrong(c.root, "on.schedule is missing", "")
		return
	}
	expression := strings.TrimSpace(toolfile.TextOf(at))
	if every, ok := strings.CutPrefix(expression, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(every))
		if err != nil || d < time.Minute || d%time.Minute != 0 {
			c.Wrong(at, "@every takes a number of minutes or hours, not "+doctree.Quote(every), "")
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
		c.Lose(at, "on.schedule none: nothing starts the job by itself", "")
	case calendar.IsEventBridge(expression):
		c.AddSchedule(res, toolfile.Due{At: at, Expression: expression}, false)
	default:
		events, err := calendar.Cron(expression)
		if err != nil {
			c.Wrong(at, err.Error(), "")
			return
		}
		s := toolfile.Schedule{Name: res.Name}
		for _, e := range events {
			s.Flags = append(s.Flags, "--at", e)
		}
		s.Flags = append(s.Flags, "--timezone", "UTC")
		res.Schedules = append(res.Schedules, s)
	}
}
