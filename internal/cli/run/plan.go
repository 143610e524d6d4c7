package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// PlanCommand is `podtask plan`.
func PlanCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "show what run would do, and change nothing",
		ArgsUsage: "FILE|-|FAMILY[:REV]",
		Description: `The plan uses the definition only: it does not contact Podman. With --resolve it queries the
registries for the digests of the images.

Examples:
  podtask plan web.json
  podtask plan --resolve --map-volume data=./data web.json
  podtask plan --refs web.json
  podtask plan --format dot web.json | dot -Tsvg > web.svg
  podtask plan --format mermaid web.json

  $ podtask plan shop.json
  TASK shop   network bridge, 3 containers

  START
    1  migrate   shop/migrate:1.4
    2  web       shop/web:1.4       after migrate has ended with 0
    3  client    shop/client:1.4    after web is healthy
  ...`,
		Flags: append(command.DefinitionFlags(),
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container; NAME alone takes the value from this environment"},
			&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, a line each"},
			&cli.BoolFlag{Name: "resolve", Usage: "ask the registries for digests"},
			&cli.BoolFlag{Name: "refs", Usage: "show what answers each reference to AWS, and the entry to add to podtask.toml where nothing does"},
			&cli.StringFlag{Name: "format", Value: "text", Usage: "text, json, or the dependencies as a graph: dot or mermaid"},
		),
		Action: planOptions{
			out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, environ: p.CallerEnviron,
			definition: p.Definition, openEngine: p.OpenEngine,
		}.run,
	}
}

type planOptions struct {
	out, errOut io.Writer
	getenv      func(string) string
	environ     func() []string
	definition  func(c *cli.Context, name string) (command.Definition, error)
	openEngine  func(*cli.Context) (*engine.Engine, error) // for --resolve
}

func (o planOptions) run(c *cli.Context) error {
	format := c.String("format")
	write, known := map[string]func(plan) error{
		"text":    func(pl plan) error { return pl.writeText(o.out, console.ColorsFor(o.out, o.getenv)) },
		"json":    func(pl plan) error { return console.WriteJSON(o.out, pl) },
		"dot":     func(pl plan) error { return pl.writeDOT(o.out) },
		"mermaid": func(pl plan) error { return pl.writeMermaid(o.out) },
	}[format]
	if !known {
		return command.Usagef("plan", "no format %q: it is text, json, dot or mermaid", format)
	}
	if n := c.Args().Len(); n != 1 {
		return command.Usagef("plan", "plan takes one FILE, not %d arguments", n)
	}
	d, err := o.definition(c, c.Args().First())
	if err != nil {
		return err
	}
	if d.Changes.Environment, err = command.ReadEnv(o.environ, "plan", c.StringSlice("env-file"), c.StringSlice("env")); err != nil {
		return err
	}
	task, f, err := d.Read()
	if err != nil {
		return err
	}
	if !f.Valid {
		f.Print(o.errOut)
		fmt.Fprintf(o.errOut, "%s is not valid: there is nothing to plan\n", f.File)
		return command.ExitStatus(command.ExitInvalid)
	}
	pl := makePlan(task, f)
	pl.Logs = command.LogsOf(task, d.Logs())
	if c.Bool("refs") {
		pl.addReferences(f.Definition.References)
	}
	if c.Bool("resolve") {
		e, err := o.openEngine(c)
		if err != nil {
			return err
		}
		defer e.Close()
		if err := pl.resolve(c.Context, e.Images, task); err != nil {
			return err
		}
	}
	return write(pl)
}

// plan describes what `podtask run` does with a definition.
type plan struct {
	Family      string `json:"family"`
	File        string `json:"file"`
	NetworkMode string `json:"networkMode"`
	PIDMode     string `json:"pidMode,omitempty"`
	IPCMode     string `json:"ipcMode,omitempty"`
	// StartLevels and StopLevels hold names of containers; those of one level start
	// or stop together.
	StartLevels [][]string `json:"startLevels"`
	StopLevels  [][]string `json:"stopLevels"`
	// StopSeconds is the longest time that an orderly stop may take.
	StopSeconds float64            `json:"stopSeconds"`
	Slice       []planProperty     `json:"slice"`
	Containers  []planContainer    `json:"containers"`
	Ports       []planPort         `json:"ports"`
	Mounts      []planMount        `json:"mounts"`
	Secrets     []planSecret       `json:"secrets"`
	Ulimits     []planUlimit       `json:"ulimits,omitempty"`
	EnvFiles    []planEnvFile      `json:"environmentFiles,omitempty"`
	ExtraHosts  []taskdef.Host     `json:"extraHosts,omitempty"`
	Logs        []command.LogRoute `json:"logs,omitempty"`
	// Addresses are the public ones that a service of the task has.
	Addresses []planAddress `json:"addresses,omitempty"`
	// Namespace is the one whose services the task reaches by name.
	Namespace string `json:"namespace,omitempty"`
	// References is set with --refs.
	References []planReference   `json:"references,omitempty"`
	Warnings   []taskdef.Problem `json:"warnings"`
	Needs      []taskdef.Problem `json:"needs"`
}

// planProperty is a property of the systemd slice of the task.
type planProperty struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

type planContainer struct {
	Name   string `json:"name"`
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"`
	// Signature is the demand of the signature policy of Podman on the image; it comes with Digest.
	Signature string          `json:"signature,omitempty"`
	Essential bool            `json:"essential"`
	DependsOn []planCondition `json:"dependsOn,omitempty"`
	// CPUShares is 2 to 262144, CPULimit is in vCPU, the others are in bytes; 0 means none.
	CPUShares         int64   `json:"cpuShares,omitempty"`
	CPULimit          float64 `json:"cpuLimit,omitempty"`
	Memory            int64   `json:"memory,omitempty"`
	MemoryReservation int64   `json:"memoryReservation,omitempty"`
	// MaxSwap is bytes besides Memory; null for the default of the host.
	MaxSwap *int64 `json:"maxSwap,omitempty"`
	// SharedMemory is the size of /dev/shm in bytes; 0 means the engine's default.
	SharedMemory int64   `json:"sharedMemory,omitempty"`
	HealthCheck  bool    `json:"healthCheck,omitempty"`
	Restart      bool    `json:"restart,omitempty"`
	StopSeconds  float64 `json:"stopSeconds"`
}

type planCondition struct {
	Container string            `json:"container"`
	Condition taskdef.Condition `json:"condition"`
}

// planPort is a port mapping. HostPort is 0 if it is chosen at the start.
type planPort struct {
	Container        string `json:"container"`
	ContainerPort    uint16 `json:"containerPort"`
	ContainerPortEnd uint16 `json:"containerPortEnd,omitempty"`
	Protocol         string `json:"protocol"`
	HostIP           string `json:"hostIP,omitempty"`
	HostPort         uint16 `json:"hostPort"`
	// AWSVPCHostPort is published if it is free.
	AWSVPCHostPort uint16 `json:"preferredHostPort,omitempty"`
	// AnyOf are host ports, FIRST-LAST, of which a free one is chosen.
	AnyOf string `json:"anyOf,omitempty"`
	Name  string `json:"name,omitempty"`
}

// ofManifest stands for a certificate in a Secret of the manifest itself.
const ofManifest = "manifest"

// planAddress is a public address of a service of the task.
type planAddress struct {
	URL           string `json:"url"`
	Container     string `json:"container"`
	ContainerPort uint16 `json:"containerPort"`
	// Certificate is acme, internal, a file, the source of a secret, or "manifest" for a Secret of the manifest itself; empty
	// without TLS.
	Certificate string `json:"certificate,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	// Auth is the source of a secret with the users who may send requests; empty for everybody.
	Auth string `json:"auth,omitempty"`
}

// planMount is a mount of a container.
type planMount struct {
	Container string `json:"container"`
	Path      string `json:"path"`
	Kind      string `json:"kind"` // the kind of the volume, or tmpfs
	Volume    string `json:"volume,omitempty"`
	Source    string `json:"source,omitempty"` // a path of the host
	ReadOnly  bool   `json:"readOnly,omitempty"`
	Size      int64  `json:"size,omitempty"` // bytes of a tmpfs
}

// planSecret is a secret of a container, and its source.
type planSecret struct {
	Container string `json:"container"`
	Variable  string `json:"variable,omitempty"`
	Path      string `json:"path,omitempty"`
	// Login: it has the credentials for the registry of the image.
	Login   bool   `json:"login,omitempty"`
	Source  string `json:"source,omitempty"`
	JSONKey string `json:"jsonKey,omitempty"`
}

// planUlimit is a ulimit of a container; -1 is unlimited.
type planUlimit struct {
	Container string `json:"container"`
	taskdef.Ulimit
}

// planEnvFile is an environment file; it has no path if it is not mapped.
type planEnvFile struct {
	Container string `json:"container"`
	taskdef.EnvironmentFile
}

// planReference is a reference to AWS in the definition, and its source on this host.
type planReference struct {
	taskdef.Resolved
	// Add is an entry for podtask.toml that would resolve it; empty if it is resolved.
	Add string `json:"add,omitempty"`
}

// addReferences adds the references, each once.
func (pl *plan) addReferences(all []taskdef.Resolved) {
	seen := make(map[string]bool)
	for _, r := range all {
		key := string(r.Kind) + " " + r.Reference + " " + r.Source
		if seen[key] {
			continue
		}
		seen[key] = true
		ref := planReference{Resolved: r}
		if r.Source == "" {
			ref.Add = taskdef.RuleFor(r.Kind, r.Reference)
		}
		pl.References = append(pl.References, ref)
	}
}

// makePlan returns the plan of a task.
func makePlan(t taskdef.Task, f command.Finding) plan {
	pl := plan{
		Family: t.Family, File: f.File, NetworkMode: string(t.Network), PIDMode: string(t.PIDMode), IPCMode: string(t.IPCMode),
		StartLevels: namesOf(t, t.Levels()), StopLevels: namesOf(t, t.ShutdownOrder()), StopSeconds: t.StopBound().Seconds(),
		Slice: []planProperty{}, Ports: []planPort{}, Mounts: []planMount{}, Secrets: []planSecret{},
		ExtraHosts: t.ExtraHosts(), Namespace: t.Extensions.Namespace, Warnings: f.Warnings, Needs: f.Needs,
	}
	for _, i := range t.Extensions.Ingress {
		a, err := taskdef.ParseAddress(i.URL)
		if err != nil {
			continue // a valid task has none
		}
		one := planAddress{URL: a.String(), Container: i.Container, ContainerPort: i.Port, Protocol: i.Protocol, Auth: i.Auth}
		if a.Secure {
			one.Certificate = i.Issuer(a)
			if i.CertificateOfManifest() {
				one.Certificate = ofManifest
			}
		}
		pl.Addresses = append(pl.Addresses, one)
	}
	// A valid task has limits in range.
	properties, _ := cgroups.Properties(taskspec.SliceLimits(t))
	for _, p := range properties {
		pl.Slice = append(pl.Slice, planProperty{p.Name, p.Value.Value()})
	}
	for i, c := range t.Containers {
		pl.addContainer(t, c)
		pl.addMounts(t, i)
		pl.addSecrets(c)
		pl.addKernel(c)
		for _, p := range c.Ports {
			anyOf := ""
			if p.AnyOf.Given() {
				anyOf = p.AnyOf.String()
			}
			pl.Ports = append(pl.Ports, planPort{c.Name, p.ContainerPort, p.ContainerPortEnd, p.Protocol, p.HostIP, p.HostPort, p.AWSVPCHostPort, anyOf, p.Name})
		}
	}
	return pl
}

func namesOf(t taskdef.Task, levels [][]int) [][]string {
	names := make([][]string, len(levels))
	for i, level := range levels {
		for _, c := range level {
			names[i] = append(names[i], t.Containers[c].Name)
		}
	}
	return names
}

func (pl *plan) addContainer(t taskdef.Task, c taskdef.Container) {
	pc := planContainer{
		Name: c.Name, Image: c.Image, Essential: c.Essential,
		CPUShares: int64(cgroups.Shares(c.CPU)), CPULimit: c.Extensions.CPULimit, Memory: c.Memory, MemoryReservation: c.MemoryReservation,
		MaxSwap: c.Linux.MaxSwap, SharedMemory: c.Linux.ShmSize,
		HealthCheck: c.HasHealth(), Restart: c.Restart != nil, StopSeconds: c.StopTimeout.Seconds(),
	}
	for _, d := range c.DependsOn {
		pc.DependsOn = append(pc.DependsOn, planCondition{t.Containers[d.Container].Name, d.Condition})
	}
	pl.Containers = append(pl.Containers, pc)
}

func (pl *plan) addMounts(t taskdef.Task, i int) {
	c := t.Containers[i]
	for _, m := range t.Mounts(i) {
		v, _ := t.Volume(m.Volume)
		pl.Mounts = append(pl.Mounts, planMount{Container: c.Name, Path: m.Path, Kind: string(v.Kind), Volume: v.Name, Source: v.HostPath, ReadOnly: m.ReadOnly})
	}
	for _, m := range c.Linux.Tmpfs {
		pl.Mounts = append(pl.Mounts, planMount{Container: c.Name, Path: m.Path, Kind: "tmpfs", Size: m.Size})
	}
}

func (pl *plan) addSecrets(c taskdef.Container) {
	for _, s := range c.Secrets {
		for _, v := range s.Values() {
			pl.Secrets = append(pl.Secrets, planSecret{Container: c.Name, Variable: s.Name, Source: v.Source, JSONKey: v.JSONKey})
		}
	}
	for _, s := range c.Extensions.SecretFiles {
		pl.Secrets = append(pl.Secrets, planSecret{Container: c.Name, Path: s.Path, Source: s.Source, JSONKey: s.JSONKey})
	}
}

// addKernel adds ulimits, environment files and registry credentials.
func (pl *plan) addKernel(c taskdef.Container) {
	for _, l := range c.Linux.Ulimits {
		pl.Ulimits = append(pl.Ulimits, planUlimit{c.Name, l})
	}
	for _, f := range c.EnvironmentFiles {
		pl.EnvFiles = append(pl.EnvFiles, planEnvFile{c.Name, f})
	}
	if login := c.RepositoryCredentials; login != nil {
		pl.Secrets = append(pl.Secrets, planSecret{Container: c.Name, Login: true, Source: login.Source, JSONKey: login.JSONKey})
	}
}

// resolve fills in the digests, asking for each image once.
func (pl *plan) resolve(ctx context.Context, images *imagestore.Resolver, task taskdef.Task) error {
	digests := make(map[string]string)
	for i, c := range pl.Containers {
		if c.Image == "" {
			continue // a placeholder without a value
		}
		digest, known := digests[c.Image]
		if !known {
			var err error
			if digest, err = images.Digest(ctx, lifecycle.State{Task: task}, c.Image); err != nil {
				return fmt.Errorf("resolve the image of container %s: %w", c.Name, err)
			}
			digests[c.Image] = digest
		}
		pl.Containers[i].Digest, pl.Containers[i].Signature = digest, images.Trust(c.Image)
	}
	return nil
}

// words describes what a dependent container waits for.
func (d planCondition) words() string {
	return d.Container + map[taskdef.Condition]string{
		taskdef.Start: " has started", taskdef.Complete: " has ended", taskdef.Success: " has ended with 0", taskdef.Healthy: " is healthy",
	}[d.Condition]
}

func (pl plan) container(name string) planContainer {
	for _, c := range pl.Containers {
		if c.Name == name {
			return c
		}
	}
	return planContainer{}
}

func (pl plan) stopBound() time.Duration { return time.Duration(pl.StopSeconds * float64(time.Second)) }

// host describes the address on the host.
func (p planPort) host() string {
	ip := p.HostIP
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	if ip != "" {
		ip += ":"
	}
	last := int(p.HostPort) + int(p.ContainerPortEnd) - int(p.ContainerPort)
	switch {
	case p.HostPort == 0 && p.AWSVPCHostPort != 0:
		first, second := p, p
		first.HostPort, second.HostIP, second.AWSVPCHostPort = p.AWSVPCHostPort, "", 0
		return first.host() + ", or " + second.host()
	case p.HostPort == 0 && p.ContainerPortEnd != 0:
		return ip + fmt.Sprintf("%d free ports in a row", int(p.ContainerPortEnd)-int(p.ContainerPort)+1)
	case p.AnyOf != "":
		return ip + "a free port of " + p.AnyOf
	case p.HostPort == 0:
		return ip + "a free port"
	case p.ContainerPortEnd != 0:
		return ip + fmt.Sprintf("%d-%d", p.HostPort, last)
	}
	return ip + fmt.Sprint(p.HostPort)
}

func (p planPort) inside() string {
	if p.ContainerPortEnd != 0 {
		return fmt.Sprintf("%d-%d/%s", p.ContainerPort, p.ContainerPortEnd, p.Protocol)
	}
	return fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
}
