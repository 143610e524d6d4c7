//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// podFixtures are after pages of the sections "Concepts" and "Tasks". Those about probes, the
// limits of memory and pulling with a login have tests of their own.
var podFixtures = []podFixture{
	{
		page: "concepts/workloads/pods",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", labels: {app: web}}, spec: {restartPolicy: Never, containers: [
			{name: web, image: "@IMAGE", args: [where], ports: [{containerPort: 80}]}]}}`,
		log:   []string{"uid=0 gid=0 dir=/ host=@NAME"},
		check: wantPhase("Succeeded", "BestEffort"),
	},
	{
		page: "reference/kubectl/generated/kubectl_get", // what a cluster adds to each Pod
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", namespace: shop, uid: 6a2f6d2e-0c1f-4a53-9d0e-1d1b3c7f0a11, resourceVersion: "4711", generation: 1, creationTimestamp: "2026-03-01T08:00:00Z",
			managedFields: [{manager: kubectl, operation: Update, apiVersion: v1, time: "2026-03-01T08:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}]},
			spec: {restartPolicy: Never, nodeName: node1, dnsPolicy: ClusterFirst, enableServiceLinks: true, priority: 0, preemptionPolicy: PreemptLowerPriority, schedulerName: default-scheduler,
			serviceAccount: default, serviceAccountName: default, securityContext: {}, terminationGracePeriodSeconds: 30, tolerations: [{effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}],
			containers: [{name: c, image: "@IMAGE", resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, args: [cat, /var/run/secrets/kubernetes.io/serviceaccount/namespace, --, list, /var/run/secrets/kubernetes.io/serviceaccount],
				volumeMounts: [{name: kube-api-access-abcde, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]}],
			volumes: [{name: kube-api-access-abcde, projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}, {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
				{downwardAPI: {items: [{fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}, path: namespace}]}}]}}]},
			status: {phase: Running, podIP: 10.244.0.7}}`,
		log: []string{"shop", "/var/run/secrets/kubernetes.io/serviceaccount: namespace"},
		err: []string{"serviceAccountToken has no effect", "the files of kube-root-ca.crt are missing", "nodeName has no effect"},
	},
	{
		page: "concepts/workloads/pods/init-containers",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			initContainers: [
				{name: init-service, image: "@IMAGE", args: [cannot, exists, /job/second, --, write, /job/first, x], volumeMounts: [{name: work, mountPath: /job}]},
				{name: init-db, image: "@IMAGE", args: [exists, /job/first, --, write, /job/second, x], volumeMounts: [{name: work, mountPath: /job}]}],
			containers: [{name: app, image: "@IMAGE", args: [list, /job], volumeMounts: [{name: work, mountPath: /job}]}],
			volumes: [{name: work, emptyDir: {}}]}}`,
		log: []string{"/job: first second"},
	},
	{
		page: "tasks/inject-data-application/define-interdependent-environment-variables", // of which one is secret
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: of-the-secret}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [{name: c, image: "@IMAGE", args: [env, URL],
			env: [{name: PW, valueFrom: {secretKeyRef: {name: login, key: password}}}, {name: URL, value: "postgres://u:$(PW)@db"}]}]}}`,
		log: []string{"postgres://u:of-the-secret@db"},
	},
	{
		page: "concepts/storage/volumes#emptydir", // in memory: the second init container does not have it
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			initContainers: [
				{name: first, image: "@IMAGE", args: [write, /m/f, kept in memory], volumeMounts: [{name: m, mountPath: /m}]},
				{name: second, image: "@IMAGE", args: [sleep, 500ms]}],
			containers: [{name: app, image: "@IMAGE", args: [cat, /m/f], volumeMounts: [{name: m, mountPath: /m}]}],
			volumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]}}`,
		log: []string{"kept in memory"},
	},
	{
		page: "concepts/workloads/pods/sidecar-containers",
		manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "@NAME"}, spec: {replicas: 1, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {
			terminationGracePeriodSeconds: 2,
			initContainers: [{name: logshipper, image: "@IMAGE", restartPolicy: Always, lifecycle: {stopSignal: SIGINT}, args: [wait, /opt/logs.txt, --, cat, /opt/logs.txt, --, write, /opt/shipped, --, sleep, forever], volumeMounts: [{name: data, mountPath: /opt}]}],
			containers: [{name: app, image: "@IMAGE", restartPolicy: Never, args: [write, /opt/logs.txt, a log line, --, wait, /opt/shipped], volumeMounts: [{name: data, mountPath: /opt}]}],
			volumes: [{name: data, emptyDir: {}}]}}}}`,
		log: []string{"a log line"},
		err: []string{"one Pod of the Deployment runs"},
		check: func(t *testing.T, _ *box, p kubePod) {
			if end := p.Status.InitContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 130 {
				t.Errorf("the sidecar was not stopped after the container, with its signal: %+v", end)
			}
		},
	},
	{
		page: "concepts/workloads/pods/ephemeral-containers",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {containers: [{name: app, image: "@IMAGE"}],
			ephemeralContainers: [{name: debugger, image: "@IMAGE"}]}}`,
		code: 125, err: []string{"ephemeralContainers is not supported", `use "podtask exec"`},
	},
	{
		page: "concepts/workloads/controllers/job",
		manifest: `{apiVersion: batch/v1, kind: Job, metadata: {name: "@NAME"}, spec: {backoffLimit: 4, template: {spec: {restartPolicy: Never, containers: [
			{name: pi, image: "@IMAGE", command: [/testbox, print, "3.14159"]}]}}}}`,
		log:   []string{"3.14159"},
		check: wantPhase("Succeeded", ""),
	},
	{
		page: "concepts/workloads/controllers/cron-jobs",
		manifest: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: "@NAME"}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure,
			containers: [{name: hello, image: "@IMAGE", imagePullPolicy: IfNotPresent, args: [print, Hello from the cluster]}]}}}}}}`,
		log: []string{"Hello from the cluster"}, err: []string{"it runs the Pod at set times"},
	},
	{
		page: "concepts/workloads/controllers/statefulset",
		manifest: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: "@NAME"}, spec: {serviceName: web, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {
				terminationGracePeriodSeconds: 10,
				containers: [{name: web, image: "@IMAGE", restartPolicy: Never, args: [write, /usr/share/www/index.html, stateful], volumeMounts: [{name: www, mountPath: /usr/share/www}]}]}},
			volumeClaimTemplates: [{metadata: {name: www}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`,
		flags: []string{"--map-volume", "www=@DIR"},
		err:   []string{"it keeps several numbered Pods, each with volumes of its own"},
		check: func(t *testing.T, b *box, _ kubePod) {
			if text, err := os.ReadFile(filepath.Join(b.dir, "index.html")); string(text) != "stateful" {
				t.Errorf("the claim holds %q, %v", text, err)
			}
		},
	},
	{
		page: "concepts/workloads/controllers/daemonset",
		manifest: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: "@NAME"}, spec: {selector: {matchLabels: {name: logs}}, template: {metadata: {labels: {name: logs}}, spec: {
			tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}],
			containers: [{name: collector, image: "@IMAGE", restartPolicy: Never, args: [list, /logs, --, cannot, write, /logs/x], volumeMounts: [{name: varlog, mountPath: /logs, readOnly: true}]}],
			volumes: [{name: varlog, hostPath: {path: "@DIR/state", type: Directory}}]}}}}`,
		log: []string{"/logs: podtask", "cannot write"}, err: []string{"it runs the Pod on every node"},
	},
	{
		page: "concepts/storage/volumes",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			initContainers: [{name: a, image: "@FILES", imagePullPolicy: IfNotPresent, args: [cannot, exists, /files/of-image, --, write, /files/new, x, --, stat, /files, --, mount, /cache, --, size, /cache, --, stat, /cache, --, write, /cache/x, x],
				volumeMounts: [{name: plain, mountPath: /files}, {name: memory, mountPath: /cache}]}],
			containers: [{name: b, image: "@IMAGE", securityContext: {runAsUser: 77}, args: [exists, /plain/new, --, write, /plain/b, b, --, list, /plain, --, write, /made/dir/f, x, --, cannot, put, /made/file, text],
				volumeMounts: [{name: plain, mountPath: /plain}, {name: dir, mountPath: /made/dir}, {name: file, mountPath: /made/file}]}],
			volumes: [{name: plain, emptyDir: {sizeLimit: 500Mi}}, {name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}},
				{name: dir, emptyDir: {}}, {name: file, hostPath: {path: "@DIR/file", type: FileOrCreate}}]}}`,
		log: []string{"/files mode=0777 uid=0 gid=0", "/cache tmpfs rw", "/cache 8388608", "/cache mode=1777", "/plain: b new", "cannot put"},
		err: []string{"sizeLimit is not enforced"},
		check: func(t *testing.T, b *box, _ kubePod) {
			if info, err := os.Stat(filepath.Join(b.dir, "file")); err != nil || info.Size() != 0 {
				t.Errorf("FileOrCreate: %v, %v", info, err)
			}
		},
	},
	{
		page: "concepts/storage/volumes#using-subpath",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			initContainers: [{name: fill, image: "@IMAGE", args: [write, /data/mysql/db, x, --, write, /data/html/index, y, --, write, /data/top, z, --, list, /data],
				volumeMounts: [{name: site, mountPath: /data}]},
				{name: mysql, image: "@IMAGE", args: [list, /var/lib/mysql, --, write, /host/x, host], volumeMounts: [{name: site, mountPath: /var/lib/mysql, subPath: mysql}, {name: host, mountPath: /host, subPath: a/b}]}],
			containers: [{name: php, image: "@IMAGE", args: [list, /var/www/html], volumeMounts: [{name: site, mountPath: /var/www/html, subPath: html}]}],
			volumes: [{name: site, emptyDir: {}}, {name: host, hostPath: {path: "@DIR/host", type: DirectoryOrCreate}}]}}`,
		log: []string{"/data: html mysql top", "/var/lib/mysql: db", "/var/www/html: index"},
		check: func(t *testing.T, b *box, _ kubePod) {
			if _, err := os.Stat(filepath.Join(b.dir, "host/a/b/x")); err != nil {
				t.Error(err)
			}
		},
	},
	{
		page: "concepts/storage/volumes#using-subpath-expanded-environment",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", args: [write, /logs/hello.txt, hello], env: [{name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}],
				volumeMounts: [{name: workdir, mountPath: /logs, subPathExpr: $(POD_NAME)}]}],
			volumes: [{name: workdir, hostPath: {path: "@DIR/pods"}}]}}`,
		check: func(t *testing.T, b *box, _ kubePod) {
			if _, err := os.Stat(filepath.Join(b.dir, "pods", b.family, "hello.txt")); err != nil {
				t.Error(err)
			}
		},
	},
	{
		page: "concepts/storage/projected-volumes",
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: mysecret}, stringData: {username: ` + marked + `}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: myconfigmap}, data: {config: some settings}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", labels: {zone: east, tier: back}}, spec: {restartPolicy: Never, containers: [
	{name: c, image: "@IMAGE", resources: {limits: {cpu: 500m}}, args: [list, /all, --, list, /all/my-group, --, stat, /all/my-group/my-username, --, stat, /all/my-group/my-config, --, cat, /all/labels, --, cat, /all/cpu_limit],
		volumeMounts: [{name: all, mountPath: /all, readOnly: true}]}],
	volumes: [{name: all, projected: {defaultMode: 0440, sources: [
		{secret: {name: mysecret, items: [{key: username, path: my-group/my-username, mode: 511}]}},
		{downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu_limit, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}},
		{configMap: {name: myconfigmap, items: [{key: config, path: my-group/my-config}]}}]}}]}}`,
		flags: []string{"--limits", "off"},
		log:   []string{"/all: cpu_limit labels my-group", "my-username mode=0777", "my-config mode=0440", `tier="back"`, `zone="east"`, "500"},
		not:   []string{marked},
	},
	{
		page: "concepts/configuration/configmap",
		manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: game-demo}, data: {player_initial_lives: "3", ui_properties_file_name: user-interface.properties, game.properties: "enemy.types=aliens,monsters\n", empty: ""}, binaryData: {raw: AAEC}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
	{name: demo, image: "@FILES", args: [env, PLAYER_INITIAL_LIVES, --, env, UI, --, list, /files, --, cat, /files/game.properties, --, cannot, exists, /files/of-image],
		env: [{name: PLAYER_INITIAL_LIVES, valueFrom: {configMapKeyRef: {name: game-demo, key: player_initial_lives}}}, {name: UI, valueFrom: {configMapKeyRef: {name: game-demo, key: ui_properties_file_name}}},
			{name: ABSENT, valueFrom: {configMapKeyRef: {name: no-such, key: x, optional: true}}}],
		volumeMounts: [{name: config, mountPath: /files, readOnly: true}, {name: maybe, mountPath: /maybe}]}],
	volumes: [{name: config, configMap: {name: game-demo, items: [{key: game.properties, path: game.properties}, {key: raw, path: raw}]}}, {name: maybe, configMap: {name: no-such, optional: true}}]}}`,
		log: []string{"PLAYER_INITIAL_LIVES=3", "UI=user-interface.properties", "/files: game.properties raw", "enemy.types=aliens,monsters", "cannot exists"},
	},
	{
		page: "concepts/configuration/secret",
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: dotfile-secret}, data: {.secret-file: dmFsdWUtMg0KDQo=}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
	{name: dotfile, image: "@IMAGE", args: [list, /etc/secret-volume, --, exists, /etc/secret-volume/.secret-file, --, stat, /etc/secret-volume/.secret-file],
		volumeMounts: [{name: secret-volume, readOnly: true, mountPath: /etc/secret-volume}]}],
	volumes: [{name: secret-volume, secret: {secretName: dotfile-secret, defaultMode: 256}}]}}`,
		log: []string{"/etc/secret-volume:\n", ".secret-file mode=0400"},
	},
	{
		page: "concepts/services-networking/dns-pod-service",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, hostname: box-1, subdomain: box-sub, containers: [{name: test, image: "@IMAGE", args: [resolver, --, where, --, resolve, box-1.box-sub.default.svc.cluster.local]}],
			dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1], searches: [ns1.svc.cluster-domain.example, my.dns.search.suffix], options: [{name: ndots, value: "2"}, {name: edns0}]}}}`,
		log: []string{"nameserver 192.0.2.1", "search ns1.svc.cluster-domain.example my.dns.search.suffix", "options ndots:2 edns0", "host=box-1", "cluster.local 127.0.0.1"},
		err: []string{"subdomain has no effect: only the Pod itself finds"},
	},
	{
		page: "concepts/services-networking/dns-pod-service#pod-sethostnameasfqdn-field",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, hostname: box-1, subdomain: sub, setHostnameAsFQDN: true,
			containers: [{name: test, image: "@IMAGE", args: [where]}]}}`,
		log: []string{"host=box-1.sub.default.svc.cluster.local"},
	},
	{
		page: "tasks/network/customize-hosts-file-for-pods",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			hostAliases: [{ip: 127.0.0.1, hostnames: [foo.local, bar.local]}, {ip: 10.1.2.3, hostnames: [foo.remote, bar.remote]}],
			containers: [{name: cat-hosts, image: "@IMAGE", args: [resolve, foo.local, --, resolve, bar.remote]}]}}`,
		log: []string{"foo.local 127.0.0.1", "bar.remote 10.1.2.3"},
	},
	{
		page: "tasks/administer-cluster/sysctl-cluster",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "1"}, {name: net/ipv4/ip_unprivileged_port_start, value: "79"}]},
			containers: [{name: c, image: "@IMAGE", args: [cat, /proc/sys/kernel/shm_rmid_forced, --, cat, /proc/sys/net/ipv4/ip_unprivileged_port_start]}]}}`,
		log: []string{"1\n", "79\n"},
	},
	{
		page: "tasks/configure-pod-container/quality-service-pod",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", args: [env, MEM, --, env, CPU], resources: {limits: {memory: 200Mi, cpu: 700m}, requests: {memory: 200Mi, cpu: 700m}},
				env: [{name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}, {name: CPU, valueFrom: {resourceFieldRef: {containerName: c, resource: requests.cpu}}}]}]}}`,
		flags: []string{"--limits", "off"},
		log:   []string{"MEM=200", "CPU=1"},
		check: wantPhase("Succeeded", "Guaranteed"),
	},
	{
		page: "tasks/configure-pod-container/security-context",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, supplementalGroups: [4000]},
			initContainers: [{name: default-caps, image: "@IMAGE", securityContext: {runAsUser: 0, runAsGroup: 0}, args: [status, CapEff, --, status, NoNewPrivs]},
				{name: more-caps, image: "@IMAGE", securityContext: {runAsUser: 0, runAsGroup: 0, capabilities: {add: [NET_ADMIN, CAP_SYS_TIME], drop: [ALL]}}, args: [status, CapEff]}],
			containers: [{name: demo, image: "@IMAGE", args: [where, --, status, Groups, --, stat, /data/demo, --, write, /data/demo/testfile, hello, --, stat, /data/demo/testfile, --, status, NoNewPrivs, --, status, CapEff, --, stat, /etc/conf/key],
				volumeMounts: [{name: vol, mountPath: /data/demo}, {name: conf, mountPath: /etc/conf}], securityContext: {allowPrivilegeEscalation: false}}],
			volumes: [{name: vol, emptyDir: {}}, {name: conf, downwardAPI: {items: [{path: key, fieldRef: {fieldPath: metadata.name}}]}}]}}`,
		log: []string{"CapEff=00000000a80425fb", "NoNewPrivs=0", "CapEff=0000000002001000", "uid=1000 gid=3000", "Groups=2000 3000 4000", "/data/demo mode=2777 uid=0 gid=2000", "/data/demo/testfile mode=0644 uid=1000 gid=2000", "NoNewPrivs=1", "CapEff=0000000000000000", "/etc/conf/key mode=0644 uid=0 gid=2000"},
	},
	{
		page: "tasks/configure-pod-container/security-context#set-the-security-context-for-a-container",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, securityContext: {runAsUser: 1000, supplementalGroupsPolicy: Strict, runAsGroup: 9},
			containers: [{name: demo, image: "@FILES", securityContext: {runAsUser: 2000, readOnlyRootFilesystem: true, procMount: Unmasked, seccompProfile: {type: Unconfined}},
				args: [where, --, status, Groups, --, cannot, write, /tmp/x, --, status, Seccomp, --, cannot, mount, /proc/sys]}]}}`,
		log: []string{"uid=2000 gid=9", "Groups=9\n", "cannot write", "Seccomp=0", "cannot mount"},
	},
	{
		page: "concepts/security/pod-security-standards",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, hostUsers: false,
			securityContext: {runAsNonRoot: true, runAsGroup: 55, seccompProfile: {type: RuntimeDefault}},
			containers: [{name: c, image: "@FILES", args: [where, --, mount, /proc/sys], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`,
		log: []string{"uid=1234 gid=55", "/proc/sys proc ro"},
	},
	{
		page: "concepts/security/pod-security-standards#restricted",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, securityContext: {runAsNonRoot: true},
			containers: [{name: c, image: "@IMAGE", args: [print, never]}]}}`,
		code: 125, not: []string{"never"},
		check: func(t *testing.T, _ *box, p kubePod) {
			w := p.Status.ContainerStatuses[0].State.Waiting
			if p.Status.Phase != "Failed" || w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, "runAsNonRoot") {
				t.Errorf("%s: %+v", p.Status.Phase, w)
			}
		},
	},
	{
		page: "tasks/configure-pod-container/share-process-namespace",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, shareProcessNamespace: true, terminationGracePeriodSeconds: 2,
			initContainers: [{name: web, image: "@IMAGE", restartPolicy: Always, args: [sleep, forever]}],
			containers: [{name: shell, image: "@IMAGE", args: [processes], stdin: true, tty: true, securityContext: {capabilities: {add: [SYS_PTRACE]}}}]}}`,
		log: []string{"processes 3"}, // with the one that holds the namespace
	},
	{
		page: "tasks/configure-pod-container/image-volumes",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			containers: [{name: shell, image: "@IMAGE", args: [cat, /volume/files/of-image, --, cannot, write, /volume/x], volumeMounts: [{name: volume, mountPath: /volume}]}],
			volumes: [{name: volume, image: {reference: "@FILES", pullPolicy: IfNotPresent}}]}}`,
		log: []string{"from the image", "cannot write"},
	},
	{
		page: "tasks/configure-pod-container/configure-pod-configmap",
		manifest: `{apiVersion: v1, kind: ConfigMap, metadata: {name: special-config}, data: {SPECIAL_LEVEL: very, SPECIAL_TYPE: charm}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
	{name: c, image: "@IMAGE", command: [/testbox, print, $(SPECIAL_LEVEL) $(SPECIAL_TYPE), --, env, P_SPECIAL_TYPE], envFrom: [{configMapRef: {name: special-config}}, {prefix: P_, configMapRef: {name: special-config}}]}]}}`,
		log: []string{"very charm", "P_SPECIAL_TYPE=charm"},
	},
	{
		page: "tasks/inject-data-application/define-command-argument-container",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: OnFailure, containers: [
			{name: c, image: "@IMAGE", env: [{name: MESSAGE, value: hello world}], command: [/testbox], args: [print, $(MESSAGE), $$(MESSAGE), $(NONE)], workingDir: /tmp}]}}`,
		log: []string{"hello world $(MESSAGE) $(NONE)"},
	},
	{
		page: "tasks/inject-data-application/define-interdependent-environment-variables",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [{name: c, image: "@IMAGE",
			args: [print, "UNCHANGED_REFERENCE=$(UNCHANGED_REFERENCE)", --, env, SERVICE_ADDRESS, --, env, ESCAPED_REFERENCE],
			env: [{name: SERVICE_PORT, value: "80"}, {name: SERVICE_IP, value: 172.17.0.1}, {name: UNCHANGED_REFERENCE, value: "$(PROTOCOL)://$(SERVICE_IP):$(SERVICE_PORT)"},
				{name: PROTOCOL, value: https}, {name: SERVICE_ADDRESS, value: "$(PROTOCOL)://$(SERVICE_IP):$(SERVICE_PORT)"}, {name: ESCAPED_REFERENCE, value: "$$(PROTOCOL)://$(SERVICE_IP):$(SERVICE_PORT)"}]}]}}`,
		log: []string{"UNCHANGED_REFERENCE=$(PROTOCOL)://172.17.0.1:80", "SERVICE_ADDRESS=https://172.17.0.1:80", "ESCAPED_REFERENCE=$(PROTOCOL)://172.17.0.1:80"},
	},
	{
		page: "tasks/inject-data-application/environment-variable-expose-pod-information",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", namespace: ns1, uid: 11111111-2222-4333-8444-555555555555}, spec: {restartPolicy: Never, containers: [{name: c, image: "@IMAGE",
			args: [print, "node=$(NODE) pod=$(POD)", --, env, SPACE, --, env, ACCOUNT, --, env, UID, --, print, "from=$(IP)", --, env, IP, --, env, HOST_IP],
			env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}},
				{name: SPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}},
				{name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]}]}}`,
		log: []string{"pod=@NAME", "SPACE=ns1", "ACCOUNT=default", "UID=11111111-2222-4333-8444-555555555555"},
		check: func(t *testing.T, b *box, p kubePod) {
			ip, host := p.Status.PodIP, p.Status.HostIP
			out := b.want(0, "logs", b.family).out
			if ip == "" || host == "" || !strings.Contains(out, "from="+ip) || !strings.Contains(out, "IP="+ip) || !strings.Contains(out, "HOST_IP="+host) {
				t.Errorf("Pod %q, host %q:\n%s", ip, host, out)
			}
		},
	},
	{
		page: "tasks/inject-data-application/downward-api-volume-expose-pod-information",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", labels: {zone: us-est-coast, rack: rack-22}, annotations: {build: two, builder: john-doe}}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", args: [cat, /etc/podinfo/labels, --, cat, /etc/podinfo/annotations], volumeMounts: [{name: podinfo, mountPath: /etc/podinfo}]}],
			volumes: [{name: podinfo, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: annotations, fieldRef: {fieldPath: metadata.annotations}}]}}]}}`,
		log: []string{`rack="rack-22"`, `zone="us-est-coast"`, `build="two"`, `builder="john-doe"`},
	},
	{
		page: "tasks/inject-data-application/distribute-credentials-secure",
		manifest: `{apiVersion: v1, kind: Secret, metadata: {name: test-secret}, stringData: {username: my-app, password: ` + marked + `}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
	{name: c, image: "@IMAGE", args: [env, username, --, exists, /etc/secret-volume/password, --, stat, /etc/secret-volume/my-group/my-username], envFrom: [{secretRef: {name: test-secret}}],
		volumeMounts: [{name: v, mountPath: /etc/secret-volume}, {name: w, mountPath: /etc/secret-volume/my-group}]}],
	volumes: [{name: v, secret: {secretName: test-secret}}, {name: w, secret: {secretName: test-secret, items: [{key: username, path: my-username, mode: 0400}]}}]}}`,
		log: []string{"username=my-app", "my-username mode=0400"}, not: []string{marked},
		check: func(_ *testing.T, b *box, _ kubePod) { b.checkNotShown(b.inspect(b.family).ID, marked) },
	},
	{
		page: "tasks/debug/debug-application/determine-reason-pod-failure",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", args: [put, /dev/termination-log, Sleep expired]}]}}`,
		check: wantMessage("Completed", "Sleep expired"),
	},
	{
		page: "tasks/debug/debug-application/determine-reason-pod-failure#customizing-the-termination-message",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@FILES", terminationMessagePath: /tmp/my-log, args: [put, /tmp/my-log, by another user, --, exit, "4"], securityContext: {readOnlyRootFilesystem: true}}]}}`,
		code: 4, check: wantMessage("Error", "by another user"),
	},
	{
		page: "tasks/debug/debug-application/determine-reason-pod-failure#setting-the-termination-log-file",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", terminationMessagePolicy: FallbackToLogsOnError, args: [print, the last words, --, exit, "4"]}]}}`,
		code: 4, check: wantMessage("Error", "the last words\n"),
	},
	{
		page: "tasks/access-application-cluster/communicate-containers-same-pod-shared-volume",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: web, image: "@IMAGE", args: [await, "http://127.0.0.1:8099/", --, cat, /usr/share/html/index.html], volumeMounts: [{name: shared-data, mountPath: /usr/share/html}]}],
			initContainers: [{name: writer, image: "@IMAGE", restartPolicy: Always, args: [write, /pod-data/index.html, Hello from the other container, --, serve, "8099"], volumeMounts: [{name: shared-data, mountPath: /pod-data}]}],
			terminationGracePeriodSeconds: 1, volumes: [{name: shared-data, emptyDir: {}}]}}`,
		log: []string{"Hello from the other container"},
	},
	{
		page:     "concepts/scheduling-eviction/assign-pod-node",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, nodeSelector: {disktype: ssd}, priority: 7, containers: [{name: c, image: "@IMAGE", args: [print, placed]}]}}`,
		log:      []string{"placed"}, err: []string{"nodeSelector has no effect", "priority has no effect"},
	},
	{
		page:     "concepts/containers/runtime-class",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {runtimeClassName: myclass, containers: [{name: c, image: "@IMAGE"}]}}`,
		code:     125, err: []string{"runtimeClassName is not supported"},
	},
	{
		page: "concepts/storage/ephemeral-volumes",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			containers: [{name: my-frontend, image: "@IMAGE", args: [write, /scratch/x, x], volumeMounts: [{name: scratch-volume, mountPath: /scratch}]}],
			volumes: [{name: scratch-volume, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: scratch, resources: {requests: {storage: 1Gi}}}}}}]}}`,
		flags: []string{"--map-volume", "scratch-volume=@DIR"},
		check: func(t *testing.T, b *box, _ kubePod) {
			if _, err := os.Stat(filepath.Join(b.dir, "x")); err != nil {
				t.Error(err)
			}
		},
	},
	{
		page: "tasks/configure-pod-container/configure-persistent-volume-storage",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never,
			containers: [{name: task-pv-container, image: "@IMAGE", args: [write, /html/index.html, from storage, --, list, /html, --, cannot, write, /settings/x], volumeMounts: [{name: storage, mountPath: /html, subPath: html}, {name: storage, mountPath: /settings, subPath: html, readOnly: true}]}],
			volumes: [{name: storage, persistentVolumeClaim: {claimName: task-pv-claim}}]}}`,
		flags: []string{"--map-volume", "task-pv-claim=@DIR"},
		log:   []string{"/html: index.html", "cannot write"},
		check: func(t *testing.T, b *box, _ kubePod) {
			if text, err := os.ReadFile(filepath.Join(b.dir, "html/index.html")); string(text) != "from storage" {
				t.Errorf("the claim holds %q, %v", text, err)
			}
		},
	},
	{
		page: "tasks/configure-pod-container/configure-volume-storage",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: OnFailure,
			containers: [{name: redis, image: "@IMAGE", args: [tally, /data/redis/runs, "2"], volumeMounts: [{name: storage, mountPath: /data/redis}]}],
			volumes: [{name: storage, emptyDir: {}}]}}`,
		check: func(t *testing.T, _ *box, p kubePod) {
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 || p.Status.Phase != "Succeeded" {
				t.Errorf("the volume did not outlive the container: %s after %d restarts", p.Status.Phase, n)
			}
		},
	},
	{
		page: "tasks/configure-pod-container/configure-pod-initialization",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, dnsPolicy: Default,
			initContainers: [{name: install, image: "@IMAGE", args: [write, /work-dir/index.html, installed], volumeMounts: [{name: workdir, mountPath: /work-dir}]}],
			containers: [{name: nginx, image: "@IMAGE", ports: [{containerPort: 80}], args: [cat, /usr/share/html/index.html], volumeMounts: [{name: workdir, mountPath: /usr/share/html}]}],
			volumes: [{name: workdir, emptyDir: {}}]}}`,
		log: []string{"installed"},
		check: func(t *testing.T, _ *box, p kubePod) {
			if end := p.Status.InitContainerStatuses[0].State.Terminated; end == nil || end.Reason != "Completed" {
				t.Errorf("the init container: %+v", end)
			}
		},
	},
	{
		page: "tasks/configure-pod-container/attach-handler-lifecycle-event",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [
			{name: lifecycle-demo, image: "@IMAGE", args: [wait, /tmp/message, --, cat, /tmp/message], lifecycle: {postStart: {exec: {command: [/testbox, write, /tmp/message, Hello from the postStart handler]}}, preStop: {sleep: {seconds: 1}}}}]}}`,
		log: []string{"Hello from the postStart handler"},
	},
	{
		page: "tasks/configure-pod-container/assign-pod-level-resources",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, resources: {limits: {cpu: "1", memory: 200Mi}, requests: {cpu: "1", memory: 100Mi}},
			containers: [{name: c1, image: "@IMAGE", args: [print, one], resources: {limits: {cpu: 500m, memory: 100Mi}, requests: {cpu: 500m, memory: 50Mi}}}, {name: c2, image: "@IMAGE", args: [print, two]}]}}`,
		flags: []string{"--limits", "off"}, log: []string{"one", "two"},
		check: wantPhase("Succeeded", "Burstable"),
	},
	{
		page: "tasks/configure-pod-container/extended-resource",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {containers: [
			{name: c, image: "@IMAGE", resources: {requests: {example.com/dongle: 3}, limits: {example.com/dongle: 3}}}]}}`,
		code: 125, err: []string{"example.com/dongle"},
	},
	{
		page: "tasks/inject-data-application/define-environment-variable-container",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME", labels: {purpose: demonstrate-envars}}, spec: {restartPolicy: Never, containers: [
			{name: c, image: "@IMAGE", args: [env, DEMO_GREETING, --, print, $(GREETING) $(HONORIFIC) $(NAME)],
				env: [{name: DEMO_GREETING, value: Hello from the environment}, {name: GREETING, value: Warm greetings to}, {name: HONORIFIC, value: The Most Honorable}, {name: NAME, value: Kubernetes}]}]}}`,
		log: []string{"DEMO_GREETING=Hello from the environment", "Warm greetings to The Most Honorable Kubernetes"},
	},
	{
		page: "tasks/inject-data-application/environment-variable-expose-pod-information#use-container-fields",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: "@NAME"}, spec: {restartPolicy: Never, containers: [{name: c, image: "@IMAGE",
			args: [env, REQUEST, --, env, LIMIT, --, env, MEMORY, --, env, MOST],
			resources: {requests: {memory: 32Mi, cpu: 125m}, limits: {memory: 64Mi, cpu: 250m}},
			env: [{name: REQUEST, valueFrom: {resourceFieldRef: {containerName: c, resource: requests.cpu}}}, {name: LIMIT, valueFrom: {resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}},
				{name: MEMORY, valueFrom: {resourceFieldRef: {containerName: c, resource: requests.memory}}}, {name: MOST, valueFrom: {resourceFieldRef: {containerName: c, resource: limits.memory}}}]}]}}`,
		flags: []string{"--limits", "off"},
		log:   []string{"REQUEST=1\n", "LIMIT=250", "MEMORY=33554432", "MOST=67108864"},
	},
}
