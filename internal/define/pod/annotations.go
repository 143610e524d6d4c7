package pod

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

const (
	ofGenerate = "`podman kube generate` writes it for `podman inspect`"
	ofRestore  = "it describes a checkpoint"
	inHelm     = "only an installation by Helm looks at it"
)

// annotationRules treat the annotations that podman kube play, Helm and kubelets give a meaning. Those of podman may
// end with / and the name of a container.
var annotationRules = []rule{
	{"io.podman.annotations.apparmor", warned, "a rootless container has no AppArmor profile", nil},
	{"io.podman.annotations.autoremove", warned, "write `podtask run --rm`", []string{"FALSE"}},
	{"io.podman.annotations.autoremove-image", warned, "`podtask image prune` removes images", []string{"FALSE"}},
	{"io.podman.annotations.cid-file", warned, "no file with the ID is written: `podtask inspect` has it", nil},
	{"io.podman.annotations.cpuset", warned, "the containers may use every processor: write `AllowedCPUs=` of a systemd slice", nil},
	{"io.podman.annotations.infra.name", ignored, "the names of containers are podtask's", nil},
	{"io.podman.annotations.init", honored, "`TRUE`: a small init program is process 1", nil},
	{"io.podman.annotations.init.container.type", ignored, "init containers run each time that the Pod starts, and a task starts once", nil},
	{"io.podman.annotations.kube.health.check", ignored, ofGenerate, nil},
	{"io.podman.annotations.kube.image.volumes.mount", warned, "the volumes of the images are not mounted: write a volume of the type `image`", nil},
	{"io.podman.annotations.label", warned, "write `securityContext.seLinuxOptions`", nil},
	{"io.podman.annotations.memory-nodes", warned, "the containers may use the memory of every node", nil},
	{"io.podman.annotations.pids-limit", warned, "write `--pids-limit` of `podtask run`, or `TasksMax=` of a unit", nil},
	{"io.podman.annotations.privileged", warned, "write `securityContext.privileged`", []string{"FALSE"}},
	{"io.podman.annotations.publish-all", warned, "write `hostPort` for each port", []string{"FALSE"}},
	{"io.podman.annotations.seccomp", warned, "write `securityContext.seccompProfile`", nil},
	{"io.podman.annotations.ulimit", honored, "`NAME=SOFT[:HARD]`, several with commas, for all containers", nil},
	{"io.podman.annotations.userns", warned, "the containers are in the user namespace of rootless Podman: run as another user with `securityContext.runAsUser`, and give files to it with `podman unshare chown`", []string{"host"}},
	{"io.podman.annotations.volumes-from", warned, "no volumes of other containers are mounted: write them as volumes of the Pod", nil},
	{"io.podman.annotations.checkpoint.name", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.rawImageName", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.rootfsImageID", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.rootfsImageName", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.podman.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.criu.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.runtime.name", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.runtime.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.conmon.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.host.arch", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.host.kernel", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.cgroups.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.distribution.version", ignored, ofRestore, nil},
	{"io.podman.annotations.checkpoint.distribution.name", ignored, ofRestore, nil},
	{"run.oci.keep_original_groups", warned, "a container has the groups of its user: write `securityContext.supplementalGroups`", nil},
	{"run.oci.mount_context_type", warned, "mounts have the label that Podman gives them", nil},
	{"io.containers.autoupdate", warned, "write `AutoUpdate=registry` in a `.task` unit, or `podtask run --auto-update`", []string{"disabled"}},
	{"io.containers.autoupdate.authfile", warned, "a `.task` unit with `AutoUpdate=` uses the logins of the user", nil},
	{"io.containers.sdnotify", warned, "write `Notify=` in a `.task` unit", []string{"conmon", "ignore"}},
	{"io.containers.seccomp.profile", warned, "a container has the profile of Podman", nil},

	{annotationMinimumAge, honored, "the time for which this host must have known an image before the task follows a tag to it, such as `3d`", nil},
	{annotationSleepAfter, honored, "the time without a connection after which the copies of a service stop until the next one, 1s to 720h, such as `15m`", nil},
	{"podtask/after", ignored, "`podtask stack` reads it: the members of a stack that this one waits for, as in `db=healthy,migrate=completed`", nil},
	{"helm.sh/hook", honored, "a document with a Pod that is a hook is left out, with a warning, if another Pod is in the file", nil},
	{"helm.sh/hook-delete-policy", ignored, inHelm, nil},
	{"helm.sh/hook-weight", ignored, inHelm, nil},
	{"helm.sh/resource-policy", ignored, inHelm, nil},
	{"container.apparmor.security.beta.kubernetes.io", warned, "a rootless container has no AppArmor profile", []string{"unconfined"}},
	{"container.seccomp.security.alpha.kubernetes.io", warned, "Kubernetes has removed it: write `securityContext.seccompProfile`", nil},
	{"seccomp.security.alpha.kubernetes.io/pod", warned, "Kubernetes has removed it: write `securityContext.seccompProfile`", nil},
	{"kubernetes.io/egress-bandwidth", warned, "the traffic of the Pod is not limited", nil},
	{"kubernetes.io/ingress-bandwidth", warned, "the traffic of the Pod is not limited", nil},
	{"kubernetes.io/config.mirror", ignored, running, nil},
	{"kubernetes.io/limit-ranger", ignored, running, nil},
	{"kubectl.kubernetes.io/default-container", ignored, "commands take the name of a container", nil},
	{"kubectl.kubernetes.io/last-applied-configuration", ignored, running, nil},
	{"kubectl.kubernetes.io/restartedAt", ignored, running, nil},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict", ignored, oneHost, nil},
	{"controller.kubernetes.io/pod-deletion-cost", ignored, oneHost, nil},
	{"batch.kubernetes.io/job-completion-index", honored, "set for the Pod of a Job with indexes", nil},
	{"sidecar.istio.io/inject", warned, "no container is added to the Pod", []string{"false"}},
	{"linkerd.io/inject", warned, "no container is added to the Pod", []string{"disabled"}},
	{"vault.hashicorp.com/agent-inject", warned, "no container is added to the Pod", []string{"false"}},
}

// Annotations that are honored.
const (
	annotationUlimit = "io.podman.annotations.ulimit"
	annotationInit   = "io.podman.annotations.init"
	// annotationMinimumAge and annotationSleepAfter are podtask's own.
	annotationMinimumAge = "podtask/minimum-age"
	annotationSleepAfter = "podtask/sleep-after"
)

var annotationTable = lazy.Value(func() map[string]rule {
	return tabulate(annotationRules)
})

// annotations says what becomes of the annotations with a meaning, of the Pod and of its controller.
func (b *reader) annotations() {
	seen := make(map[string]bool)
	for _, meta := range []value{b.meta, b.owner.at("metadata")} {
		all := meta.at("annotations")
		for _, f := range all.entries() {
			if seen[f.Key] {
				continue
			}
			seen[f.Key] = true
			b.annotation(all.field(f).atKey(f), f)
		}
	}
}

// annotationOf returns the rule of an annotation, and the container that its name ends with.
func annotationOf(key string) (r rule, container string, known bool) {
	if r, known = annotationTable()[key]; known {
		return r, "", true
	}
	name, container, _ := strings.Cut(key, "/")
	r, known = annotationTable()[name]
	return r, container, known
}

func (b *reader) annotation(at value, f doctree.Field) {
	r, container, known := annotationOf(f.Key)
	ofPodman := strings.HasPrefix(f.Key, "io.podman.annotations.") || strings.HasPrefix(f.Key, "io.containers.")
	same := func(word string) bool { return strings.EqualFold(word, f.Value.Text) }
	switch {
	case !known && ofPodman:
		at.warn("the annotation "+doctree.Quote(f.Key)+" has no effect: podtask does not know it", "")
	case !known || f.Value.Text == "" || slices.ContainsFunc(r.harmless, same):
	case r.treatment == warned:
		at.warn("the annotation "+doctree.Quote(f.Key)+" has no effect: "+members.Plain(r.note), "")
	case r.member == annotationUlimit:
		b.ulimits(at, f.Value.Text, container)
	case r.member == annotationMinimumAge:
		b.minimumAge(at, f.Value.Text)
	case r.member == annotationSleepAfter:
		after, err := time.ParseDuration(f.Value.Text)
		if err != nil || after < time.Second || after > taskdef.MaxSleepAfter {
			at.wrong(doctree.Quote(f.Value.Text)+" is not a time of 1s to "+taskdef.MaxSleepAfter.String(), "write it as in 15m, or leave it out for a service that never sleeps")
			return
		}
		b.result.Task.Extensions.SleepAfter = after.Round(time.Second)
	case r.member == annotationInit && same("true"):
		for i := range b.result.Task.Containers {
			if c := &b.result.Task.Containers[i]; container == "" || container == c.Name {
				c.Init = true
			}
		}
	}
}

// minimumAge reads the annotation, and refuses one that has no effect.
func (b *reader) minimumAge(at value, text string) {
	age, err := imageage.ParseAge(text)
	pinned := func(c taskdef.Container) bool { return strings.Contains(c.Image, "@") }
	all := b.result.Task.Containers
	switch {
	case err != nil:
		at.wrong(err.Error(), "")
	case age > 0 && len(all) > 0 && !slices.ContainsFunc(all, func(c taskdef.Container) bool { return !pinned(c) }):
		at.wrong("the minimum age "+text+" has no effect: each image has a digest, and such an image is never updated", "remove it, or write a tag without a digest")
	default:
		b.result.Task.Extensions.MinimumAge = text
	}
}

// ulimits reads limits as podman kube play does.
func (b *reader) ulimits(at value, text, container string) {
	for item := range strings.SplitSeq(text, ",") {
		name, limits, _ := strings.Cut(strings.TrimSpace(item), "=")
		soft, hard, both := strings.Cut(limits, ":")
		if !both {
			hard = soft
		}
		low, err := strconv.ParseInt(soft, 10, 64)
		high, err2 := strconv.ParseInt(hard, 10, 64)
		name = strings.TrimPrefix(strings.ToLower(name), "rlimit_")
		if err != nil || err2 != nil || name == "" {
			at.wrong(doctree.Quote(item)+" is not a limit", "write NAME=SOFT:HARD, as in nofile=1024:2048")
			continue
		}
		for i := range b.result.Task.Containers {
			if c := &b.result.Task.Containers[i]; container == "" || container == c.Name {
				c.Linux.Ulimits = append(c.Linux.Ulimits, taskdef.Ulimit{Name: name, Soft: low, Hard: high})
			}
		}
	}
}

// Hook returns when Helm runs a document of a chart, such as test or pre-install; empty for documents of the release.
func Hook(doc *doctree.Node) string { return hookOf(value{report: &report{}, node: doc}) }

// hookOf is the annotation by which Helm runs a document at certain times only; empty for others.
func hookOf(doc value) string { return doc.at("metadata").at("annotations").at("helm.sh/hook").str() }

// withoutHooks leaves out the Pods that are hooks of Helm, unless there is no other Pod.
func withoutHooks(docs []value) []value {
	isPod := func(v value) bool { return IsWorkload(v.at("kind").str()) }
	if !slices.ContainsFunc(docs, func(v value) bool { return isPod(v) && hookOf(v) == "" }) {
		return docs
	}
	return slices.DeleteFunc(docs, func(v value) bool {
		if !isPod(v) || hookOf(v) == "" {
			return false
		}
		name := v.at("metadata").at("name").str()
		v.at("kind").warn("the "+v.at("kind").str()+" "+doctree.Quote(name)+" is left out: it is a hook of Helm ("+hookOf(v)+"), which runs beside the release", "run it as a file of its own; helm template --no-hooks leaves hooks out")
		return true
	})
}
