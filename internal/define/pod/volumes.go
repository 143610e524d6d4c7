package pod

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// volume is one of the Pod's: a volume of the task, or files.
type volume struct {
	at    value
	task  *taskdef.Volume // nil for files and images
	image string          // of an image volume
	pull  string          // its pull behavior
	// readOnly: no mount of it can be written to.
	readOnly bool
	files    []file
	missing  bool // something that is needed or wrong was reported
}

// file is a file of a configMap, secret, projected or downwardAPI volume.
type file struct {
	path   string // below the volume
	mode   uint32
	source *taskdef.SecretValue
}

// readVolumes reads the volumes of the Pod.
func (b *reader) readVolumes() {
	for _, v := range b.spec.at("volumes").items() {
		name := v.at("name")
		switch s := name.str(); {
		case slices.Contains(b.claims, s): // that of the StatefulSet goes before
		case !isDNSLabel(s):
			v.wrong(doctree.Quote(s)+" is not a name of a volume", labelRule)
		case b.volumes[s].at.report != nil:
			name.wrong("another volume is named "+doctree.Quote(s), "rename one of them")
		default:
			b.volumes[s] = b.volume(v, s)
		}
	}
	for _, claim := range b.claims {
		b.volumes[claim] = b.ownClaim(claim)
	}
}

// ownClaim is the claim of a Pod of a StatefulSet. What is given for the claim without the name of the Pod is for the first one:
// two Pods never share what is to be their own.
func (b *reader) ownClaim(claim string) volume {
	in, own := b.owner.at("spec").at("volumeClaimTemplates"), claim+"-"+b.ordinal
	if b.options.Copy == 0 {
		return b.claim(in, claim, claim, own)
	}
	out := b.claim(in, own, "")
	if out.task != nil {
		out.task.Name = claim
	}
	return out
}

// volume reads one volume.
func (b *reader) volume(v value, name string) volume {
	var sources []doctree.Field
	for _, f := range v.entries() {
		if f.Key != "name" {
			sources = append(sources, f)
		}
	}
	if len(sources) > 1 {
		v.wrong("the volume has more than one source", "keep one of them")
		return volume{at: v, missing: true}
	}
	kind := "emptyDir" // a volume without a source, as Kubernetes has it
	if len(sources) == 1 {
		kind = sources[0].Key
	}
	in := v.at(kind)
	switch kind {
	case "emptyDir":
		return b.emptyDir(v, in, name)
	case "image":
		return b.imageVolume(v, in)
	case "hostPath":
		return b.hostPath(v, in, name)
	case "persistentVolumeClaim":
		out := b.claim(in, name, in.at("claimName").str())
		out.readOnly = in.at("readOnly").flag(false)
		return out
	case "configMap", "secret", "projected", "downwardAPI":
		return b.fileVolume(v, in, kind, name)
	}
	if ruleTable()["Volume."+kind].treatment == needed {
		return b.claim(in, name, "")
	}
	return volume{at: v, missing: true} // refused, or unknown: reported already
}

// emptyDir is a volume that is made and removed with the task.
func (b *reader) emptyDir(v, in value, name string) volume {
	t := &taskdef.Volume{Name: name, Kind: taskdef.VolumeTask, Empty: true, DriverOpts: make(map[string]string)}
	fsGroup := b.spec.at("securityContext").at("fsGroup")
	options := []string{"gid=" + strconv.FormatInt(fsGroup.integer(0, maxID, 0), 10)}
	t.SetGroup = fsGroup.present()
	size := in.at("sizeLimit")
	bytes := quantityOf(size).times(1)
	switch medium := in.at("medium"); medium.str() {
	case "":
		if bytes > 0 {
			size.warn("sizeLimit is not enforced: the volume may use what the disk has", "")
		}
		options = append(options, "uid=0")
	case "Memory":
		t.DriverOpts["type"], t.DriverOpts["device"] = "tmpfs", "tmpfs"
		mode := "1777" // that of a tmpfs
		if t.SetGroup {
			mode = "3777"
		}
		options = append(options, "mode="+mode)
		if bytes > 0 {
			options = append(options, "size="+strconv.FormatInt(bytes, 10))
		}
	default:
		medium.wrong("an emptyDir cannot be of "+doctree.Quote(medium.str()), "use Memory, or leave medium out")
	}
	t.DriverOpts["o"] = strings.Join(options, ",")
	return volume{at: v, task: t}
}

// imageVolume is the file system of an image.
func (b *reader) imageVolume(v, in value) volume {
	image := in.at("reference").str()
	if image == "" {
		in.wrong("reference is missing", "name the image to mount")
		return volume{at: v, missing: true}
	}
	return volume{at: v, image: image, pull: pullBehavior(in.at("pullPolicy"), image), readOnly: true}
}

var hostPathTypes = []string{"DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}

func (b *reader) hostPath(v, in value, name string) volume {
	p := in.at("path")
	if !cleanAbsolute(p.str()) {
		fix := ""
		if s := p.str(); s != "" && !strings.HasPrefix(s, "/") {
			fix = "write the directory of the file before it: Kubernetes refuses a relative path, and podman kube play reads it from its working directory"
		}
		in.wrong("path must be an absolute path without \"..\"", fix)
		return volume{at: v, missing: true}
	}
	typ := in.at("type").word("", hostPathTypes...)
	b.result.HostPaths = append(b.result.HostPaths, HostPath{Path: p.str(), Type: typ})
	return volume{at: v, task: &taskdef.Volume{Name: name, Kind: taskdef.VolumeBind, HostPath: p.str()}}
}

// claim is a volume that a path of the host stands in for, found by the name of the
// volume or of the claim, or another name of it.
func (b *reader) claim(v value, name, claim string, others ...string) volume {
	ref := refs.OfVolume(name, "")
	if claim != "" && claim != name {
		ref.Names = append(ref.Names, refs.OfVolume(claim, "").Name())
	}
	for _, other := range others {
		ref.Names = append(ref.Names, refs.OfVolume(other, "").Name())
	}
	source, mapped := answer(v, b.options.Refs, refs.Volume, ref)
	if !mapped {
		v.need("the volume "+doctree.Quote(name)+" is storage that a cluster would provide",
			"give --map-volume "+cmp.Or(claim, name)+"=PATH, or add to podtask.toml: "+taskdef.RuleFor(refs.Volume, refs.OfVolume(cmp.Or(claim, name), "").Name()))
		return volume{at: v, missing: true}
	}
	task := taskdef.MappedVolume(name, source)
	return volume{at: v, task: &task}
}

func cleanAbsolute(p string) bool {
	return strings.HasPrefix(p, "/") && !slices.Contains(strings.Split(p, "/"), "..")
}

// fileVolume is a volume whose files are known beforehand.
func (b *reader) fileVolume(v, in value, kind, name string) volume {
	files := fileReader{b: b, volume: name, mode: fileMode(in.at("defaultMode"), 0o644)}
	if kind == "projected" {
		files.ofCluster = slices.ContainsFunc(in.at("sources").items(), func(s value) bool { return s.at("serviceAccountToken").present() })
		for _, source := range in.at("sources").items() {
			for _, part := range []string{"configMap", "secret", "downwardAPI"} {
				if source.at(part).present() {
					files.read(source.at(part), part)
				}
			}
		}
	} else {
		files.read(in, kind)
	}
	return volume{at: v, files: files.files, readOnly: true, missing: files.missing}
}

// clusterCertificates are ConfigMaps that clusters put beside the token of a service account, in a
// volume that they add to each Pod: Kubernetes the first, OpenShift both.
var clusterCertificates = []string{"kube-root-ca.crt", "openshift-service-ca.crt"}

// fileMode reads permissions.
func fileMode(v value, unset uint32) uint32 { return uint32(v.integer(0, 0o777, int64(unset))) }

// fileReader gathers the files of one volume.
type fileReader struct {
	b       *reader
	volume  string
	mode    uint32
	files   []file
	missing bool
	// ofCluster: the volume gives access to the API server of a cluster.
	ofCluster bool
}

func (r *fileReader) read(in value, kind string) {
	switch kind {
	case "configMap":
		name := in.at("name")
		if _, known := r.b.configs[name.str()]; r.ofCluster && !known && slices.Contains(clusterCertificates, name.str()) {
			name.warn("the files of "+name.str()+" are missing: "+noCluster, "")
			return
		}
		r.keys(in, "ConfigMap", name.str(), configData)
	case "secret":
		r.keys(in, "Secret", cmp.Or(in.at("secretName").str(), in.at("name").str()), secretData)
	case "downwardAPI":
		for _, item := range in.at("items").items() {
			r.downward(item)
		}
	}
}

// keys adds the keys of a ConfigMap or Secret: all, or those that items name.
func (r *fileReader) keys(in value, kind, name string, content func(value) map[string]content) {
	doc, ok := r.b.document(in, kind, name)
	if !ok {
		r.missing = r.missing || !in.at("optional").flag(false)
		return
	}
	data := content(doc)
	keys := slices.Sorted(maps.Keys(data))
	if items := in.at("items"); items.present() {
		for _, item := range items.items() {
			key := item.at("key").str()
			bytes, known := data[key]
			if !known {
				if !in.at("optional").flag(false) {
					r.b.noKey(item, kind, name, key, keys)
				}
				continue
			}
			r.add(item, item.at("path").str(), fileMode(item.at("mode"), r.mode), origin{kind, name, key, bytes})
		}
		return
	}
	for _, key := range keys {
		r.add(in, key, r.mode, origin{kind, name, key, data[key]})
	}
}

// downward adds a file of the downward API.
func (r *fileReader) downward(item value) {
	p := item.at("path").str()
	var text string
	ok := false
	switch {
	case item.at("fieldRef").present() && !strings.HasPrefix(item.at("fieldRef").at("fieldPath").str(), "metadata."):
		item.at("fieldRef").at("fieldPath").wrong("a file cannot hold this field", "use one of metadata, or a variable")
	case item.at("fieldRef").present():
		text, ok = r.b.fieldRef(item.at("fieldRef"))
	case item.at("resourceFieldRef").present():
		if ref := item.at("resourceFieldRef"); ref.at("containerName").filled() {
			text, ok = r.b.resourceFieldRef(ref, 0)
		} else {
			ref.wrong("containerName is missing", "a file belongs to no container")
		}
	default:
		item.wrong("the file has neither fieldRef nor resourceFieldRef", "")
	}
	if !ok {
		r.missing = true
		return
	}
	r.add(item, p, fileMode(item.at("mode"), r.mode), origin{"downwardAPI", r.volume, p, content{bytes: []byte(text)}})
}

// origin is where the content of a file is from.
type origin struct {
	kind, name, key string
	content         content
}

// add adds a file. One at the path of an earlier one takes its place.
func (r *fileReader) add(at value, p string, mode uint32, from origin) {
	switch {
	case p == "" || strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), ".."):
		at.wrong(doctree.Quote(p)+" is not a path below the volume", `write it without "/" before it and without ".."`)
		return
	case len(from.content.bytes) > maxSecret:
		at.wrong(fmt.Sprintf("the file %s has %d bytes, more than the %d that Podman keeps as a secret", printable(p), len(from.content.bytes), maxSecret), "mount it with hostPath")
		return
	case from.content.empty():
		at.warn("the file "+printable(p)+" is missing: Podman cannot keep an empty one", "")
		return
	}
	r.files = slices.DeleteFunc(r.files, func(f file) bool { return f.path == p })
	r.files = append(r.files, file{path: p, mode: mode, source: r.b.secret(from.kind, from.name, from.key, from.content)})
}

// relabelFix is what to do about a volume that SELinux does not let a container use.
const relabelFix = "relabel files of the host once with `chcon -R -t container_file_t PATH`, or give seLinuxOptions: {type: spc_t} to the container"

// relabels returns the options that podman kube play takes at the end of a mountPath; empty for none.
func relabels(p string) string {
	_, options, _ := strings.Cut(p, ":")
	for option := range strings.SplitSeq(options, ",") {
		if !slices.Contains(mountWords, option) {
			return ""
		}
	}
	return options
}

// mountWords are options of mounts in Podman.
var mountWords = strings.Fields("z Z U O ro rw exec noexec suid nosuid dev nodev private rprivate shared rshared slave rslave")

// mounts reads the mounts of container i.
func (b *reader) mounts(i int) {
	seen := make(map[string]bool)
	for _, m := range b.containers[i].at("volumeMounts").items() {
		name, target := m.at("name"), m.at("mountPath")
		v, known := b.volumes[name.str()]
		switch p := target.str(); {
		case known && relabels(p) != "":
			target.wrong("mountPath has the options "+doctree.Quote(relabels(p))+", which only podman kube play reads: Kubernetes refuses the colon", "remove them: "+relabelFix)
			continue
		case !known:
			m.wrong("no volume named "+doctree.Quote(name.str()), suggest.Question(name.str(), slices.Sorted(maps.Keys(b.volumes))))
			continue
		case !cleanAbsolute(p) || path.Clean(p) == "/" || strings.Contains(p, ":"):
			m.wrong("mountPath must be an absolute path without \"..\" and \":\", and not the root", "")
			continue
		case seen[path.Clean(p)]:
			target.wrong("another volume is mounted at "+doctree.Quote(p), "choose another path")
			continue
		case taskdef.HidesProc(p) && !(v.task != nil && v.task.Kind == taskdef.VolumeBind && taskdef.IsProc(path.Join(v.task.HostPath, m.at("subPath").str()), p)):
			target.wrong("a mount at "+doctree.Quote(p)+" would hide files of the kernel", taskdef.ProcFix(p))
			continue
		}
		seen[path.Clean(target.str())] = true
		sub, ok := b.subPath(m, i)
		switch {
		case !ok || v.missing:
		case v.image != "":
			k := &b.result.Task.Containers[i].Extensions.Kube
			k.Images = append(k.Images, taskdef.ImageMount{Image: v.image, Path: target.str(), SubPath: sub, Pull: v.pull})
		case v.task == nil:
			b.mountFiles(m, i, v, sub)
		default:
			b.mountVolume(m, i, v, sub)
		}
	}
}

// subPath is the part of the volume that is mounted; empty for all of it.
func (b *reader) subPath(m value, i int) (string, bool) {
	v := m.at("subPath")
	sub := v.str()
	if expr := m.at("subPathExpr"); expr.filled() {
		if v.filled() {
			expr.wrong("the mount has both subPath and subPathExpr", "remove one of the two")
			return "", false
		}
		e := &environment{b: b, i: i}
		for _, o := range b.result.Task.Containers[i].Environment {
			e.vars = append(e.vars, variable{name: o.Name, value: o.Value})
		}
		for _, o := range b.result.Task.Containers[i].Secrets {
			e.vars = append(e.vars, variable{name: o.Name, secret: &o.SecretValue, parts: o.Parts})
		}
		var ok bool
		if sub, ok = e.expandPath(expr); !ok {
			return "", false
		}
		if strings.Contains(sub, taskdef.PodIP) || strings.Contains(sub, taskdef.PodIPs) {
			expr.wrong("the address of the Pod is not known when its volumes are made", "use another variable")
			return "", false
		}
		v = expr
	}
	if strings.HasPrefix(sub, "/") || slices.Contains(strings.Split(sub, "/"), "..") {
		v.wrong("a path below the volume has no \"/\" before it and no \"..\"", "")
		return "", false
	}
	return path.Clean("/" + sub)[1:], true
}

// mountVolume mounts a volume of the task, or a directory of one that lies on the host.
func (b *reader) mountVolume(m value, i int, v volume, sub string) {
	t := *v.task
	mount := taskdef.Mount{Path: m.at("mountPath").str(), ReadOnly: v.readOnly || m.at("readOnly").flag(false)}
	if t.Kind != taskdef.VolumeBind {
		b.parts[t.Name] = append(b.parts[t.Name], part{container: i, sub: sub, mount: mount})
		return
	}
	if sub != "" {
		t.Below, t.HostPath = t.HostPath, path.Join(t.HostPath, sub)
		t.Name = b.subVolume(t)
	}
	b.add(t)
	mount.Volume = t.Name
	c := &b.result.Task.Containers[i]
	c.Mounts = append(c.Mounts, mount)
}

func (b *reader) add(t taskdef.Volume) {
	all := &b.result.Task.Volumes
	if !slices.ContainsFunc(*all, func(o taskdef.Volume) bool { return o.Name == t.Name }) {
		*all = append(*all, t)
	}
}

// part is a mount of an emptyDir, or of a directory of one.
type part struct {
	container int
	sub       string // empty for all of it
	mount     taskdef.Mount
}

// nest mounts the emptyDirs. A directory of one that is mounted somewhere is a volume of
// its own, which is mounted in its place wherever the directory above it is: so what a
// container writes never leads another one out of the volume.
func (b *reader) nest() {
	type nested struct {
		part
		sub, volume string
	}
	var below []nested
	for _, name := range slices.Sorted(maps.Keys(b.parts)) {
		names := partNames(name, b.parts[name])
		for _, sub := range slices.Sorted(maps.Keys(names)) {
			t := *b.volumes[name].task
			t.Name = names[sub]
			b.add(t)
			for _, p := range b.parts[name] {
				switch {
				case p.sub == sub:
					b.mountPart(p, "", t.Name)
				case p.sub == "" || strings.HasPrefix(sub, p.sub+"/"):
					below = append(below, nested{p, sub, t.Name})
				}
			}
		}
	}
	for _, n := range below { // what is mounted there by itself is not hidden
		b.mountPart(n.part, strings.TrimPrefix(n.sub, n.part.sub), n.volume)
	}
}

// partNames returns the names of the volumes of an emptyDir by their directories.
func partNames(name string, parts []part) map[string]string {
	names := make(map[string]string)
	for _, p := range parts {
		if _, known := names[p.sub]; !known {
			names[p.sub] = fmt.Sprintf("%s_%d", name, len(names)+1)
		}
	}
	if _, whole := names[""]; whole {
		names[""] = name
	}
	return names
}

// mountPart mounts a volume where a part is, or below it, unless something is there.
func (b *reader) mountPart(p part, below, volume string) {
	c := &b.result.Task.Containers[p.container]
	mount := p.mount
	mount.Volume, mount.Path = volume, path.Join(mount.Path, below)
	if !slices.ContainsFunc(c.Mounts, func(o taskdef.Mount) bool { return path.Clean(o.Path) == mount.Path }) {
		c.Mounts = append(c.Mounts, mount)
	}
}

// subVolume returns the name of the volume that is a directory of another: the same for
// the same directory.
func (b *reader) subVolume(t taskdef.Volume) string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s_%d", t.Name, n)
		have, taken := b.result.Task.Volume(name)
		if !taken || have.HostPath == t.HostPath {
			return name
		}
	}
}

// mountFiles gives a container files, or with a subPath one file or those of a directory.
func (b *reader) mountFiles(m value, i int, v volume, sub string) {
	c := &b.result.Task.Containers[i]
	group := int(b.spec.at("securityContext").at("fsGroup").integer(0, maxID, 0))
	found := false
	for _, f := range v.files {
		target := path.Join(m.at("mountPath").str(), f.path)
		if sub != "" {
			rest, below := strings.CutPrefix(f.path, sub)
			if !below || rest != "" && rest[0] != '/' {
				continue
			}
			target = path.Join(m.at("mountPath").str(), rest)
		}
		found = true
		c.Extensions.SecretFiles = append(c.Extensions.SecretFiles, taskdef.SecretFile{Path: target, Mode: f.mode, GID: group, SecretValue: *f.source})
	}
	if !found && sub != "" {
		m.at("subPath").wrong("the volume has no file "+doctree.Quote(sub), "")
	}
	if sub == "" { // what the image has there is hidden
		c.Linux.Tmpfs = append(c.Linux.Tmpfs, taskdef.Tmpfs{Path: m.at("mountPath").str(), Size: mib, Options: []string{"mode=0755"}})
	}
}
