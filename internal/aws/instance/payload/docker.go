package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// mebibyte is the unit of memory in a definition.
const mebibyte = 1 << 20

// setting translates one member of Docker's structures into the definition of a container.
type setting func(b *builder, d object, value json.RawMessage) error

// inConfig and inHost are the members of Docker's Config and HostConfig, in lower case: the case of
// their names varies.
var (
	inConfig = map[string]setting{
		"hostname":        text("hostname"),
		"user":            text("user"),
		"workingdir":      text("workingDirectory"),
		"tty":             flag("pseudoTerminal"),
		"openstdin":       flag("interactive"),
		"networkdisabled": flag("disableNetworking"),
		"labels":          value[map[string]string]("dockerLabels"),
		"healthcheck":     healthCheck,
		"cmd":             value[[]string]("command"),
		"entrypoint":      value[[]string]("entryPoint"),
	}
	inHost = map[string]setting{
		"networkmode":       ignored, // see docker
		"capadd":            capabilities("add"),
		"capdrop":           capabilities("drop"),
		"dns":               value[[]string]("dnsServers"),
		"dnssearch":         value[[]string]("dnsSearchDomains"),
		"extrahosts":        extraHosts,
		"logconfig":         logConfig,
		"ulimits":           ulimits,
		"sysctls":           sysctls,
		"privileged":        flag("privileged"),
		"readonlyrootfs":    flag("readonlyRootFilesystem"),
		"securityopt":       value[[]string]("dockerSecurityOptions"),
		"memoryreservation": bytesTo("memoryReservation"),
		"memory":            bytesTo("memory"),
		"cpushares":         number("cpu"),
		"init":              linux(flag("initProcessEnabled")),
		"shmsize":           linux(bytesTo("sharedMemorySize")),
		"memoryswap":        swap,
		"memoryswappiness":  linux(number("swappiness")),
		"tmpfs":             linux(tmpfs),
		"devices":           linux(devices),
	}
)

// docker translates Docker's structures. Checked: there is a health check.
func (b *builder) docker(t wire.Task, d object, c wire.DockerConfig) (checked bool) {
	b.translate("dockerConfig.config", d, c.Config, inConfig)
	b.translate("dockerConfig.hostConfig", d, c.HostConfig, inHost)
	if l, ok := d["linuxParameters"].(object); ok && len(l) == 0 {
		delete(d, "linuxParameters")
	}
	var host struct{ NetworkMode string }
	if c.HostConfig != "" && json.Unmarshal([]byte(c.HostConfig), &host) == nil { // if not, that is a problem already
		mode, of := host.NetworkMode, t.NetworkMode
		if mode == "default" || mode == "" {
			mode = "bridge"
		}
		if of == "" {
			of = "bridge"
		}
		if mode != of {
			b.refuse("dockerConfig.hostConfig.NetworkMode", fmt.Sprintf("%q is not the networkMode %q of the task", host.NetworkMode, of))
		}
	}
	_, checked = d["healthCheck"]
	return checked
}

func (b *builder) translate(where string, d object, text string, known map[string]setting) {
	if text == "" {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		b.problem("DockerClientConfigError", "%s is not a JSON object", where)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if isEmpty(members[name]) {
			continue
		}
		apply, ok := known[strings.ToLower(name)]
		if !ok {
			b.refuse(where+"."+name, "podtask does not know this setting")
			continue
		}
		if err := apply(b, d, members[name]); err != nil {
			b.problem("DockerClientConfigError", "%s.%s: %v", where, name, err)
		}
	}
}

// isEmpty reports whether a value asks for nothing.
func isEmpty(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", `""`, "[]", "{}", "0", "false":
		return true
	}
	return false
}

func ignored(*builder, object, json.RawMessage) error { return nil }

func value[T any](name string) setting {
	return func(_ *builder, d object, raw json.RawMessage) error {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("it is not as Docker has it: %w", err)
		}
		if _, has := d[name]; !has { // what the payload says itself goes first
			d[name] = v
		}
		return nil
	}
}

func text(name string) setting { return value[string](name) }
func flag(name string) setting { return value[bool](name) }

func number(name string) setting { return value[int64](name) }

// bytesTo sets a member in MiB from bytes.
func bytesTo(name string) setting {
	return func(b *builder, d object, raw json.RawMessage) error {
		var n int64
		if err := json.Unmarshal(raw, &n); err != nil {
			return fmt.Errorf("it is not a number of bytes")
		}
		return value[int64](name)(b, d, json.RawMessage(strconv.FormatInt((n+mebibyte-1)/mebibyte, 10)))
	}
}

// linux sets a member of linuxParameters.
func linux(apply setting) setting {
	return func(b *builder, d object, raw json.RawMessage) error {
		l, ok := d["linuxParameters"].(object)
		if !ok {
			l = object{}
			d["linuxParameters"] = l
		}
		return apply(b, l, raw)
	}
}

func capabilities(name string) setting {
	return linux(func(b *builder, l object, raw json.RawMessage) error {
		c, ok := l["capabilities"].(object)
		if !ok {
			c = object{}
			l["capabilities"] = c
		}
		return value[[]string](name)(b, c, raw)
	})
}

func extraHosts(_ *builder, d object, raw json.RawMessage) error {
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return fmt.Errorf("it is not a list of NAME:ADDRESS")
	}
	var out []object
	for _, l := range lines {
		name, address, ok := strings.Cut(l, ":")
		if !ok {
			return fmt.Errorf("%q is not NAME:ADDRESS", l)
		}
		out = append(out, object{"hostname": name, "ipAddress": address})
	}
	d["extraHosts"] = out
	return nil
}

func logConfig(_ *builder, d object, raw json.RawMessage) error {
	var c struct {
		Type   string
		Config map[string]string
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	if c.Type == "" {
		return nil
	}
	out := object{"logDriver": c.Type}
	if len(c.Config) > 0 {
		options := make(object)
		for k, v := range c.Config {
			options[k] = v
		}
		out["options"] = options
	}
	d["logConfiguration"] = out
	return nil
}

func ulimits(_ *builder, d object, raw json.RawMessage) error {
	var list []struct {
		Name       string
		Soft, Hard int64
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	var out []object
	for _, u := range list {
		out = append(out, object{"name": u.Name, "softLimit": u.Soft, "hardLimit": u.Hard})
	}
	d["ulimits"] = out
	return nil
}

func sysctls(_ *builder, d object, raw json.RawMessage) error {
	var m map[string]string
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	var out []object
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, object{"namespace": name, "value": m[name]})
	}
	d["systemControls"] = out
	return nil
}

// swap is the limit of memory and swap together; a definition has that of swap alone.
func swap(b *builder, d object, raw json.RawMessage) error {
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("it is not a number of bytes")
	}
	memory, ok := d["memory"].(int64)
	if n < 0 {
		return nil // no limit, which is the default
	}
	if !ok || n < memory*mebibyte {
		return fmt.Errorf("it is below the memory of the container")
	}
	return linux(bytesTo("maxSwap"))(b, d, json.RawMessage(strconv.FormatInt(n-memory*mebibyte, 10)))
}

func tmpfs(_ *builder, l object, raw json.RawMessage) error {
	var m map[string]string
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	var out []object
	for _, path := range slices.Sorted(maps.Keys(m)) {
		one := object{"containerPath": path}
		var options []string
		for o := range strings.SplitSeq(m[path], ",") {
			size, is := strings.CutPrefix(o, "size=")
			switch {
			case o == "":
			case !is:
				options = append(options, o)
			default:
				n, err := mebibytes(size)
				if err != nil {
					return err
				}
				one["size"] = n
			}
		}
		setList(one, "mountOptions", options)
		out = append(out, one)
	}
	l["tmpfs"] = out
	return nil
}

// mebibytes reads a size as 64m or 1g, or a number of bytes.
func mebibytes(size string) (int64, error) {
	unit := int64(1)
	switch digits := strings.TrimRight(size, "kmgKMG"); strings.ToLower(size[len(digits):]) {
	case "":
	case "k":
		unit = 1 << 10
	case "m":
		unit = 1 << 20
	case "g":
		unit = 1 << 30
	default:
		return 0, fmt.Errorf("%q is not a size", size)
	}
	n, err := strconv.ParseInt(strings.TrimRight(size, "kmgKMG"), 10, 42)
	if err != nil || n < 0 || n > 1<<42/unit {
		return 0, fmt.Errorf("%q is not a size", size)
	}
	return (n*unit + mebibyte - 1) / mebibyte, nil
}

func devices(_ *builder, l object, raw json.RawMessage) error {
	var list []struct{ PathOnHost, PathInContainer, CgroupPermissions string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	var out []object
	for _, x := range list {
		one := object{"hostPath": x.PathOnHost}
		set(one, "containerPath", x.PathInContainer)
		var may []string
		for _, r := range x.CgroupPermissions {
			switch r {
			case 'r':
				may = append(may, "read")
			case 'w':
				may = append(may, "write")
			case 'm':
				may = append(may, "mknod")
			default:
				return fmt.Errorf("the permission %q is not known", r)
			}
		}
		setList(one, "permissions", may)
		out = append(out, one)
	}
	l["devices"] = out
	return nil
}

// healthCheck has its times in nanoseconds.
func healthCheck(_ *builder, d object, raw json.RawMessage) error {
	var c struct {
		Test                                          []string
		Interval, Timeout, StartPeriod, StartInterval time.Duration
		Retries                                       int64
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("it is not as Docker has it: %w", err)
	}
	if len(c.Test) == 0 {
		return nil
	}
	if c.StartInterval != 0 {
		return fmt.Errorf("StartInterval is not supported")
	}
	out := object{"command": c.Test}
	for name, t := range map[string]time.Duration{"interval": c.Interval, "timeout": c.Timeout, "startPeriod": c.StartPeriod} {
		if t%time.Second != 0 {
			return fmt.Errorf("%s %s is not a number of seconds", name, t)
		}
		setNumber(out, name, int64(t/time.Second))
	}
	setNumber(out, "retries", c.Retries)
	d["healthCheck"] = out
	return nil
}
