package payload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// Problem explains why a task cannot run. Container is empty for the task as a whole.
type Problem struct {
	Container string
	// Name is the name of an error of the ECS agent.
	Name string
	Text string
}

func (p Problem) Error() string {
	if p.Container == "" {
		return p.Text
	}
	return p.Container + ": " + p.Text
}

// Kind says where the value of a Need comes from.
type Kind string

// The kinds.
const (
	// FromSSM is a parameter.
	FromSSM Kind = "ssm"
	// FromASM is a secret of Secrets Manager.
	FromASM Kind = "asm"
	// FromS3 is an object with variables.
	FromS3 Kind = "s3"
	// RegistryASM is a secret with a user and a password.
	RegistryASM Kind = "registry-asm"
	// RegistryECR is a token of a registry.
	RegistryECR Kind = "registry-ecr"
	// Role is the role of the task's containers.
	Role Kind = "role"
	// LogRole is the execution role, for containers whose lines go to CloudWatch Logs.
	LogRole Kind = "log-role"
)

// Need is a value that the definition refers to and that AWS has.
type Need struct {
	Kind Kind
	// Match is how the definition names it: the pattern of a reference.
	Match string
	// Name is what AWS is asked for; Region where, empty for that of the instance.
	Name, Region string
	// Instance: the credentials of the instance are used, not those of the execution role.
	Instance bool
}

// Plan is a task that an agent can be asked to run.
type Plan struct {
	Definition json.RawMessage
	Needs      []Need
}

// Of returns the plan of a task of an instance. All problems are returned at once, and then there is no plan.
func Of(t wire.Task, instance string) (Plan, []Problem) {
	b := &builder{}
	d := b.task(t)
	d["tags"] = tagsOf(t, instance)
	if len(b.problems) > 0 {
		return Plan{}, b.problems
	}
	text, err := json.Marshal(d)
	if err != nil {
		return Plan{}, []Problem{{Text: err.Error()}}
	}
	return Plan{text, b.needs}, nil
}

// builder collects what a definition needs, and its problems.
type builder struct {
	problems []Problem
	needs    []Need
	at       string // the container
}

func (b *builder) problem(name, format string, args ...any) {
	b.problems = append(b.problems, Problem{b.at, name, fmt.Sprintf(format, args...)})
}

// refuse reports a member that podtask has nothing for.
func (b *builder) refuse(member, why string) {
	b.problem("HostConfigError", "%s: %s", member, why)
}

func (b *builder) need(n Need) {
	if !slices.Contains(b.needs, n) {
		b.needs = append(b.needs, n)
	}
}

type object = map[string]any

func (b *builder) task(t wire.Task) object {
	d := object{"family": cmp.Or(t.Family, "task")}
	set(d, "networkMode", t.NetworkMode)
	set(d, "pidMode", t.PIDMode)
	set(d, "ipcMode", t.IPCMode)
	if t.CPU > 0 {
		d["cpu"] = strconv.FormatInt(int64(math.Round(t.CPU*1024)), 10)
	}
	if t.Memory > 0 {
		d["memory"] = strconv.FormatInt(t.Memory, 10)
	}
	if t.Role != nil && t.Role.RoleARN != "" {
		d["taskRoleArn"] = t.Role.RoleARN
		b.need(Need{Kind: Role, Match: "role:" + t.Role.RoleARN})
	}
	if t.ExecutionRole != nil {
		set(d, "executionRoleArn", t.ExecutionRole.RoleARN)
	}
	if len(t.NetworkInterfaces) > 0 || len(t.Attachments) > 0 {
		b.refuse("attachments", "network interfaces and disks of AWS cannot be attached to this host")
	}
	if t.ProxyConfiguration != nil {
		b.refuse("proxyConfiguration", "a proxy for the traffic of a task is not supported")
	}
	if t.TrustedExecution != nil {
		b.refuse("trustedExecutionConfiguration", "this host has no isolation that AWS vouches for")
	}
	if len(t.Containers) == 0 {
		b.problem("TaskStateError", "the task has no containers")
	}
	var list, volumes []object
	for _, v := range t.Volumes {
		volumes = append(volumes, b.volume(v))
	}
	for _, c := range t.Containers {
		b.at = c.Name
		d := b.container(t, c)
		nameStream(d, t.ARN)
		list = append(list, d)
	}
	b.at = ""
	d["containerDefinitions"] = list
	if len(volumes) > 0 {
		d["volumes"] = volumes
	}
	if slices.ContainsFunc(t.Containers, usesAWSLogs) {
		b.logRole(t)
	}
	for _, a := range t.Associations {
		b.associate(a)
	}
	return d
}

// logRole notes that lines are sent with the execution role.
func (b *builder) logRole(t wire.Task) {
	if t.ExecutionRole != nil && t.ExecutionRole.RoleARN != "" {
		b.need(Need{Kind: LogRole, Match: "execution-role:" + t.ExecutionRole.RoleARN})
	}
}

// noGPUs explains why a task with GPUs is refused: ECS chooses devices by the IDs that an instance has announced, and
// the agent gives a task devices of its own choice.
const noGPUs = "this instance announces no GPUs to ECS, so it has none of that ID"

// associate refuses devices that ECS has chosen.
func (b *builder) associate(a wire.Association) {
	if strings.EqualFold(a.Type, "gpu") {
		b.refuse("associations", fmt.Sprintf("GPU %q for %s: %s", a.Name, strings.Join(a.Containers, ", "), noGPUs))
		return
	}
	b.refuse("associations", fmt.Sprintf("devices of type %q are not supported", a.Type))
}

func (b *builder) volume(v wire.Volume) object {
	out := object{"name": v.Name}
	switch {
	case v.Docker != nil:
		c := object{}
		set(c, "scope", v.Docker.Scope)
		set(c, "driver", v.Docker.Driver)
		if v.Docker.Autoprovision != nil {
			c["autoprovision"] = *v.Docker.Autoprovision
		}
		if len(v.Docker.DriverOpts) > 0 {
			c["driverOpts"] = v.Docker.DriverOpts
		}
		if len(v.Docker.Labels) > 0 {
			c["labels"] = v.Docker.Labels
		}
		out["dockerVolumeConfiguration"] = c
	case v.EFS != nil:
		c := object{"fileSystemId": v.EFS.FileSystemID}
		set(c, "rootDirectory", v.EFS.RootDirectory)
		out["efsVolumeConfiguration"] = c
	case v.FSx != nil:
		b.refuse("volumes", v.Name+" is of FSx, which this host does not have")
	case v.Type != "" && v.Type != "host" && v.Type != "docker":
		b.refuse("volumes", fmt.Sprintf("%s is of type %q, which this host does not have", v.Name, v.Type))
	case v.Host != nil && v.Host.SourcePath != "":
		out["host"] = object{"sourcePath": v.Host.SourcePath}
	}
	return out
}

func (b *builder) container(t wire.Task, c wire.Container) object {
	d := object{"name": c.Name, "image": c.Image, "essential": c.Essential == nil || *c.Essential}
	setList(d, "command", c.Command)
	if c.EntryPoint != nil {
		setList(d, "entryPoint", *c.EntryPoint)
	}
	b.override(d, c.Overrides)
	b.plain(d, c)
	b.secrets(d, c)
	b.registry(d, c)
	checked := b.docker(t, d, c.Docker)
	if strings.EqualFold(c.HealthCheckType, "docker") && !checked {
		b.problem("DockerClientConfigError", "docker health check is nil while container health check type is DOCKER")
	}
	if options := c.Firelens; options != nil {
		f := object{"type": options.Type}
		if len(options.Options) > 0 {
			f["options"] = options.Options
		}
		d["firelensConfiguration"] = f
	}
	if len(c.CredentialSpecs) > 0 {
		b.refuse("credentialSpecs", "accounts of Active Directory are not supported")
	}
	if c.Privileged {
		d["privileged"] = true
	}
	// Secrets of the log driver are beside its options.
	if options := b.logSecrets(c); len(options) > 0 {
		logs, ok := d["logConfiguration"].(object)
		if !ok {
			b.refuse("secrets", "one is for the log driver, but there is none")
			return d
		}
		logs["secretOptions"] = options
	}
	return d
}

// plain sets what a payload has as a definition does.
func (b *builder) plain(d object, c wire.Container) {
	setNumber(d, "cpu", c.CPU)
	setNumber(d, "memory", c.Memory)
	setNumber(d, "startTimeout", c.StartTimeout)
	setNumber(d, "stopTimeout", c.StopTimeout)
	setList(d, "links", c.Links)
	if len(c.Environment) > 0 {
		var list []object
		for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
			list = append(list, object{"name": name, "value": c.Environment[name]})
		}
		d["environment"] = list
	}
	var files, ports, mounts, from, depends []object
	for _, f := range c.EnvironmentFiles {
		files = append(files, object{"type": cmp.Or(f.Type, "s3"), "value": f.Value})
		b.need(Need{Kind: FromS3, Match: f.Value, Name: f.Value})
	}
	for _, p := range c.PortMappings {
		one := object{}
		setNumber(one, "containerPort", int64(p.ContainerPort))
		setNumber(one, "hostPort", int64(p.HostPort))
		set(one, "containerPortRange", p.ContainerPortRange)
		set(one, "protocol", p.Protocol)
		ports = append(ports, one)
	}
	for _, m := range c.MountPoints {
		mounts = append(mounts, object{"sourceVolume": m.SourceVolume, "containerPath": m.ContainerPath, "readOnly": m.ReadOnly})
	}
	for _, v := range c.VolumesFrom {
		from = append(from, object{"sourceContainer": v.SourceContainer, "readOnly": v.ReadOnly})
	}
	for _, x := range c.DependsOn {
		depends = append(depends, object{"containerName": x.ContainerName, "condition": x.Condition})
	}
	for name, list := range map[string][]object{"environmentFiles": files, "portMappings": ports, "mountPoints": mounts, "volumesFrom": from, "dependsOn": depends} {
		if len(list) > 0 {
			d[name] = list
		}
	}
	if p := c.RestartPolicy; p != nil {
		one := object{"enabled": p.Enabled}
		setNumber(one, "restartAttemptPeriod", p.RestartAttemptPeriod)
		if len(p.IgnoredExitCodes) > 0 {
			one["ignoredExitCodes"] = p.IgnoredExitCodes
		}
		d["restartPolicy"] = one
	}
}

// override applies the overrides of a container: its command alone, as ECS has merged the rest.
func (b *builder) override(d object, text string) {
	if text == "" {
		return
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		b.problem("TaskStateError", "overrides is not a JSON object")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var command []string
		switch {
		case !strings.EqualFold(key, "command"):
			b.problem("TaskStateError", "overrides has the member %q, and only command is known", key)
		case json.Unmarshal(keys[key], &command) != nil:
			b.problem("TaskStateError", "overrides.command is not a list of words")
		default:
			setList(d, "command", command)
		}
	}
}

func (b *builder) secrets(d object, c wire.Container) {
	var list []object
	for _, s := range c.Secrets {
		b.secret(s)
		switch {
		case strings.EqualFold(s.Target, "LOG_DRIVER"):
		case s.Type == "" || strings.EqualFold(s.Type, "ENVIRONMENT_VARIABLE"):
			list = append(list, object{"name": s.Name, "valueFrom": s.ValueFrom})
		default:
			b.refuse("secrets", fmt.Sprintf("%s is of type %q, and only variables are supported", s.Name, s.Type))
		}
	}
	if len(list) > 0 {
		d["secrets"] = list
	}
}

func (b *builder) secret(s wire.Secret) {
	kind := FromSSM
	switch strings.ToLower(s.Provider) {
	case "ssm":
	case "asm":
		kind = FromASM
	case "":
		if strings.Contains(s.ValueFrom, ":secretsmanager:") {
			kind = FromASM
		}
	default:
		b.refuse("secrets", fmt.Sprintf("%s is of the provider %q, and only ssm and asm are known", s.Name, s.Provider))
	}
	b.need(Need{Kind: kind, Match: s.ValueFrom, Name: s.ValueFrom, Region: s.Region})
}

func (b *builder) logSecrets(c wire.Container) (out []object) {
	for _, s := range c.Secrets {
		if strings.EqualFold(s.Target, "LOG_DRIVER") {
			out = append(out, object{"name": s.Name, "valueFrom": s.ValueFrom})
		}
	}
	return out
}

func (b *builder) registry(d object, c wire.Container) {
	a := c.RegistryAuth
	switch {
	case a == nil || a.Type == "":
	case strings.EqualFold(a.Type, "asm") && a.ASM != nil && a.ASM.CredentialsParameter != "":
		d["repositoryCredentials"] = object{"credentialsParameter": a.ASM.CredentialsParameter}
		b.need(Need{Kind: RegistryASM, Match: a.ASM.CredentialsParameter, Name: a.ASM.CredentialsParameter, Region: a.ASM.Region})
	case strings.EqualFold(a.Type, "ecr") && a.ECR != nil:
		name := fmt.Sprintf("/ecs/registry/%s/%s", a.ECR.Region, a.ECR.RegistryID) // as a parameter, which a reference answers
		if a.ECR.UseExecutionRole {
			name += "/execution-role"
		}
		d["repositoryCredentials"] = object{"credentialsParameter": name}
		b.need(Need{Kind: RegistryECR, Match: name, Name: a.ECR.RegistryID, Region: a.ECR.Region, Instance: !a.ECR.UseExecutionRole})
	default:
		b.refuse("registryAuthentication", fmt.Sprintf("of the type %q it has no data, or is not known", a.Type))
	}
}

func set(d object, name, value string) {
	if value != "" {
		d[name] = value
	}
}

func setNumber(d object, name string, n int64) {
	if n != 0 {
		d[name] = n
	}
}

func setList(d object, name string, list []string) {
	if len(list) > 0 {
		d[name] = list
	}
}
