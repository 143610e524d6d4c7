//go:build e2e && bed_systemd && nightly

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// verdict is what became of a member of a Pod.
type verdict string

const (
	honored verdict = "honored"
	warned  verdict = "warned of"
	ignored verdict = "silently ignored"
	refused verdict = "refused"
	stuck   verdict = "never starts"
)

// comparison is a Pod about one member, run by `podman kube play` and by podtask.
type comparison struct {
	member string
	// before are documents before the Pod, spec the members of its spec besides the
	// containers, container those of the container besides name and image.
	before, spec, container string
	// point is in the log where the member is honored; empty: the Pod must not run.
	point string
	want  verdict
	// shown is what podman inspect shows of it, if it shows something.
	shown string
}

// outcome is what became of a Pod.
type outcome struct {
	verdict verdict
	// fields are those of podman inspect that could tell; nil if the Pod did not run.
	fields map[string]string
}

// beyond are the fields that differ from those of the Pod without members, as NAME=VALUE.
func (o outcome) beyond(plain outcome) (all []string) {
	for name, value := range o.fields {
		usual := strings.Split(plain.fields[name], "\x00")
		var others []string
		for _, word := range strings.Split(value, "\x00") {
			if !slices.Contains(usual, word) {
				others = append(others, word)
			}
		}
		if len(others) > 0 {
			all = append(all, name+"="+strings.Join(others, " "))
		}
	}
	slices.Sort(all)
	return all
}

// volatile are fields that differ between any two containers, and the command, which the
// comparisons differ in.
var volatile = regexp.MustCompile(`^(Config\.(Annotations|Cmd|CreateCommand|Image|Labels|StartupHealthCheck)|HostConfig\.(Annotations|CgroupParent|ContainerIDFile|LogConfig|IDMappings|CidFile))`)

// ofTheTask are variables of every task.
var ofTheTask = regexp.MustCompile(`^(AWS|ECS)_`)

// ids are what differs between two runs in a value.
var ids = regexp.MustCompile(`[0-9a-f]{12,64}|overlay/[0-9]+`)

// inspected flattens what podman inspect shows of a container.
func inspected(t *testing.T, b *box, name, container string) map[string]string {
	t.Helper()
	out, err := command(b, "podman", "container", "inspect", container)
	var all []struct{ Config, HostConfig, Mounts, EffectiveCaps any }
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil || len(all) != 1 {
		t.Errorf("inspect %q: %v %s", container, err, out)
		return nil
	}
	fields := make(map[string]string)
	var flatten func(at string, v any)
	flatten = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				flatten(strings.TrimPrefix(at+"."+key, "."), member)
			}
		case []any:
			var words []string
			for _, item := range v {
				if m, ok := item.(map[string]any); ok && m["Destination"] != nil {
					words = append(words, fmt.Sprint(m["Destination"], " ", m["Type"], " ", m["RW"], " ", m["Options"]))
					continue
				}
				words = append(words, fmt.Sprint(item))
			}
			words = slices.DeleteFunc(words, func(w string) bool { return ofTheTask.MatchString(w) })
			slices.Sort(words)
			fields[at] = strings.Join(words, "\x00")
		default:
			fields[at] = fmt.Sprint(v)
		}
	}
	flatten("", map[string]any{"Config": all[0].Config, "HostConfig": all[0].HostConfig, "Mounts": all[0].Mounts, "EffectiveCaps": all[0].EffectiveCaps})
	for key, value := range fields {
		fields[key] = ids.ReplaceAllString(strings.ReplaceAll(value, name, "NAME"), "ID")
		if volatile.MatchString(key) {
			delete(fields, key)
		}
	}
	return fields
}

// comparisons are in the order of docs/pods.md.
var comparisons = []comparison{
	{member: "an unknown field", container: `comand: [x], args: [print, ran]`, want: refused},
	{member: "`nodeSelector`", spec: `nodeSelector: {disk: ssd}`, container: `args: [print, ran]`, point: "on a node with the label", want: warned},
	{member: "`runAsNonRoot` with an image that runs as root", spec: `securityContext: {runAsNonRoot: true}`, container: `args: [print, ran]`, want: refused},
	{member: "`runAsGroup` without `runAsUser`", spec: `securityContext: {runAsGroup: 55}`, container: `args: [where]`, point: "gid=55", want: honored},
	{member: "`supplementalGroups`", spec: `securityContext: {supplementalGroups: [4000]}`, container: `args: [status, Groups]`, point: "4000", want: honored, shown: "4000"},
	{member: "`fsGroup`: the group of the processes", spec: `securityContext: {fsGroup: 2000}`, container: `args: [status, Groups]`, point: "2000", want: honored, shown: "2000"},
	{member: "`fsGroup`: the group of an emptyDir", spec: `securityContext: {fsGroup: 2000}, volumes: [{name: v, emptyDir: {}}]`, container: `args: [stat, /v], volumeMounts: [{name: v, mountPath: /v}]`, point: "gid=2000", want: honored},
	{member: "an emptyDir that any user can write to", spec: `volumes: [{name: v, emptyDir: {}}]`, container: `args: [stat, /v], volumeMounts: [{name: v, mountPath: /v}]`, point: "mode=0777", want: honored},
	{member: "`seccompProfile: Unconfined`", container: `securityContext: {seccompProfile: {type: Unconfined}}, args: [status, Seccomp]`, point: "Seccomp=0", want: honored},
	{member: "`procMount: Unmasked`", container: `securityContext: {procMount: Unmasked}, args: [cannot, mount, /proc/sys]`, point: "cannot mount", want: honored},
	{member: "`sysctls`", spec: `securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}`, container: `args: [cat, /proc/sys/kernel/shm_rmid_forced]`, point: "1", want: honored},
	{member: "`capabilities`", container: `securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}}, args: [status, CapEff]`, point: "CapEff=0000000000001000", want: honored, shown: "EffectiveCaps="},
	{member: "`allowPrivilegeEscalation: false`", container: `securityContext: {allowPrivilegeEscalation: false}, args: [status, NoNewPrivs]`, point: "NoNewPrivs=1", want: honored},
	{member: "`hostAliases`", spec: `hostAliases: [{ip: 192.0.2.9, hostnames: [a.example]}]`, container: `args: [resolve, a.example]`, point: "192.0.2.9", want: honored},
	{member: "`dnsConfig`", spec: `dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1], options: [{name: ndots, value: "2"}]}`, container: `args: [resolver]`, point: "options ndots:2", want: honored},
	{member: "`setHostnameAsFQDN` and `subdomain`", spec: `hostname: h, subdomain: s, setHostnameAsFQDN: true`, container: `args: [where]`, point: "host=h.s.default.svc.cluster.local", want: honored},
	{member: "`fieldRef` of `status.podIP`", container: `env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}], args: [print, "ip=$(IP)."]`, point: "ip=1", want: honored},
	{member: "`resourceFieldRef`", container: `env: [{name: MEM, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}], resources: {requests: {memory: 64Mi}}, args: [env, MEM]`, point: "MEM=64", want: honored},
	{member: "`$(VAR)` in `args`", container: `env: [{name: A, value: b}], args: [print, "$(A) $$(A)"]`, point: "b $(A)", want: honored},
	{member: "an emptyDir in memory with a `sizeLimit`", spec: `volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 8Mi}}]`, container: `args: [size, /v], volumeMounts: [{name: v, mountPath: /v}]`, point: "/v 8388608", want: honored},
	{member: "`subPath` of an emptyDir", spec: `volumes: [{name: v, emptyDir: {}}]`, container: `args: [list, /all, --, list, /v], volumeMounts: [{name: v, mountPath: /all}, {name: v, mountPath: /v, subPath: below}]`, point: "/all: below", want: honored},
	{member: "`subPathExpr`", spec: `volumes: [{name: v, emptyDir: {}}]`, container: `env: [{name: A, value: b}], args: [list, /all], volumeMounts: [{name: v, mountPath: /all}, {name: v, mountPath: /v, subPathExpr: $(A)}]`, point: "/all: b", want: honored},
	{member: "an image volume", spec: `volumes: [{name: v, image: {reference: "@IMAGE"}}]`, container: `args: [exists, /v/testbox, --, print, mounted], volumeMounts: [{name: v, mountPath: /v}]`, point: "mounted", want: honored},
	{member: "a configMap volume hides what the image has", before: `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: value}}`, spec: `volumes: [{name: v, configMap: {name: settings}}]`, container: `args: [list, /tmp2], volumeMounts: [{name: v, mountPath: /tmp2}]`, point: "/tmp2: key", want: honored},
	{member: "the mode of the files of a Secret", before: `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: value}}`, spec: `volumes: [{name: v, secret: {secretName: s, defaultMode: 256}}]`, container: `args: [stat, /v/key], volumeMounts: [{name: v, mountPath: /v}]`, point: "mode=0400", want: honored},
	{member: "a downwardAPI volume", spec: `volumes: [{name: v, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.namespace}}]}}]`, container: `args: [cat, /v/name], volumeMounts: [{name: v, mountPath: /v}]`, point: "default", want: honored},
	{member: "a projected volume", before: `{apiVersion: v1, kind: ConfigMap, metadata: {name: p}, data: {key: projected}}`, spec: `volumes: [{name: v, projected: {sources: [{configMap: {name: p}}]}}]`, container: `args: [cat, /v/key], volumeMounts: [{name: v, mountPath: /v}]`, point: "projected", want: honored},
	{member: "a sidecar (`restartPolicy: Always` of an init container)", spec: `initContainers: [{name: side, image: "@IMAGE", restartPolicy: Always, args: [sleep, forever]}]`, container: `args: [print, beside it]`, point: "beside it", want: honored},
	{member: "`terminationMessagePath`", container: `terminationMessagePath: /dev/my-log, args: [exists, /dev/my-log, --, print, is there]`, point: "is there", want: honored},
	{member: "`mountPropagation: Bidirectional`", spec: `volumes: [{name: v, emptyDir: {}}]`, container: `args: [print, ran], volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]`, want: refused},
	{member: "`ephemeralContainers`", spec: `ephemeralContainers: [{name: debug, image: "@IMAGE"}]`, container: `args: [print, ran]`, want: refused},
}

// TestPodsBesideKubePlay runs each Pod both ways. The table that it prints is that of docs/pods.md.
func TestPodsBesideKubePlay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := b.testbox()
	if out, err := command(b, "podman", "pull", "-q", image); err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { _, _ = command(b, "podman", "network", "rm", "podman-default-kube-network") })
	var alone sync.Mutex
	kube, own := make([]outcome, len(comparisons)), make([]outcome, len(comparisons))
	plain := comparison{container: `args: [print, ran]`, want: ignored}
	file := plain.write(t, b.family, image)
	plainKube, plainOwn := plain.kubePlay(t, b, b.family, file), plain.podtask(t, b, b.family, file)
	if len(plainKube.fields) == 0 || len(plainOwn.fields) == 0 {
		t.Fatal("podman inspect shows nothing of a Pod without members")
	}
	t.Run("each", func(t *testing.T) {
		for i, c := range comparisons {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				name := fmt.Sprintf("%s-%d", b.family, i)
				file := c.write(t, name, image)
				own[i] = c.podtask(t, b, name, file)
				alone.Lock() // kube play names volumes as the Pods do
				defer alone.Unlock()
				kube[i] = c.kubePlay(t, b, name, file)
			})
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| member\t| kube play\t| podtask\t| podman inspect after kube play\t| after podtask\t|")
	for i, c := range comparisons {
		inKube, inOwn := kube[i].beyond(plainKube), own[i].beyond(plainOwn)
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t|\n", c.member, kube[i].verdict, own[i].verdict, strings.Join(inKube, ", "), strings.Join(inOwn, ", "))
		if own[i].verdict != c.want {
			t.Errorf("%s: podtask %s, want %s", c.member, own[i].verdict, c.want)
		}
		if c.shown != "" && !strings.Contains(strings.Join(inOwn, "\n"), c.shown) {
			t.Errorf("%s: podman inspect of podtask's container does not show %s: %q", c.member, c.shown, inOwn)
		}
	}
	_ = w.Flush()
	t.Log("\n" + table.String())
}

// command runs another program with the environment of the box.
func command(b *box, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), kubePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = b.env
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, ctx.Err())
}

// kubePatience is the time that a command of Podman may take: kube play waits for ever for an
// init container that does not end.
const kubePatience = 20 * time.Second

func (c comparison) write(t *testing.T, name, image string) string {
	t.Helper()
	pod := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %q}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, `, name)
	if c.spec != "" {
		pod += c.spec + ", "
	}
	pod += `containers: [{name: c, image: "@IMAGE", imagePullPolicy: IfNotPresent, ` + c.container + `}]}}`
	if c.before != "" {
		pod = c.before + "\n---\n" + pod
	}
	pod = "---\n" + pod
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(pod, "@IMAGE", image)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// judge says what became of the member: said is what the program has told of it.
func (c comparison) judge(ran bool, log, said string) verdict {
	switch {
	case !ran:
		return refused
	case c.point != "" && strings.Contains(log, c.point):
		return honored
	case strings.Contains(said, "has no effect"), strings.Contains(strings.ToLower(said), "warn"):
		return warned
	}
	return ignored
}

func (c comparison) kubePlay(t *testing.T, b *box, name, file string) outcome {
	t.Helper()
	said, err := command(b, "podman", "kube", "play", file)
	defer func() {
		if out, err := command(b, "podman", "kube", "down", "--force", file); err != nil {
			t.Error(err, out)
		}
	}()
	if err != nil {
		t.Logf("kube play: %s: %s", c.member, said)
		if errors.Is(err, context.DeadlineExceeded) {
			return outcome{verdict: stuck}
		}
		return outcome{verdict: refused}
	}
	if _, err := command(b, "podman", "wait", name+"-c"); err != nil {
		t.Error(err)
	}
	log, err := command(b, "podman", "logs", name+"-c")
	if err != nil {
		t.Error(err)
	}
	return outcome{c.judge(true, log, said), inspected(t, b, name, name+"-c")}
}

func (c comparison) podtask(t *testing.T, b *box, name, file string) outcome {
	t.Helper()
	r := b.podtask("run", "--name", name, "--limits", "off", file)
	if r.code != 0 {
		t.Logf("podtask: %s: %s%s", c.member, r.out, r.err)
		return outcome{verdict: c.judge(false, r.out, r.err)}
	}
	id, err := command(b, "podman", "ps", "-aq", "--filter", "label=podtask.family="+name, "--filter", "label=podtask.container=c")
	if err != nil {
		t.Error(err)
	}
	fields := inspected(t, b, name, strings.TrimSpace(id))
	if r := b.podtask("rm", name); r.code != 0 {
		t.Errorf("rm: %s", r.err)
	}
	return outcome{c.judge(true, r.out, r.err), fields}
}
