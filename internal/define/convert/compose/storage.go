package compose

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/podtask/podtask/internal/define/convert"
)

// storage converts volumes, tmpfs, secrets and configuration files.
func (c *serviceConversion) storage() {
	for _, t := range c.from.Tmpfs {
		fs, err := convert.ParseTmpfs(t)
		if err != nil {
			c.Lose(c.lines.at("services", c.from.Name, "tmpfs"), "%s.tmpfs %s: %v", c.from.Name, fs.Path, err)
		}
		c.ctr.AddLinux().Tmpfs = append(c.ctr.AddLinux().Tmpfs, fs)
	}
	for i, v := range c.from.Volumes {
		path := c.lines.path("services", c.from.Name, "volumes", strconv.Itoa(i))
		c.mount(v, c.lines.at("services", c.from.Name, "volumes", strconv.Itoa(i)))
		c.left(v, path, "services.volumes")
		for member, part := range map[string]any{"bind": v.Bind, "volume": v.Volume, "tmpfs": v.Tmpfs, "image": v.Image} {
			c.left(part, path+"\x00"+member, "services.volumes."+member)
		}
	}
	for _, secret := range c.from.Secrets {
		c.secretFile(secret)
	}
	for _, config := range c.from.Configs {
		c.configFile(types.FileReferenceConfig(config))
	}
}

// mount converts a volume of a service.
func (c *serviceConversion) mount(v types.ServiceVolumeConfig, line int) {
	point := convert.MountPoint{Path: v.Target, ReadOnly: v.ReadOnly}
	switch {
	case v.Type == types.VolumeTypeTmpfs:
		t := convert.Tmpfs{Path: v.Target, Size: convert.DefaultTmpfs}
		if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
			t.Size = convert.Mebibytes(v.Tmpfs.Size)
		} else {
			c.Lose(c.lines.at("services", c.from.Name, "volumes"), "%s.volumes %s: %v", c.from.Name, v.Target, convert.NoTmpfsSize(v.Target))
		}
		c.ctr.AddLinux().Tmpfs = append(c.ctr.AddLinux().Tmpfs, t)
		return
	case v.Type == types.VolumeTypeBind:
		point.Volume = c.AddPath(c.relative(v.Source))
		if v.Bind != nil {
			c.Relabel(point.Volume, v.Bind.SELinux)
			if !bool(v.Bind.CreateHostPath) {
				c.Lose(line, "volume %s of %s: create_host_path: a task makes a directory that is not there: make it before the task starts", v.Target, c.ctr.Name)
			}
		}
	case v.Type == types.VolumeTypeVolume && v.Source == "":
		point.Volume = c.AddVolume(convert.Volume{Name: convert.VolumeName(c.ctr.Name + "-" + v.Target)})
	case v.Type == types.VolumeTypeVolume:
		named := c.project.Volumes[v.Source]
		if convert.Plain(named.Name) != named.Name {
			c.Lose(line, "volume %s of %s: its name is to have letters, digits, dashes and underscores only", named.Name, c.ctr.Name)
			return
		}
		point.Volume = c.AddVolume(convert.Volume{Name: named.Name, Docker: &convert.DockerVolume{
			Scope: "shared", Autoprovision: !bool(named.External), DriverOptions: named.DriverOpts, Labels: named.Labels,
		}})
	default:
		c.Lose(line, "volume %s of %s: its type is %s", v.Target, c.ctr.Name, v.Type)
		return
	}
	c.ctr.MountPoints = append(c.ctr.MountPoints, point)
}

// secretFile converts a secret of a service. Its value stays where it is.
func (c *serviceConversion) secretFile(ref types.ServiceSecretConfig) {
	line := c.lines.at("services", c.ctr.Name, "secrets", ref.Source)
	f := convert.SecretFile{Path: ref.Target}
	var text *string // that is written beside the definition
	from := c.project.Secrets[ref.Source]
	switch {
	case from.File != "":
		f.ValueFrom = "file:" + from.File
	case from.Environment != "":
		value, set := c.given(from.Environment)
		switch {
		case set && !c.shell[from.Environment]:
			text = &value
		case set:
			c.Need(line, "secret %s of %s: the variable %s of the environment at each start, which units and services do not have: write the value to a file with mode 0600 and file:/PATH in the place of env:%[3]s", ref.Source, c.ctr.Name, from.Environment)
		default:
			c.Need(line, "secret %s of %s: neither .env nor the environment has the variable %s: set it for podtask at each start, or write the value to a file with mode 0600 and file:/PATH in the place of env:%[3]s", ref.Source, c.ctr.Name, from.Environment)
		}
		f.ValueFrom = "env:" + from.Environment
	case bool(from.External):
		f.ValueFrom = "podman:" + from.Name
	default:
		c.Lose(line, "secret %s of %s: the file declares no source for it", ref.Source, c.ctr.Name)
		return
	}
	if f.Path == "" {
		f.Path = ref.Source
	}
	if !strings.HasPrefix(f.Path, "/") {
		f.Path = "/run/secrets/" + f.Path
	}
	switch info, err := os.Stat(from.File); {
	case text != nil && !c.writable(*text):
		c.Lose(line, "secret %s of %s: it has %d bytes, and 1 to %d can be mounted", ref.Source, c.ctr.Name, len(*text), maxConfig)
		return
	case text != nil:
		f.ValueFrom = c.keep(ref.Source, *text)
	case from.File != "" && err != nil:
		c.Need(line, "secret %s of %s: there is no file %s", ref.Source, c.ctr.Name, c.relative(from.File))
	case from.File != "" && info.Mode().Perm()&0o077 != 0:
		// Compose mounts the file as it is, whatever its mode; podtask reads secrets from files of their owner only.
		if mode := info.Mode().Perm(); !c.public[from.File] {
			c.public[from.File] = true
			c.Need(c.lines.at("secrets", ref.Source), "secret %s: other users can read %s (mode %04o): it is mounted as it is, as Compose does: to keep it secret, `chmod 600 %[2]s` and import again", ref.Source, c.relative(from.File), mode)
		}
		for member, set := range map[string]bool{"uid": ref.UID != "", "gid": ref.GID != "", "mode": ref.Mode != nil} {
			if set {
				c.Lose(line, "%s.secrets.%s: a file that is mounted as it is keeps its owner and mode, as in Compose", c.ctr.Name, member)
			}
		}
		c.ctr.MountPoints = append(c.ctr.MountPoints, convert.MountPoint{Volume: c.AddPath(c.relative(from.File)), Path: f.Path, ReadOnly: true})
		return
	}
	c.addFile(f, types.FileReferenceConfig(ref), "secrets", line)
}

// addFile gives a container a file with the owner and the permissions that the service wants.
func (c *serviceConversion) addFile(f convert.SecretFile, ref types.FileReferenceConfig, member string, line int) {
	f.Mode = "0444"
	if ref.Mode != nil {
		f.Mode = ref.Mode.String()
	}
	for _, id := range []struct {
		member, text string
		number       *int
	}{{"uid", ref.UID, &f.UID}, {"gid", ref.GID, &f.GID}} {
		n, err := strconv.Atoi(id.text)
		if id.text != "" && (err != nil || n < 0) {
			c.Lose(line, "%s.%s.%s: %q is not a number", c.ctr.Name, member, id.member, id.text)
			continue
		}
		*id.number = n
	}
	c.ctr.AddExtensions().SecretFiles = append(c.ctr.AddExtensions().SecretFiles, f)
}

// configFile mounts a configuration file of the host, or one that is written beside the definition. The text of
// that one may hold secrets, so only the user can read it, and the container gets it as a file of a secret.
func (c *serviceConversion) configFile(ref types.FileReferenceConfig) {
	config, line := c.project.Configs[ref.Source], c.lines.at("services", c.ctr.Name, "configs", ref.Source)
	target := ref.Target
	if target == "" {
		target = "/" + ref.Source
	}
	text := config.Content
	switch {
	case config.File != "":
		c.ctr.MountPoints = append(c.ctr.MountPoints, convert.MountPoint{Volume: c.AddPath(c.relative(config.File)), Path: target, ReadOnly: true})
		return
	case config.Environment != "":
		value, set := c.given(config.Environment)
		if !set {
			c.Lose(line, "config %s of %s: neither .env nor the environment has the variable %s", ref.Source, c.ctr.Name, config.Environment)
			return
		}
		text = value
	case bool(config.External):
		c.Lose(line, "config %s of %s: it is external, and Podman has no configs: write it to a file, and declare it with file:", ref.Source, c.ctr.Name)
		return
	}
	if !c.writable(text) {
		c.Lose(line, "config %s of %s: it has %d bytes, and 1 to %d can be mounted", ref.Source, c.ctr.Name, len(text), maxConfig)
		return
	}
	c.addFile(convert.SecretFile{Path: target, ValueFrom: c.keep(ref.Source, text)}, ref, "configs", line)
}

// writable reports whether a text can be that of a secret of Podman.
func (*conversion) writable(text string) bool { return text != "" && len(text) <= maxConfig }

// writeBeside writes a text beside the definition, for the user only, and returns the path.
func (c *conversion) writeBeside(source, text string) string {
	base := c.task + "." + convert.Plain(source)
	if c.stack != nil {
		base = c.stackFile(base, text)
	}
	name := base
	for n := 2; ; n++ {
		i := slices.IndexFunc(c.files, func(f convert.File) bool { return f.Name == name })
		if i < 0 {
			c.files = append(c.files, convert.File{Name: name, Data: []byte(text)})
		}
		if i < 0 || string(c.files[i].Data) == text {
			return filepath.Join(c.output, name)
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// maxConfig is the number of bytes that a secret of Podman may have.
const maxConfig = 512000 - 1

// relative is a path in the directory of the file as people write it there.
func (c *conversion) relative(path string) string {
	if rel, err := filepath.Rel(c.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// unitsPerCPU is the number of cpu units of the model that are one CPU.
const unitsPerCPU = 1024

// decimal is a number as it was written: 0.3 and not 0.30000001.
func decimal(f float32) float64 {
	n, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0
	}
	return n
}

// seconds rounds a time up.
func seconds(d *types.Duration) int {
	if d == nil || *d < 0 {
		return 0
	}
	return int(math.Ceil(time.Duration(*d).Seconds()))
}
