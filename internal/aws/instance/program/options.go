package program

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/podtask/podtask/internal/aws/instance"
	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/identity"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/netns"
)

// errHelp: the help was printed.
var errHelp = flag.ErrHelp

// options has the flags. A command has those that it acts on.
type options struct {
	flags   *flag.FlagSet
	getenv  func(string) string
	version string
	command string

	cluster, region, endpoint, profile string
	socket                             string
	attributes, tags                   string
	cpu, memory, reservedMemory        int64
	ports, udpPorts                    string
	awslogs                            bool
	cleanup                            time.Duration
	debug, force, local, undo          bool
	format                             string
	activation, activationCode         string
	stdin                              io.Reader
}

// defaultPorts are those that ECS must not give to tasks, as the agent of AWS reserves them.
const defaultPorts = "22,2375,2376,51678,51679"

func newOptions(c command, stderr io.Writer, getenv func(string) string, version string) *options {
	o := &options{flags: flag.NewFlagSet("podtask-ecs "+c.name, flag.ContinueOnError), getenv: getenv, version: version, command: c.name, stdin: os.Stdin}
	f := o.flags
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "Usage: podtask ecs %s [flags]\n\n%s\n\n", c.name, strings.ToUpper(c.usage[:1])+c.usage[1:]+".")
		f.PrintDefaults()
	}
	if c.takes("region") {
		f.StringVar(&o.region, "region", "", "the `REGION` of the cluster (default: AWS_REGION, else AWS_DEFAULT_REGION)")
	}
	if c.takes("account") {
		f.StringVar(&o.endpoint, "endpoint", "", "the `URL` of ECS (default: AWS_ENDPOINT_URL_ECS, else Amazon's of the region)")
		f.StringVar(&o.profile, "profile", "", "the `NAME` of the profile in ~/.aws with the credentials, used where the environment has none")
	}
	if c.takes("agent") {
		f.StringVar(&o.socket, "socket", getenv("PODTASK_SOCKET"), "the `SOCKET` of the podtask agent (default: $XDG_RUNTIME_DIR/podtask/podtask.sock)")
	}
	if c.takes("cluster") {
		f.StringVar(&o.cluster, "cluster", "", "the `NAME` of the cluster (default: \"default\", which is created where it is missing)")
	}
	if c.takes("host") {
		o.hostFlags()
	}
	switch c.name {
	case "status":
		f.StringVar(&o.format, "format", "", "`FORMAT` of the output: json; a table otherwise")
	case "check":
		f.StringVar(&o.format, "format", "", "`FORMAT` of the output: json; a table otherwise")
	case "activate":
		f.StringVar(&o.activation, "activation-id", "", "the `ID` of the activation")
		f.StringVar(&o.activationCode, "activation-code-file", "-", "the `FILE` with the code of the activation; - for the standard input")
	case "leave":
		f.BoolVar(&o.force, "force", false, "also while tasks run: they are stopped")
		f.BoolVar(&o.local, "local", false, "forget the instance and its tasks on this host only, without asking ECS: for a cluster or an account that is gone")
	case "drain":
		f.BoolVar(&o.undo, "undo", false, "have ECS place tasks here again")
	}
	return o
}

// hostFlags defines the flags that say what the host offers.
func (o *options) hostFlags() {
	f := o.flags
	f.BoolVar(&o.debug, "debug", false, "log what is done")
	f.StringVar(&o.attributes, "attributes", "", "`NAME[=VALUE],...`, attributes of the instance, set at its first registration")
	f.StringVar(&o.tags, "tags", "", "`KEY=VALUE,...`, tags of the instance")
	f.Int64Var(&o.cpu, "cpu", 0, "the cpu `UNITS` that ECS may place here, 1024 for a core (default: all of the host)")
	f.Int64Var(&o.memory, "memory", 0, "the `MIB` of memory that ECS may place here (default: all of the host but --reserved-memory)")
	f.Int64Var(&o.reservedMemory, "reserved-memory", 0, "the `MIB` of memory that are kept from ECS")
	f.StringVar(&o.ports, "reserved-ports", "", "`PORT,...`, TCP ports that ECS must not use (default: \""+defaultPorts+"\" and well-known ones that this user may not open)")
	f.StringVar(&o.udpPorts, "reserved-udp-ports", "", "`PORT,...`, UDP ports that ECS must not use")
	f.BoolVar(&o.awslogs, "awslogs", true, "announce the log driver awslogs: the agent sends lines with the execution roles of tasks")
	f.DurationVar(&o.cleanup, "task-cleanup-wait", 3*time.Hour, "how long tasks are kept after their end")
}

// parse reads the flags, then the table [ecs] of podtask.toml, then the environment. All problems are
// in the error.
func (o *options) parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return errHelp
		}
		return errPrinted
	}
	table, err := config.ECS(config.Source{Getenv: o.getenv})
	if err != nil {
		return err
	}
	given := make(map[string]bool)
	o.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	if o.flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q: podtask ecs %s takes flags only", o.flags.Arg(0), o.command))
	}
	for _, key := range config.ECSKeys() {
		v, has := table[key]
		if !has || given[key] || o.flags.Lookup(key) == nil {
			continue
		}
		if err := o.flags.Set(key, v.Text); err != nil {
			errs = append(errs, fmt.Errorf("%s: ecs.%s: %w", v.Origin, key, err))
		}
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if o.region == "" {
			o.region = o.getenv(name)
		}
	}
	if o.format != "" && o.format != "json" {
		errs = append(errs, fmt.Errorf("--format %q: it is json, or not given", o.format))
	}
	return errors.Join(errs...)
}

// dirs returns the directories for records and for secrets.
func (o *options) dirs() (dir, runtimeDir string, err error) {
	stateDir, runtimeDir, err := state.Dirs(o.getenv)
	if stateDir == "" {
		return "", "", err
	}
	if runtimeDir == "" {
		return "", "", fmt.Errorf("credentials and secrets must be kept in memory: %w", err)
	}
	dir, runtimeDir = ecsstatus.Dirs(stateDir, runtimeDir)
	return dir, runtimeDir, nil
}

// agentSocket returns the socket of this user's agent.
func (o *options) agentSocket() (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	return state.AgentSocket(o.getenv)
}

func (o *options) log(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// regionName is a name as eu-central-1.
var regionName = lazy.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// calls returns the client of AWS.
func (o *options) calls() (*awscall.Client, error) {
	var errs []error
	switch {
	case o.region == "":
		errs = append(errs, errors.New("--region is missing: give the region of the cluster"))
	case !regionName.MatchString(o.region):
		errs = append(errs, fmt.Errorf("--region %q is not the name of a region, such as eu-central-1", o.region))
	}
	endpoints := make(map[string]string)
	for service, name := range map[string]string{"ecs": "ECS", "ssm": "SSM", "secretsmanager": "SECRETS_MANAGER", "ecr": "ECR", "s3": "S3", "sts": "STS"} {
		endpoints[service] = strings.TrimRight(first(o.getenv("AWS_ENDPOINT_URL_"+name), o.getenv("AWS_ENDPOINT_URL")), "/")
	}
	if o.endpoint != "" {
		endpoints["ecs"] = strings.TrimRight(o.endpoint, "/")
	}
	for _, service := range slices.Sorted(keys(endpoints)) {
		if u := endpoints[service]; u != "" && !strings.HasPrefix(u, "https://") && !isLoopback(u) {
			errs = append(errs, fmt.Errorf("the endpoint %q of %s: credentials go there, so it must begin with https:// (http:// for 127.0.0.1 only)", u, service))
		}
	}
	chain := &identity.Chain{Getenv: o.getenv, Profile: o.profile}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.Proxy = 10, proxyOf(o.getenv)
	settings, err := chain.Settings()
	if err != nil {
		errs = append(errs, err)
	}
	if settings.CABundle != "" {
		if transport.TLSClientConfig, err = trusting(settings.CABundle); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	variant := awscall.Variant{FIPS: settings.FIPS, DualStack: settings.DualStack}
	if !settings.DualStackSet { // as the SDK of AWS's agent does on a host with IPv6 only
		variant.DualStack = ipv6Only(os.ReadFile)
	}
	c := &awscall.Client{HTTP: &http.Client{Transport: transport}, Region: o.region, Endpoints: endpoints, Variant: variant, UserAgent: "podtask-ecs/" + o.version, Clock: new(awscall.Clock)}
	h, found, err := o.hybrid(c)
	if err != nil {
		return nil, err
	}
	if found {
		chain.Hybrid = h.Get
	}
	c.Credentials = chain.Get
	return c, nil
}

// proxyOf returns the proxy of a request, for calls and web sockets alike, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY have it.
func proxyOf(getenv func(string) string) func(*http.Request) (*url.URL, error) {
	get := func(name string) string { return first(getenv(name), getenv(strings.ToLower(name))) }
	of := (&httpproxy.Config{HTTPProxy: get("HTTP_PROXY"), HTTPSProxy: get("HTTPS_PROXY"), NoProxy: get("NO_PROXY")}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return of(r.URL) }
}

// trusting is the configuration of TLS that trusts the authorities of the host and those in a file.
func trusting(name string) (*tls.Config, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no certificate in PEM", name)
	}
	return &tls.Config{RootCAs: roots}, nil
}

// ipv6Only reports whether the host has a default route of IPv6 and none of IPv4.
func ipv6Only(read func(string) ([]byte, error)) bool {
	routed := func(file string, column int, zero string) bool {
		text, err := read(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > column+1 && f[column] == zero && f[len(f)-1] != "lo" && (column > 0 || f[1] == "00") {
				return true
			}
		}
		return false
	}
	return routed("/proc/net/ipv6_route", 0, strings.Repeat("0", 32)) && !routed("/proc/net/route", 1, "00000000")
}

// hybrid returns the managed instance of this host; found is false if it is none.
func (o *options) hybrid(calls *awscall.Client) (h *identity.Hybrid, found bool, err error) {
	dir, _, err := o.dirs()
	if err != nil {
		return nil, false, err
	}
	return identity.OpenHybrid(dir, calls.With(nil, ""))
}

var loopback = lazy.MustCompile(`^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/|$)`)

func isLoopback(u string) bool { return loopback.MatchString(u) }

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// config returns the configuration of the instance. All problems are in the error.
func (o *options) config(log *slog.Logger) (c instance.Config, err error) {
	var errs []error
	c = instance.Config{Cluster: o.cluster, Version: o.version, Log: log, Pace: instance.DefaultPace, Cleanup: o.cleanup}
	if o.cluster != "" && !clusterName.MatchString(o.cluster) {
		errs = append(errs, fmt.Errorf("--cluster %q: a name has 1 to 255 letters, digits, hyphens and underscores", o.cluster))
	}
	if c.Calls, err = o.calls(); err != nil {
		errs = append(errs, err)
	} else {
		c.Calls.Clock.Changed = func(offset time.Duration) {
			log.Warn("the clock of this host differs from that of AWS, whose time signatures have from now on", "ahead", offset)
		}
	}
	if c.Attributes, err = parseAttributes(o.attributes); err != nil {
		errs = append(errs, fmt.Errorf("--attributes: %w", err))
	}
	if c.Tags, err = parseTags(o.tags); err != nil {
		errs = append(errs, fmt.Errorf("--tags: %w", err))
	}
	if o.cleanup < time.Minute {
		errs = append(errs, fmt.Errorf("--task-cleanup-wait %s: one minute is the least", o.cleanup))
	}
	if c.Host, err = o.host(); err != nil {
		errs = append(errs, err)
	}
	socket, err := o.agentSocket()
	if err != nil {
		errs = append(errs, err)
	}
	c.Agent, c.Usage = api.NewClient(socket), instance.HostUsage{Root: os.DirFS("/")}
	if c.Dir, c.Runtime, err = o.dirs(); err != nil {
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

var (
	clusterName   = lazy.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)
	attributeName = lazy.MustCompile(`^[a-zA-Z0-9_./-]{1,128}$`)
)

func parseAttributes(text string) (out []wire.Attribute, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		switch {
		case !attributeName.MatchString(name):
			return nil, fmt.Errorf("%q: a name has 1 to 128 letters, digits and the characters _ . / -", name)
		case strings.HasPrefix(name, "ecs.") || strings.HasPrefix(name, "com.amazonaws."):
			return nil, fmt.Errorf("%q: names that begin with ecs. or com.amazonaws. are ECS's", name)
		case len(value) > 128:
			return nil, fmt.Errorf("%q: a value has at most 128 characters", name)
		}
		out = append(out, wire.Attribute{Name: name, Value: value})
	}
	return out, nil
}

func parseTags(text string) (out []wire.Tag, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || key == "":
			return nil, fmt.Errorf("%q is not KEY=VALUE", part)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, fmt.Errorf("%q: keys that begin with aws: are Amazon's", key)
		case len(key) > 128 || len(value) > 256:
			return nil, fmt.Errorf("%q: a key has at most 128 characters, a value 256", key)
		}
		out = append(out, wire.Tag{Key: key, Value: value})
	}
	if len(out) > 50 {
		return nil, errors.New("an instance has at most 50 tags")
	}
	return out, nil
}

// host is what this host offers to ECS.
func (o *options) host() (h instance.Host, err error) {
	var errs []error
	h = instance.Host{CPU: int64(runtime.NumCPU()) * 1024, Arch: runtime.GOARCH, AWSLogs: o.awslogs}
	settings, err := config.Load(config.Source{Getenv: o.getenv})
	if err != nil {
		return h, err
	}
	// A promise that limits are kept: not where the host cannot, or the user has turned them off.
	h.Limits = settings.Tasks.Limits != "off" && cgroups.Detect(os.DirFS("/"), os.Geteuid(), o.getenv).Reason == ""
	total, err := memoryOf(os.ReadFile)
	if err != nil {
		errs = append(errs, err)
	}
	switch h.Memory = total - o.reservedMemory; {
	case o.reservedMemory < 0:
		errs = append(errs, fmt.Errorf("--reserved-memory %d: it cannot be negative", o.reservedMemory))
	case o.memory < 0 || o.memory > total:
		errs = append(errs, fmt.Errorf("--memory %d: this host has %d MiB", o.memory, total))
	case o.memory > 0 && o.reservedMemory > 0:
		errs = append(errs, errors.New("--memory and --reserved-memory: give one of them"))
	case o.memory > 0:
		h.Memory = o.memory
	case h.Memory < 4 && err == nil:
		errs = append(errs, fmt.Errorf("--reserved-memory %d leaves nothing of the %d MiB of this host", o.reservedMemory, total))
	}
	switch {
	case o.cpu < 0 || o.cpu > h.CPU:
		errs = append(errs, fmt.Errorf("--cpu %d: this host has %d cpu units", o.cpu, h.CPU))
	case o.cpu > 0:
		h.CPU = o.cpu
	}
	ports := o.ports
	if ports == "" {
		ports = defaultPorts
		for _, p := range []int{25, 53, 80, 110, 143, 389, 443, 465, 587, 636, 853, 993, 995} {
			if p < int(netns.UnprivilegedStart()) {
				ports += "," + strconv.Itoa(p)
			}
		}
	}
	if h.Ports, err = parsePorts(ports); err != nil {
		errs = append(errs, fmt.Errorf("--reserved-ports: %w", err))
	}
	if h.UDPPorts, err = parsePorts(o.udpPorts); err != nil {
		errs = append(errs, fmt.Errorf("--reserved-udp-ports: %w", err))
	}
	return h, errors.Join(errs...)
}

// memoryOf is the memory of the host in MiB.
func memoryOf(read func(string) ([]byte, error)) (int64, error) {
	text, err := read("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n / 1024, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}

func parsePorts(text string) (out []string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if n, err := strconv.ParseUint(part, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%q is not a port from 1 to 65535", part)
		}
		if !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	if len(out) > 100 {
		return nil, errors.New("ECS takes at most 100 ports")
	}
	return out, nil
}

// locked takes the records with their lock.
func (o *options) locked() (*instance.Records, func(), error) {
	dir, _, err := o.dirs()
	if err != nil {
		return nil, nil, err
	}
	records, err := instance.OpenRecords(dir)
	if err != nil {
		return nil, nil, err
	}
	release, err := records.Lock()
	return records, release, err
}

func join(ctx context.Context, o *options, _, stderr io.Writer) error {
	log := o.log(stderr)
	c, err := o.config(log)
	if err != nil {
		return err
	}
	records, release, err := o.locked()
	if err != nil {
		return err
	}
	defer release()
	if _, err := c.Calls.Credentials(ctx); err != nil {
		return err
	}
	log.Info("the instance begins", "cluster", first(o.cluster, "default"), "region", o.region, "version", o.version)
	return instance.Run(ctx, c, records)
}
