package compose

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/members"
	"go.yaml.in/yaml/v3"
)

// schemaOf returns the members of a type of compose-go by their paths, with their types. What is below a member with a
// decision that is not honored shares it.
func schemaOf(t reflect.Type, in string, seen map[reflect.Type]bool, add func(path string, t reflect.Type)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return
	}
	seen[t] = true
	defer delete(seen, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && options == "inline":
			schemaOf(f.Type, in, seen, add)
		case f.IsExported() && tag != "" && tag != "-" && tag[0] != '#':
			path := strings.TrimPrefix(in+"."+tag, ".")
			add(path, f.Type)
			if m, ok := composeRow(path); ok && m.Treatment != members.Honored || path == "services.pre_start" || path == "services.extends" || strings.HasPrefix(path, "services.logging.") {
				continue // a hook has the members of a service
			}
			schemaOf(f.Type, path, seen, add)
		}
	}
}

func TestEveryMemberOfComposeHasARow(t *testing.T) {
	t.Parallel()
	var schema []string
	schemaOf(reflect.TypeFor[types.Project](), "", map[reflect.Type]bool{}, func(path string, _ reflect.Type) { schema = append(schema, path) })
	rows := Members().Rows
	var without []string
	for _, path := range schema {
		if _, ok := composeRow(path); !ok {
			without = append(without, path)
		}
	}
	if len(without) > 0 {
		t.Errorf("members without a row:\n%s", strings.Join(without, "\n"))
	}
	for _, r := range rows {
		if !slices.Contains(schema, r.Member) && r.Member != "services.pre_start.per_replica" {
			t.Errorf("%s is no member of Compose", r.Member)
		}
		if r.Note == "" && r.Treatment != members.Honored {
			t.Errorf("%s has no reason", r.Member)
		}
	}
	counts := Members().Counts()
	t.Logf("%d members: %d honored, %d without a meaning, %d needed, %d lost, %d refused", len(rows), counts[members.Honored], counts[members.NoMeaning], counts[members.Needed], counts[members.Lost], counts[members.Refused])
}

// example is a value of a type that is not its default, as YAML; nil for none.
func example(t reflect.Type, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[types.Duration]():
		return "7s"
	case reflect.TypeFor[types.UnitBytes]():
		return "64m"
	case reflect.TypeFor[types.Mapping](), reflect.TypeFor[types.MappingWithEquals](), reflect.TypeFor[types.Labels](), reflect.TypeFor[types.Options](), reflect.TypeFor[types.HostsList]():
		return map[string]any{"a": "b"}
	case reflect.TypeFor[types.StringOrNumberList]():
		return []any{"7000"}
	case reflect.TypeFor[types.DeviceCount]():
		return 1
	}
	switch t.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return "a"
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Uint16, reflect.Int32:
		return 3
	case reflect.Slice:
		return []any{example(t.Elem(), depth+1)}
	case reflect.Map:
		return map[string]any{"a": example(t.Elem(), depth+1)}
	case reflect.Struct:
		return map[string]any{}
	}
	return nil
}

// examples are values of members for which that of their type is not legal, or needs others besides it, by paths of the
// file. A service a is there always.
var examples = map[string]string{
	"services.build":                                     "{services: {a: {build: .}}}",
	"services.provider":                                  "{services: {b: {provider: {type: x}}}}",
	"services.models":                                    "{services: {a: {models: {m: {}}}}, models: {m: {model: x}}}",
	"models":                                             "{services: {a: {models: [m]}}, models: {m: {model: x}}}",
	"networks":                                           "{networks: {n: {}}, services: {a: {networks: [n]}}}",
	"services.networks":                                  "{networks: {n: {}}, services: {a: {networks: [n]}}}",
	"services.network_mode":                              "{services: {b: {image: b, network_mode: none}}}",
	"services.depends_on":                                "{services: {a: {depends_on: [b]}, b: {image: b}}}",
	"services.depends_on.condition":                      "{services: {a: {depends_on: {b: {condition: service_completed_successfully}}}, b: {image: b}}}",
	"services.depends_on.restart":                        "{services: {a: {depends_on: {b: {condition: service_started, restart: true}}}, b: {image: b}}}",
	"services.depends_on.required":                       "{services: {a: {depends_on: {b: {condition: service_started, required: false}}}, b: {image: b}}}",
	"services.links":                                     "{services: {a: {links: ['b:c']}, b: {image: b}}}",
	"services.external_links":                            "{services: {a: {external_links: ['b:c']}}}",
	"services.volumes_from":                              "{services: {a: {volumes_from: [b]}, b: {image: b}}}",
	"services.volumes":                                   "{services: {a: {volumes: ['/srv:/srv']}}}",
	"services.volumes.type":                              "{services: {a: {volumes: [{type: npipe, source: x, target: /x}]}}}",
	"services.volumes.image":                             "{services: {a: {volumes: [{type: image, source: x, target: /x, image: {subpath: y}}]}}}",
	"services.secrets":                                   "{services: {a: {secrets: [s]}}, secrets: {s: {external: true}}}",
	"services.secrets.uid":                               "{services: {a: {secrets: [{source: s, uid: '3'}]}}, secrets: {s: {external: true}}}",
	"services.secrets.gid":                               "{services: {a: {secrets: [{source: s, gid: '3'}]}}, secrets: {s: {external: true}}}",
	"services.secrets.mode":                              "{services: {a: {secrets: [{source: s, mode: 0400}]}}, secrets: {s: {external: true}}}",
	"services.secrets.source":                            "{services: {a: {secrets: [{source: s}]}}, secrets: {s: {external: true}}}",
	"services.secrets.target":                            "{services: {a: {secrets: [{source: s, target: t}]}}, secrets: {s: {external: true}}}",
	"services.configs":                                   "{services: {a: {configs: [s]}}, configs: {s: {content: x}}}",
	"services.configs.source":                            "{services: {a: {configs: [{source: s}]}}, configs: {s: {content: x}}}",
	"services.configs.target":                            "{services: {a: {configs: [{source: s, target: /t}]}}, configs: {s: {content: x}}}",
	"services.configs.uid":                               "{services: {a: {configs: [{source: s, uid: '3'}]}}, configs: {s: {content: x}}}",
	"services.configs.gid":                               "{services: {a: {configs: [{source: s, gid: '3'}]}}, configs: {s: {content: x}}}",
	"services.configs.mode":                              "{services: {a: {configs: [{source: s, mode: 0400}]}}, configs: {s: {content: x}}}",
	"services.pre_start":                                 "{services: {a: {pre_start: [{command: [x]}]}}}",
	"services.post_start":                                "{services: {a: {post_start: [{command: [x]}]}}}",
	"services.pre_stop":                                  "{services: {a: {pre_stop: [{command: [x]}]}}}",
	"services.logging.driver":                            "{services: {a: {logging: {driver: gelf, options: {gelf-address: 'udp://127.0.0.1:12201'}}}}}",
	"services.logging.options":                           "{services: {a: {logging: {driver: json-file, options: {max-file: '3'}}}}}",
	"services.logging":                                   "{services: {a: {logging: {driver: journald}}}}",
	"services.ports":                                     "{services: {a: {ports: ['80']}}}",
	"services.ports.host_ip":                             "{services: {a: {ports: ['127.0.0.1:80:80']}}}",
	"services.ports.protocol":                            "{services: {a: {ports: ['80/udp']}}}",
	"services.ports.published":                           "{services: {a: {ports: ['8080:80']}}}",
	"services.ports.target":                              "{services: {a: {ports: ['81']}}}",
	"services.devices":                                   "{services: {a: {devices: ['/dev/fuse']}}}",
	"services.dns":                                       "{services: {a: {dns: [1.1.1.1]}}}",
	"services.extra_hosts":                               "{services: {a: {extra_hosts: ['a:1.2.3.4']}}}",
	"services.gpus":                                      "{services: {a: {gpus: [{count: 1}]}}}",
	"services.deploy.resources.reservations.devices":     "{services: {a: {deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 1}]}}}}}}",
	"services.deploy.resources.limits.devices":           "{services: {a: {deploy: {resources: {limits: {devices: [{capabilities: [gpu], count: 1}]}}}}}}",
	"services.deploy.restart_policy":                     "{services: {a: {deploy: {restart_policy: {condition: any}}}}}",
	"services.deploy.restart_policy.condition":           "{services: {a: {deploy: {restart_policy: {condition: on-failure}}}}}",
	"services.deploy.restart_policy.max_attempts":        "{services: {a: {deploy: {restart_policy: {max_attempts: 3}}}}}",
	"services.deploy.mode":                               "{services: {a: {deploy: {mode: global}}}}",
	"services.deploy.placement":                          "{services: {a: {deploy: {placement: {constraints: ['node.role==manager']}}}}}",
	"services.deploy.update_config":                      "{services: {a: {deploy: {update_config: {parallelism: 2}}}}}",
	"services.deploy.rollback_config":                    "{services: {a: {deploy: {rollback_config: {parallelism: 2}}}}}",
	"services.deploy.resources.limits.cpus":              "{services: {a: {deploy: {resources: {limits: {cpus: '0.5'}}}}}}",
	"services.deploy.resources.reservations.cpus":        "{services: {a: {deploy: {resources: {reservations: {cpus: '0.5'}}}}}}",
	"services.cpus":                                      "{services: {a: {cpus: 0.5}}}",
	"services.memswap_limit":                             "{services: {a: {memswap_limit: 64m}}}",
	"services.restart":                                   "{services: {a: {restart: always}}}",
	"services.security_opt":                              "{services: {a: {security_opt: [no-new-privileges]}}}",
	"services.sysctls":                                   "{services: {a: {sysctls: {net.core.somaxconn: '1024'}}}}",
	"services.tmpfs":                                     "{services: {a: {tmpfs: [/t]}}}",
	"services.ulimits":                                   "{services: {a: {ulimits: {nofile: 512}}}}",
	"services.ulimits.soft":                              "{services: {a: {ulimits: {nofile: {soft: 5, hard: 6}}}}}",
	"services.ulimits.hard":                              "{services: {a: {ulimits: {nofile: {soft: 5, hard: 7}}}}}",
	"services.healthcheck":                               "{services: {a: {healthcheck: {test: [CMD, x]}}}}",
	"services.healthcheck.test":                          "{services: {a: {healthcheck: {test: [CMD, y]}}}}",
	"services.healthcheck.interval":                      "{services: {a: {healthcheck: {test: [CMD, x], interval: 7s}}}}",
	"services.healthcheck.timeout":                       "{services: {a: {healthcheck: {test: [CMD, x], timeout: 7s}}}}",
	"services.healthcheck.retries":                       "{services: {a: {healthcheck: {test: [CMD, x], retries: 7}}}}",
	"services.healthcheck.start_period":                  "{services: {a: {healthcheck: {test: [CMD, x], start_period: 7s}}}}",
	"services.healthcheck.start_interval":                "{services: {a: {healthcheck: {test: [CMD, x], start_period: 7s, start_interval: 1s}}}}",
	"services.healthcheck.disable":                       "{services: {a: {depends_on: {b: {condition: service_started}}}, b: {image: b, healthcheck: {disable: true}}}}",
	"services.pull_policy":                               "{services: {a: {pull_policy: always}}}",
	"services.blkio_config":                              "{services: {a: {blkio_config: {weight: 300}}}}",
	"services.credential_spec":                           "{services: {a: {credential_spec: {file: x.json}}}}",
	"services.cgroup":                                    "{services: {a: {cgroup: host}}}",
	"services.storage_opt":                               "{services: {a: {storage_opt: {size: 1G}}}}",
	"services.env_file":                                  "{services: {a: {env_file: x.env}}}",
	"services.env_file.path":                             "{services: {a: {env_file: [{path: x.env}]}}}",
	"services.env_file.required":                         "{services: {a: {env_file: [{path: none.env, required: false}, x.env]}}}",
	"services.env_file.format":                           "{services: {a: {env_file: [{path: q.env, format: raw}]}}}",
	"services.label_file":                                "{services: {a: {label_file: [x.env]}}}",
	"services.scale":                                     "{services: {a: {scale: 2}}}",
	"services.deploy.replicas":                           "{services: {a: {deploy: {replicas: 2}}}}",
	"services.pull_refresh_after":                        "{services: {a: {pull_policy: every_12h}}}",
	"services.userns_mode":                               "{services: {a: {userns_mode: host}}}",
	"services.platform":                                  "{services: {a: {platform: linux/arm64}}}",
	"services.expose":                                    "{services: {a: {expose: ['80']}}}",
	"services.mac_address":                               "{services: {a: {mac_address: '02:42:ac:11:65:43'}}}",
	"services.extends":                                   "{services: {a: {extends: {service: b}}, b: {image: b, working_dir: /x}}}",
	"services.profiles":                                  "{services: {b: {image: b, profiles: [x]}}}",
	"volumes":                                            "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {}}}",
	"volumes.name":                                       "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {name: other}}}",
	"volumes.external":                                   "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {external: true}}}",
	"volumes.driver":                                     "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {driver: x}}}",
	"volumes.driver_opts":                                "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {driver_opts: {type: tmpfs}}}}",
	"volumes.labels":                                     "{services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {labels: {x: y}}}}",
	"secrets":                                            "{services: {a: {secrets: [s]}}, secrets: {s: {file: s.txt}}}",
	"secrets.file":                                       "{services: {a: {secrets: [s]}}, secrets: {s: {file: s.txt}}}",
	"secrets.environment":                                "{services: {a: {secrets: [s]}}, secrets: {s: {environment: X}}}",
	"secrets.external":                                   "{services: {a: {secrets: [s]}}, secrets: {s: {external: true}}}",
	"secrets.name":                                       "{services: {a: {secrets: [s]}}, secrets: {s: {external: true, name: x}}}",
	"configs":                                            "{services: {a: {configs: [s]}}, configs: {s: {content: x}}}",
	"configs.content":                                    "{services: {a: {configs: [s]}}, configs: {s: {content: y}}}",
	"configs.file":                                       "{services: {a: {configs: [s]}}, configs: {s: {file: x.env}}}",
	"configs.environment":                                "{services: {a: {configs: [s]}}, configs: {s: {environment: X}}}",
	"configs.external":                                   "{services: {a: {configs: [s]}}, configs: {s: {external: true}}}",
	"jobs":                                               "{jobs: {j: {image: b, triggers: {manual: true}}}}",
	"services.ulimits.single":                            "{services: {a: {ulimits: {nofile: 512}}}}",
	"services.cap_add":                                   "{services: {a: {cap_add: [NET_ADMIN]}}}",
	"services.cap_drop":                                  "{services: {a: {cap_drop: [ALL]}}}",
	"services.working_dir":                               "{services: {a: {working_dir: /x}}}",
	"services.container_name":                            "{services: {a: {container_name: other}}}",
	"services.networks.aliases":                          "{services: {a: {networks: {default: {aliases: [other]}}}}}",
	"services.volumes.bind.create_host_path":             "{services: {a: {volumes: [{type: bind, source: /srv, target: /x, bind: {create_host_path: false}}]}}}",
	"services.volumes.bind.recursive":                    "{services: {a: {volumes: [{type: bind, source: /srv, target: /x, bind: {recursive: disabled}}]}}}",
	"services.volumes.bind.selinux":                      "{services: {a: {volumes: [{type: bind, source: /srv, target: /x, bind: {selinux: z}}]}}}",
	"services.image":                                     "{services: {a: {image: other}}}",
	"services.deploy.endpoint_mode":                      "{services: {a: {deploy: {endpoint_mode: vip}}}}",
	"services.deploy.resources.limits.pids":              "{services: {a: {deploy: {resources: {limits: {pids: 7}}}}}}",
	"services.deploy.resources.limits.generic_resources": "{}",
	"services.oom_score_adj":                             "{services: {a: {oom_score_adj: 100}}}",
	"services.group_add":                                 "{services: {a: {group_add: ['5']}}}",
	"name":                                               "{name: other, services: {a: {volumes: ['vol:/v']}}, volumes: {vol: {}}}",
}

// noForm are members that no file of the schema can set: they are of older versions of Compose.
var noForm = []string{
	"services.name", "services.net", "services.log_driver", "services.log_opt", "services.dockerfile", "services.volume_driver", "services.deploy.resources.reservations.pids",
	"services.deploy.resources.limits.generic_resources", "services.deploy.resources.limits.devices", "secrets.content", "services.pull_refresh_after", "configs.driver", "configs.driver_opts",
}

// setAlone returns a file in which one member is set.
func setAlone(path string, t reflect.Type) string {
	if text, ok := examples[path]; ok {
		return text
	}
	value := example(t, 0)
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i > 0; i-- {
		value = map[string]any{parts[i]: value}
		switch strings.Join(parts[:i], ".") {
		case "services":
			value = map[string]any{"a": value}
		case "services.networks":
			value = map[string]any{"default": value.(map[string]any)}
		case "services.volumes":
			m := value.(map[string]any)
			m["target"], m["type"], m["source"] = "/x", "volume", "vol"
			for _, kind := range []string{"bind", "tmpfs"} {
				if m[kind] != nil {
					m["type"], m["source"] = kind, "/srv"
				}
			}
			if m["type"] == "tmpfs" {
				delete(m, "source")
			}
			value = []any{m}
		case "services.ports":
			m := value.(map[string]any)
			m["target"] = 80
			value = []any{m}
		case "volumes", "secrets", "configs":
			m := value.(map[string]any)
			if parts[0] != "volumes" {
				m["file"] = "s.txt"
			}
			value = map[string]any{"s": m}
		}
	}
	text, _ := yaml.Marshal(map[string]any{parts[0]: value})
	return string(text)
}

// outcome is all that the user sees of an import, with what it says of each member.
func outcome(t *testing.T, dir, text string) string {
	t.Helper()
	var base, more map[string]any
	if err := yaml.Unmarshal([]byte("{services: {a: {image: a}}, volumes: {vol: {}}}"), &base); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		t.Fatal(text, err)
	}
	overlay(base, more)
	src, err := yaml.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Convert(filepath.Join(dir, "compose.yaml"), "shop", src, Options{Load: composefile.Load})
	if err != nil {
		return "refused: " + err.Error()
	}
	r.Lost = slices.Clone(r.Lost)
	for i, l := range r.Lost { // lines differ
		_, r.Lost[i], _ = strings.Cut(l, ": ")
	}
	return fmt.Sprintf("%s\n%s\n%q\n%q\n%v\n%d %q %q", r.Definition, r.Unit, r.Lost, r.Needs, r.Files, r.Copies, r.Listen, r.RunFlags)
}

func overlay(base, more map[string]any) {
	for key, value := range more {
		have, ok := base[key].(map[string]any)
		with, both := value.(map[string]any)
		if ok && both {
			overlay(have, with)
		} else {
			base[key] = value
		}
	}
}

// quiet are members that say what is so without them, in their examples.
var quiet = []string{"services.depends_on.required"}

// leaveOut returns a file without a member; false if the file has it not, or in a short form.
func leaveOut(text, path string) (rest string, ok bool) {
	var all map[string]any
	if yaml.Unmarshal([]byte(text), &all) != nil {
		return "", false
	}
	var remove func(n any, parts []string)
	remove = func(n any, parts []string) {
		switch n := n.(type) {
		case []any:
			for _, item := range n {
				remove(item, parts)
			}
		case map[string]any:
			below, there := n[parts[0]]
			switch {
			case !there: // the names of a user
				for _, v := range n {
					remove(v, parts)
				}
			case len(parts) == 1:
				delete(n, parts[0])
				ok = true
			default:
				remove(below, parts[1:])
			}
		}
	}
	if parts := strings.Split(path, "."); len(parts) > 1 {
		remove(all, parts)
	}
	out, err := yaml.Marshal(all)
	return string(out), ok && err == nil
}

// Each member is set alone to a value that is not its default: it changes what comes out, is listed or is refused.
func TestNoMemberOfComposeIsIgnoredInSilence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"x.env": "X=1\n", "q.env": "X='q'\n", "s.txt": "s"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type member struct {
		path string
		t    reflect.Type
	}
	var all []member
	schemaOf(reflect.TypeFor[types.Project](), "", map[reflect.Type]bool{}, func(path string, t reflect.Type) { all = append(all, member{path, t}) })
	seed := rand.Uint64()
	t.Logf("seed %d, %d members", seed, len(all))
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	nothing := outcome(t, dir, "{}")
	for _, m := range all {
		row, _ := composeRow(m.path)
		isPart := m.t.Kind() == reflect.Struct || m.t.Kind() == reflect.Pointer && m.t.Elem().Kind() == reflect.Struct
		if row.Treatment == members.NoMeaning || slices.Contains(noForm, m.path) || m.path == "services" || isPart && examples[m.path] == "" {
			continue
		}
		text := setAlone(m.path, m.t)
		got := outcome(t, dir, text)
		if rest, ok := leaveOut(text, m.path); ok && row.Treatment == members.Honored && !slices.Contains(quiet, m.path) && outcome(t, dir, rest) == got {
			t.Errorf("%s is honored, and without it comes the same:\n%s", m.path, text)
		}
		if got == nothing {
			t.Errorf("%s is %s, and nothing is said or done about it:\n%s", m.path, row.Treatment, text)
		}
		if strings.HasPrefix(got, "refused: ") && row.Treatment != members.Refused {
			t.Errorf("%s is %s, but refused:\n%s\n%s", m.path, row.Treatment, text, got)
		}
		if row.Treatment == members.Lost && !row.told && !strings.Contains(got, members.Plain(row.Note)) && !strings.Contains(got, strings.ReplaceAll(members.Plain(row.Note), `"`, `\"`)) {
			t.Errorf("%s is lost, and no line says why:\n%s\n%s", m.path, text, got)
		}
	}
}
