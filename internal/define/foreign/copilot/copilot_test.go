package copilot

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// web and job are manifests to which tests add members.
const (
	web = "name: web\ntype: Load Balanced Web Service\nimage: {location: i, port: 8080}\n"
	job = "name: job\ntype: Scheduled Job\nimage: {location: i}\n"
)

// built makes the definition of a manifest, as JSON.
func built(t *testing.T, manifest, environment string) (string, toolfile.Result, *toolfile.Reader) {
	t.Helper()
	r := toolfile.NewReader(toolfile.Request{File: "m.yml", Environment: environment, Getenv: func(name string) string { return map[string]string{"TAG": "1.2"}[name] }})
	docs, ok := r.Parse("m.yml", []byte(manifest))
	if !ok {
		t.Fatal(r.Err())
	}
	res := toolfile.Result{Name: "web"}
	def := Workloads(r, docs)[0].Build(&res)
	return string(def.JSON()), res, r
}

func TestMembersBecomeADefinition(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, manifest, environment, want string }{
		{"the settings of the chosen environment replace the others", web + "cpu: 256\nenvironments: {prod: {cpu: 1024}}", "prod", `"cpu":"1024"`},
		{"those of another environment do not", web + "cpu: 256\nenvironments: {prod: {cpu: 1024}, test: {}}", "test", `"cpu":"256"`},
		{"objects of an environment are merged", web + "variables: {A: a, B: b}\nenvironments: {prod: {variables: {B: c}}}", "prod", `[{"name":"A","value":"a"},{"name":"B","value":"c"},`},
		{"lists of an environment replace lists", web + "command: [a, b]\nenvironments: {prod: {command: [c]}}", "prod", `"command":["c"]`},
		{"a location of an environment excludes a build", "name: web\ntype: Backend Service\nimage: {build: Dockerfile, port: 8080}\nenvironments: {prod: {image: {location: other}}}", "prod", `"image":"other"`},
		{"the name of the environment is a variable", web, "prod", `{"name":"COPILOT_ENVIRONMENT_NAME","value":"prod"}`},
		{"a variable in a text has its value", web + "variables: {A: 'x-${TAG}'}", "", `"value":"x-1.2"`},
		{"what is no name of a variable is for a shell", web + "command: ['${A:-b}']", "", `"command":["${A:-b}"]`},
		{"a command is split as a shell does", web + `command: sh -c "a b"`, "", `"command":["sh","-c","a b"]`},
		{"a secret of Secrets Manager becomes an ARN", web + "secrets: {A: {secretsmanager: shop/db}}", "", `"valueFrom":"arn:aws:secretsmanager:local:000000000000:secret:shop/db"`},
		{"a secret that is a text is a name of SSM", web + "secrets: {A: /shop/db}", "", `"valueFrom":"/shop/db"`},
		{"a health check has the defaults of Copilot", "name: web\ntype: Backend Service\nimage: {location: i, healthcheck: {command: [CMD, x]}}", "", `{"command":["CMD","x"],"interval":10,"retries":2,"timeout":5}`},
		{"durations of a health check are seconds", "name: web\ntype: Backend Service\nimage: {location: i, healthcheck: {command: [CMD, x], interval: 1m30s, start_period: 4}}", "", `"interval":90,"retries":2,"startPeriod":4`},
		{"a platform names the architecture as ECS does", web + "platform: linux/arm64", "", `{"cpuArchitecture":"ARM64","operatingSystemFamily":"LINUX"}`},
		{"a port of a sidecar may have a protocol", web + "sidecars: {dns: {image: d, port: 53/udp}}", "", `"portMappings":[{"containerPort":53,"protocol":"udp"}]`},
		{"a volume is read-only unless it says otherwise", web + "storage: {volumes: {v: {path: /v}}}", "", `{"sourceVolume":"v","containerPath":"/v","readOnly":true}`},
		{"efs: false is a volume of the task", web + "storage: {volumes: {v: {path: /v, efs: false}}}", "", `"volumes":[{"name":"v"}]`},
		{"an override sets a member", web + "taskdef_overrides: [{path: PidMode, value: task}]", "", `"pidMode":"task"`},
		{"a dash in an override appends", web + "taskdef_overrides: [{path: 'ContainerDefinitions[0].Ulimits[-]', value: {Name: nofile}}]", "", `"ulimits":[{"name":"nofile"}]`},
		{"an override keeps names of the user as they are", web + "taskdef_overrides: [{path: 'ContainerDefinitions[0].DockerLabels', value: {Team: Shop}}]", "", `"dockerLabels":{"Team":"Shop"}`},
		{"so does one of a single name", web + "taskdef_overrides: [{path: 'ContainerDefinitions[0].DockerLabels.Team', value: Shop}]", "", `"dockerLabels":{"Team":"Shop"}`},
		{"an override leads through lists of lists", web + "taskdef_overrides: [{path: 'X[0]', value: [a]}, {path: 'X[0][0]', value: b}]", "", `"x":[["b"]]`},
		{"a time limit of a job is seconds", job + "on: {schedule: none}\ntimeout: 1h", "", `"x-podtask":{"timeout":3600}`},
		{"a container to which a load balancer leads has its port", web + "http: {target_port: 9090}", "", `"portMappings":[{"containerPort":8080},{"containerPort":9090}]`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			if def, _, r := built(t, tc.manifest, tc.environment); !strings.Contains(def, tc.want) || r.Err() != nil {
				t.Errorf("no %s in %s; %v", tc.want, def, r.Err())
			}
		})
	}
}

func TestFlagsOfAService(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, members, environment, want string }{
		{"copies are replaced one after the other", "", "", "--count 1 --min-healthy 100 --max 200"},
		{"recreate stops the old copies first", "deployment: {rolling: recreate}", "", "--count 1 --min-healthy 0 --max 100"},
		{"a range begins with its least number", "count: {range: 2-10}", "", "--count 2 --min-healthy 100 --max 200"},
		{"a range may be an object", "count: {range: {min: 3, max: 10}}", "", "--count 3 --min-healthy 100 --max 200"},
		{"copies of Spot are copies", "count: {spot: 4}", "", "--count 4 --min-healthy 100 --max 200"},
		{"copies of Spot in an environment exclude a range", "count: {range: 2-10}\nenvironments: {test: {count: {spot: 5}}}", "test", "--count 5 --min-healthy 100 --max 200"},
		{"a load balancer leads to the port of the image", "http: {path: /}", "", "--count 1 --min-healthy 100 --max 200 --listen 8080=web:8080"},
		{"a port that users may not open is moved by 8000", "http: {target_port: 80}", "", "--count 1 --min-healthy 100 --max 200 --listen 8080=web:80"},
		{"it may lead to a sidecar", "http: {target_container: nginx}\nsidecars: {nginx: {image: n, port: 443}}", "", "--count 1 --min-healthy 100 --max 200 --listen 8443=nginx:443"},
		{"it may name the container of the image", "http: {target_container: web}", "", "--count 1 --min-healthy 100 --max 200 --listen 8080=web:8080"},
		{"its times are those of the service", "http: {deregistration_delay: 20s, healthcheck: {grace_period: 30s}}", "", "--count 1 --min-healthy 100 --max 200 --health-grace 30s --drain 20s --listen 8080=web:8080"},
		{"http: false is no load balancer", "http: false", "", "--count 1 --min-healthy 100 --max 200"},
		{"each listener of nlb leads to the port of its number, unless it names one", "nlb: {port: 443/tls, additional_listeners: [{port: 9000, target_port: 9001}]}", "", "--count 1 --min-healthy 100 --max 200 --listen 8443=web:443 --listen 9000=web:9001"},
		{"two load balancers have two addresses", "http: {path: /}\nnlb: {port: 8080}", "", "--count 1 --min-healthy 100 --max 200 --listen 8080=web:8080 --listen 8081=web:8080"},
	} {
		_, res, r := built(t, web+tc.members, tc.environment)
		if got := strings.Join(res.Service.Flags, " "); got != tc.want || r.Err() != nil {
			t.Errorf("%s: %s, want %s; %v", tc.rule, got, tc.want, r.Err())
		}
	}
}

func TestSchedulesOfAJob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, schedule, want string }{
		{"hours are a rate", "'@every 2h'", "--at rate(2 hours)"},
		{"one hour is singular", "'@every 60m'", "--at rate(1 hour)"},
		{"minutes that are no whole hours stay minutes", "'@every 30m'", "--at rate(30 minutes)"},
		{"none starts nothing", "none", ""},
		{"expressions of EventBridge stay", "'cron(0 9 * * ? *)'", "--at cron(0 9 * * ? *)"},
		{"expressions of cron are in UTC", "'@daily'", "--at *-*-* 00:00:00 --timezone UTC"},
	} {
		_, res, r := built(t, job+"on: {schedule: "+tc.schedule+"}", "")
		got := ""
		for _, s := range res.Schedules {
			got += strings.Join(s.Flags, " ")
		}
		if got != tc.want || r.Err() != nil {
			t.Errorf("%s: %q, want %s; %v", tc.rule, got, tc.want, r.Err())
		}
	}
}

func lost(r *toolfile.Reader) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, l.Message)
	}
	return strings.Join(all, "\n")
}

func TestWhatIsLostOfAManifest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, manifest, want string }{
		{"environments without a choice", web + "environments: {prod: {cpu: 1024}, test: {}}", "the settings of the environments prod, test are not applied"},
		{"a number of copies that follows the load", web + "count: {range: 2-10, cpu_percentage: 70}", "count: the number of copies does not follow the load; it is 2"},
		{"more rules of a load balancer", web + "http: {path: /, additional_rules: [{path: /admin, target_port: 9000}]}", "http.additional_rules: paths that lead to other containers or ports"},
		{"listeners of UDP", web + "nlb: {port: 53/udp}", "nlb: port 53/udp, because a service forwards TCP only"},
		{"a file system that Copilot makes", web + "storage: {volumes: {v: {path: /v, efs: true}}}", "the file system of the volume v is made by Copilot; fs-copilot stands for it"},
		{"the place of a file of variables", web + "env_file: x.env", "env_file: its path is relative to the workspace"},
		{"a job that nothing starts", job + "on: {schedule: none}", "on.schedule none: nothing starts the job by itself"},
		{"alarms", web + "deployment: {rollback_alarms: [a]}", "deployment.rollback_alarms: no alarm of CloudWatch is asked here"},
	} {
		if _, _, r := built(t, tc.manifest, ""); !strings.Contains(lost(r), tc.want) || r.Err() != nil {
			t.Errorf("%s: %s; %v", tc.rule, lost(r), r.Err())
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, manifest, environment, want string }{
		{"a type that does not run on ECS", "name: a\ntype: Static Site\n", "", "m.yml:2:7: a Static Site does not run on ECS"},
		{"an environment that the manifest does not have", web + "environments: {prod: {cpu: 1024}}", "prd", `there are no settings for the environment "prd"; the manifest has prod`},
		{"a variable that is not set", web + "variables: {A: '${NONE}'}", "", "m.yml:4:16: the manifest needs the variable NONE; set it, or give --param NONE=VALUE"},
		{"a value of another stack", web + "variables: {A: {from_cfn: x}}", "", "the variable A is read from another stack (from_cfn); give --param A=VALUE"},
		{"a secret of another stack", web + "secrets: {A: {from_cfn: x}}", "", "the secret A is named in another stack (from_cfn); give --param A=VALUE"},
		{"an image that is built", "name: web\ntype: Backend Service\nimage: {build: {dockerfile: d/Dockerfile, context: d, args: {A: b c}}}", "", "podman build -t localhost/web -f d/Dockerfile --build-arg 'A=b c' d`, and give --param image.web=localhost/web"},
		{"a build of an environment, which excludes a location", web + "environments: {prod: {image: {build: Dockerfile}}}", "prod", "the container web has no image: podtask builds none"},
		{"a load balancer without a port", "name: web\ntype: Backend Service\nimage: {location: i}\nhttp: {path: /}", "", "http: the container web has no port"},
		{"a listener without a port", web + "nlb: {alias: a}", "", `nlb: port: "" is no port such as 443/tls`},
		{"a port of a sidecar that is none", web + "sidecars: {a: {image: i, port: http}}", "", `port: "http" is no port such as 80 or 53/udp`},
		{"a duration without a unit", web + "sidecars: {a: {image: i, healthcheck: {command: [CMD, x], interval: '5'}}}", "", `"5" is no duration such as 10s`},
		{"a command that a shell could not read", web + `command: sh -c "a`, "", "the command cannot be split into words"},
		{"an override without a value", web + "taskdef_overrides: [{path: PidMode}]", "", "an override has a path and a value"},
		{"an override behind the end of a list", web + "taskdef_overrides: [{path: 'ContainerDefinitions[2].Cpu', value: 1}]", "", "there is no item [2]"},
		{"an override with an index that is not closed", web + "taskdef_overrides: [{path: 'ContainerDefinitions[0', value: 1}]", "", "there is no item [0"},
		{"an override through a text", web + "taskdef_overrides: [{path: 'Family.Name', value: 1}]", "", "Family has no members"},
		{"an override of an item of what is no list", web + "taskdef_overrides: [{path: 'Family[0]', value: 1}]", "", "Family is no list"},
		{"an override with an empty step", web + "taskdef_overrides: [{path: 'Volumes[-]..Name', value: 1}]", "", "it leads to no member"},
		{"a job without a schedule", job, "", "on.schedule is missing"},
		{"every few seconds", job + "on: {schedule: '@every 90s'}", "", `@every takes a number of minutes or hours, not "90s"`},
		{"an expression that is none of cron", job + "on: {schedule: '61 * * * *'}", "", "m.yml:4:16: "},
	} {
		if _, _, r := built(t, tc.manifest, tc.environment); r.Err() == nil || !strings.Contains(r.Err().Error(), tc.want) {
			t.Errorf("%s: %v", tc.rule, r.Err())
		}
	}
}
