package compose

import (
	"cmp"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/lazy"
)

// composeMember is what becomes of a member of a Compose file.
type composeMember struct {
	members.Row
	// told: the conversion says itself whether something is lost, because that depends on the value.
	told bool
}

// Members returns what becomes of the members of a Compose file, in the order of their names.
func Members() members.Format {
	f := members.Format{Name: "compose", Title: "Compose files", Schema: "compose-go v2.16.2"}
	for _, m := range composeMembers() {
		f.Rows = append(f.Rows, m.Row)
	}
	slices.SortFunc(f.Rows, func(a, b members.Row) int { return cmp.Compare(a.Member, b.Member) })
	return f
}

// composeRow returns what becomes of a member: its own row, or that of the closest member above it that is not honored.
func composeRow(path string) (composeMember, bool) {
	for i := range path {
		if path[i] == '.' {
			if m, ok := composeMembers()[path[:i]]; ok && m.Treatment != members.Honored {
				return m, true
			}
		}
	}
	m, ok := composeMembers()[path]
	return m, ok
}

// composeMembers are the members by their paths, without the names that a user gives: services.deploy.replicas.
var composeMembers = composeTable(
	composeRows(members.Honored, "",
		"name", "services", "volumes", "secrets", "configs",
		"services.cap_add", "services.cap_drop", "services.command", "services.configs", "services.cpu_shares", "services.cpus", "services.depends_on",
		"services.depends_on.condition", "services.depends_on.required", "services.deploy", "services.deploy.replicas", "services.deploy.resources",
		"services.deploy.resources.limits", "services.deploy.resources.limits.cpus", "services.deploy.resources.limits.memory", "services.deploy.resources.reservations",
		"services.deploy.resources.reservations.cpus", "services.deploy.resources.reservations.memory", "services.deploy.restart_policy",
		"services.deploy.restart_policy.condition", "services.deploy.restart_policy.max_attempts", "services.dns", "services.dns_search", "services.entrypoint",
		"services.env_file", "services.env_file.path", "services.env_file.required", "services.env_file.format", "services.environment", "services.extends",
		"services.healthcheck", "services.healthcheck.disable", "services.healthcheck.test", "services.hostname", "services.image", "services.init", "services.label_file",
		"services.labels", "services.logging", "services.logging.driver", "services.mem_limit", "services.mem_reservation", "services.networks", "services.networks.aliases",
		"services.ports", "services.ports.host_ip", "services.ports.protocol", "services.ports.published", "services.ports.target", "services.pre_start", "services.privileged",
		"services.profiles", "services.read_only", "services.restart", "services.scale", "services.secrets", "services.secrets.source", "services.secrets.target",
		"services.configs.source", "services.configs.target", "services.shm_size", "services.stdin_open", "services.stop_grace_period", "services.stop_signal", "services.sysctls", "services.tmpfs",
		"services.tty", "services.ulimits", "services.ulimits.hard", "services.ulimits.single", "services.ulimits.soft", "services.user", "services.volumes", "services.volumes.bind",
		"services.volumes.bind.selinux", "services.volumes.read_only", "services.volumes.source", "services.volumes.target",
		"services.volumes.tmpfs", "services.volumes.tmpfs.size", "services.volumes.volume", "services.volumes_from", "services.working_dir",
		"volumes.driver_opts", "volumes.external", "volumes.labels", "volumes.name", "secrets.external", "secrets.file", "secrets.name", "configs.content", "configs.environment",
		"configs.file",
	),
	composeRows(members.NoMeaning, "it is about the command line of Compose, or about building", "services.attach", "services.develop", "services.expose"),
	composeRows(members.NoMeaning, "the containers of a task reach all ports of each other", "services.ports.mode", "services.ports.name", "services.ports.app_protocol"),
	composeRows(members.NoMeaning, "names of YAML that Compose has resolved", "services.name"),
	composeRows(members.NoMeaning, "a mount is as consistent as the host's file system", "services.volumes.consistency"),
	toldRow("services.build", members.Refused, "podtask builds no images: a service needs `image`", "`podman build -t localhost/NAME DIR`, and write `image: localhost/NAME`"),
	toldRow("services.provider", members.Refused, "a program of another maker creates it", "write what it gives to the other services into their environment"),
	toldRow("services.models", members.Lost, "no model is served", "run a server of models as a service, and write its address and the name of the model into the environment"),
	toldRow("models", members.Lost, "no model is served", "see `services.models`"),
	toldRow("networks", members.Lost, "the containers of a task share one network", "`podtask service create --namespace` reaches others by name"),
	toldRow("services.network_mode", members.Lost, "`host`, `none` and one shared network are honored; another mode is lost", ""),
	toldRow("services.container_name", members.Lost, "its name in Podman has the ID of the task; other containers know it by both names", ""),
	toldRow("services.security_opt", members.Lost, "`no-new-privileges` and `label` are honored", ""),
	toldRow("services.devices", members.Lost, "paths are honored; devices of CDI are lost", "`gpus`"),
	toldRow("services.gpus", members.Lost, "a number of GPUs is honored; IDs, drivers and options are lost", "write `count`"),
	toldRow("services.deploy.resources.reservations.devices", members.Lost, "a number of GPUs is honored; other devices are lost", "write `count`"),
	toldRow("services.memswap_limit", members.Lost, "it needs `mem_limit`", ""),
	toldRow("services.links", members.Lost, "aliases are honored where another container starts later", ""),
	toldRow("services.extra_hosts", members.Lost, "`host-gateway` under another name than `host.docker.internal`", "use that name"),
	toldRow("services.logging.options", members.Lost, "options that the driver does not have here", ""),
	toldRow("services.pids_limit", members.Lost, "a task has one limit for all containers: the sum, if all services have one", "`--pids-limit`, or `TasksMax=` in `[Task]`"),
	toldRow("services.deploy.resources.limits.pids", members.Lost, "as `services.pids_limit`", ""),
	toldRow("services.pre_start.per_replica", members.NoMeaning, "each copy of a task runs its hooks; without it a line says so", ""),
	toldRow("services.healthcheck.interval", members.Lost, "values outside of 5 to 300 s become the closest one; lost without `test`", ""),
	toldRow("services.healthcheck.timeout", members.Lost, "values outside of 2 to 60 s become the closest one; lost without `test`", ""),
	toldRow("services.healthcheck.retries", members.Lost, "values outside of 1 to 10 become the closest one; lost without `test`", ""),
	toldRow("services.healthcheck.start_period", members.Lost, "values outside of 0 to 300 s become the closest one; lost without `test`", ""),
	toldRow("services.volumes.type", members.Lost, "`bind`, `volume` and `tmpfs` are honored", "put the files into an image, or mount a directory"),
	toldRow("services.volumes.bind.create_host_path", members.Lost, "with `false`: a directory that is not there is made", "make it before the task starts"),
	toldRow("services.secrets.uid", members.Lost, "lost for a file that other users can read, which is mounted as it is", "`chmod 600` of the file"),
	toldRow("services.secrets.gid", members.Lost, "as `services.secrets.uid`", ""),
	toldRow("services.secrets.mode", members.Lost, "as `services.secrets.uid`", ""),
	toldRow("services.configs.uid", members.Lost, "lost for a config of a file, which is mounted as it is", ""),
	toldRow("services.configs.gid", members.Lost, "as `services.configs.uid`", ""),
	toldRow("services.configs.mode", members.Lost, "as `services.configs.uid`", ""),
	toldRow("configs.external", members.Lost, "Podman has no configs", "write it to a file, and declare it with `file`"),
	composeRows(members.NoMeaning, "the name of a config is that in the file", "configs.name"),
	toldRow("secrets.environment", members.Needed, "a value of `.env` is written beside the definition; a variable of the environment alone is read at each start, and units and services do not have it", "write it to a file with mode 0600"),
	lostRow("volumes.driver", "Podman's own driver makes the volume", "create it with `podman volume create --driver`, and declare it `external`"),
	lostRow("services.volumes.image", "no file system of an image can be mounted", "put the files into the image of the service, or mount a directory"),
	lostRow("services.volumes.bind.propagation", "mounts that are made later are not seen on the other side", ""),
	lostRow("services.volumes.bind.recursive", "mounts below the directory come with it", ""),
	lostRow("services.volumes.volume.nocopy", "a new volume begins with the files of the image", ""),
	lostRow("services.volumes.volume.subpath", "the whole volume is mounted", "mount a directory of the host"),
	lostRow("services.volumes.volume.labels", "labels of a volume without a name", "give the volume a name"),
	lostRow("services.volumes.tmpfs.mode", "a tmpfs has mode 1777", "write `tmpfs: PATH:mode=0755`"),
	lostRow("services.healthcheck.start_interval", "the check runs at `interval` from the start", "shorten `interval`, from 5 s"),
	lostRow("services.depends_on.restart", "a container is not restarted because one that it depends on was", "`podtask restart` restarts the whole task, `watchDependencies` in `x-podtask` stops it when a dependency is lost"),
	lostRow("services.post_start", "nothing is run in a container after its start", "put it into the entrypoint, or run `podtask exec`"),
	lostRow("services.pre_stop", "nothing is run in a container before it is stopped", "let the program do it when it gets SIGTERM"),
	lostRow("services.platform", "the image of this host's platform is taken", "name an image of the platform by its digest, or write `runtimePlatform` to refuse other hosts"),
	lostRow("services.pull_policy", "it belongs to the run, not to the definition", "give `--pull always`, `prefer-cached` or `never`, or `Pull=` in `[Task]`"),
	lostRow("services.pull_refresh_after", "it belongs to the run, not to the definition", "give `--pull always`, or `Pull=` in `[Task]`"),
	lostRow("services.runtime", "Podman's own runtime runs all containers", "set `runtime` in containers.conf"),
	lostRow("services.userns_mode", "all containers of a task share the user namespace of its user, in which root is that user", "run it as another user"),
	lostRow("services.cgroup_parent", "podtask makes a slice for each task", "`--memory`, `--cpus` and `--pids-limit` limit it"),
	lostRow("services.cgroup", "each container has a cgroup namespace of its own", ""),
	lostRow("services.isolation", "it is for containers of Windows", "leave it out"),
	lostRow("services.annotations", "they are for runtimes of OCI", "use `labels` for what people and programs read"),
	lostRow("services.blkio_config", "there are no limits of input and output", "set `IOWeight=` and the like in the unit of podtask"),
	lostRow("services.cpu_count", "it is for containers of Windows", "`cpus`"),
	lostRow("services.cpu_percent", "it is for containers of Windows", "`cpus`"),
	lostRow("services.cpu_period", "a limit of CPUs has one period for the task", "`cpus`, and `--cpu-period`"),
	lostRow("services.cpu_quota", "a limit of CPUs is written as a number of them", "`cpus`: the quota divided by the period"),
	lostRow("services.cpu_rt_period", "there is no realtime scheduling without root", ""),
	lostRow("services.cpu_rt_runtime", "there is no realtime scheduling without root", ""),
	lostRow("services.cpuset", "containers are not bound to CPUs", "set `AllowedCPUs=` for the slice of the user"),
	lostRow("services.credential_spec", "it is for containers of Windows", "leave it out"),
	lostRow("services.device_cgroup_rules", "devices are named one by one", "`devices`"),
	lostRow("services.dns_opt", "a definition has servers and search domains only", "`dns`, `dns_search`"),
	lostRow("services.domainname", "a host name has one part", "write the whole name as `hostname`"),
	lostRow("services.external_links", "containers of other projects are not in the task", "reach them by a published port, or by a name of `--namespace`"),
	lostRow("services.group_add", "a container has the groups of its image", "write `user: UID:GID`"),
	toldRow("services.ipc", members.Lost, "`host` in all services is honored; else each container has its own shared memory", "write `ipcMode`, `task` or `host`, into the definition: it is for all containers"),
	lostRow("services.log_driver", "`logging` replaced it", "write `logging: {driver: ...}`"),
	lostRow("services.log_opt", "`logging` replaced it", "write `logging: {options: ...}`"),
	lostRow("services.mac_address", "Podman chooses it", ""),
	lostRow("services.mem_swappiness", "a container has that of the host", ""),
	lostRow("services.net", "`network_mode` replaced it", "write `network_mode`"),
	lostRow("services.oom_kill_disable", "the kernel ends what exceeds its limit", "leave `mem_limit` out"),
	lostRow("services.oom_score_adj", "it is that of the user's processes", "set `OOMScoreAdjust=` in the unit"),
	toldRow("services.pid", members.Lost, "`host` in all services is honored; else each container sees its own processes", "write `pidMode`, `task` or `host`, into the definition: it is for all containers"),
	lostRow("services.storage_opt", "it is for storage drivers of Docker", ""),
	lostRow("services.umask", "a container has umask 0022", "let the entrypoint set it"),
	lostRow("services.use_api_socket", "the socket of the engine is not given to containers", "mount it with `volumes`"),
	lostRow("services.uts", "each container has its own host name", "`hostname`"),
	lostRow("services.volume_driver", "Podman's own driver makes volumes", "declare them `external`"),
	lostRow("services.dockerfile", "podtask builds no images", "`podman build`"),
	lostRow("services.deploy.mode", "a task runs once on this host", "`podtask service create --count`"),
	lostRow("services.deploy.labels", "labels of the service: a task has none of its own", "write them as `labels` of the service"),
	lostRow("services.deploy.update_config", "a task is replaced at once", "`podtask service create` has `--min-healthy`, `--max` and strategies"),
	lostRow("services.deploy.rollback_config", "a task is replaced at once", "`podtask service create` has `--min-healthy`, `--max` and strategies"),
	lostRow("services.deploy.placement", "all tasks run on this host", ""),
	lostRow("services.deploy.endpoint_mode", "a service forwards connections itself", ""),
	lostRow("services.deploy.restart_policy.delay", "the pauses between restarts begin with a second and double", ""),
	lostRow("services.deploy.restart_policy.window", "a container that has run for a minute counts as started", ""),
	lostRow("services.deploy.resources.limits.devices", "devices are reserved, not limited", "`reservations`"),
	lostRow("services.deploy.resources.limits.generic_resources", "there are no resources of Swarm", ""),
	lostRow("services.deploy.resources.reservations.pids", "processes are limited, not reserved", "`limits`"),
	lostRow("services.deploy.resources.reservations.generic_resources", "there are no resources of Swarm", ""),
	lostRow("jobs", "jobs of the file are not converted", "write each as a service of a file of its own, import that, and `podtask schedule create NAME FILE --at TIME`"),
	lostRow("services.networks.use_service_name_alias", "each container is known by the name of its service", ""),
	lostRow("services.networks.driver_opts", "the containers of a task share one network", ""),
	lostRow("services.networks.gw_priority", "the containers of a task share one network", ""),
	lostRow("services.networks.interface_name", "the containers of a task share one network", ""),
	lostRow("services.networks.ipv4_address", "addresses are given out at each start", "use the name of the service"),
	lostRow("services.networks.ipv6_address", "addresses are given out at each start", "use the name of the service"),
	lostRow("services.networks.link_local_ips", "addresses are given out at each start", "use the name of the service"),
	lostRow("services.networks.mac_address", "Podman chooses it", ""),
	lostRow("services.networks.priority", "the containers of a task share one network", ""),
	lostRow("secrets.driver", "secrets are Podman's", "`podman secret create`, and declare it `external`"),
	lostRow("secrets.driver_opts", "secrets are Podman's", ""),
	lostRow("secrets.labels", "the secret is read from where it is", ""),
	lostRow("secrets.template_driver", "no template is filled in", ""),
	lostRow("secrets.content", "a secret in the file itself", "write it to a file with mode 0600, and declare it with `file`"),
	lostRow("configs.driver", "configs are files", ""),
	lostRow("configs.driver_opts", "configs are files", ""),
	lostRow("configs.labels", "configs are files", ""),
	lostRow("configs.template_driver", "no template is filled in", "write the file as it is to be"),
)

// composeTable returns rows by their paths, which are put in order at the first call.
func composeTable(parts ...[]composeMember) func() map[string]composeMember {
	return lazy.Value(func() map[string]composeMember {
		all := map[string]composeMember{}
		for _, m := range slices.Concat(parts...) {
			if _, twice := all[m.Member]; twice {
				panic("two rows of " + m.Member)
			}
			all[m.Member] = m
		}
		return all
	})
}

func composeRows(t members.Treatment, note string, names ...string) (all []composeMember) {
	for _, name := range names {
		all = append(all, composeMember{Row: members.Row{Member: name, Treatment: t, Note: note}})
	}
	return all
}

// lostRow is a member of which nothing is left.
func lostRow(name, note, remedy string) []composeMember {
	return []composeMember{{Row: members.Row{Member: name, Treatment: members.Lost, Note: note, Remedy: remedy}}}
}

// toldRow is a member about which the conversion itself says what is lost.
func toldRow(name string, t members.Treatment, note, remedy string) []composeMember {
	m := composeMember{Row: members.Row{Member: name, Treatment: t, Note: note, Remedy: remedy}, told: true}
	m.Note = strings.TrimSpace(m.Note)
	return []composeMember{m}
}
