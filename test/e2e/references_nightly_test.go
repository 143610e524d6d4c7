//go:build e2e && nightly

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

const accountARN = "eu-central-1:123456789012:"

// productionShapes are the kinds of definitions that production makes.
var productionShapes = []string{"fargate", "ec2", "worker"}

// production is a definition as it runs on AWS: a dozen references, a private registry, roles,
// a file system, a fixed port and more open files than the user may have. n makes a revision.
func (b *box) production(shape, image, n string) string {
	secret := "arn:aws:secretsmanager:" + accountARN + "secret:shop/"
	parameter := "arn:aws:ssm:" + accountARN + "parameter/shop/"
	app := ctr{
		Name: "app", Image: image, StopTimeout: 2, Ports: []port{{Container: 80}},
		Command: words("term 0 -- print " + n + " -- env DB_USER -- env LEVEL -- env REGION -- cat /files/hello -- limit nofile -- " +
			"await http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI} -- print -- cat /etc/app.conf -- sleep forever"),
		More: obj{
			"repositoryCredentials": obj{"credentialsParameter": secret + "registry-AbCdEf"},
			"environmentFiles":      []obj{{"type": "s3", "value": "arn:aws:s3:::shop-config/prod/app.env"}},
			"mountPoints":           []obj{{"sourceVolume": "files", "containerPath": "/files"}},
			"ulimits":               []obj{{"name": "nofile", "softLimit": 1048576, "hardLimit": 1048576}},
			"secrets": []obj{
				{"name": "DB_USER", "valueFrom": secret + "db-AbCdEf:username::"}, {"name": "DB_PASSWORD", "valueFrom": secret + "db-AbCdEf:password::"},
				{"name": "DB_HOST", "valueFrom": secret + "db-AbCdEf:host::"}, {"name": "OLD_PASSWORD", "valueFrom": secret + "db-AbCdEf:password:AWSPREVIOUS:"},
				{"name": "API_KEY", "valueFrom": secret + "api-AbCdEf"}, {"name": "TOKEN", "valueFrom": parameter + "token"},
				{"name": "REGION", "valueFrom": parameter + "region"}, {"name": "BY_NAME", "valueFrom": "/shop/token"},
			},
			"x-podtask": obj{"secretFiles": []obj{{"path": "/etc/app.conf", "valueFrom": "arn:aws:s3:::shop-config/prod/app.conf"}}},
		},
	}
	d := def{Network: "awsvpc", CPU: "256", Memory: "512", Containers: []ctr{app}, More: obj{
		"requiresCompatibilities": []string{"FARGATE"},
		"executionRoleArn":        "arn:aws:iam::123456789012:role/ecsTaskExecutionRole",
		"taskRoleArn":             "arn:aws:iam::123456789012:role/shop",
	}}
	login := obj{"repositoryCredentials": app.More["repositoryCredentials"]}
	switch shape {
	case "fargate":
		d.More["volumes"] = []obj{{"name": "files", "efsVolumeConfiguration": obj{
			"fileSystemId": "fs-0123456789abcdef0", "rootDirectory": "/", "transitEncryption": "ENABLED", "authorizationConfig": obj{"accessPointId": "fsap-0123", "iam": "ENABLED"},
		}}}
	case "ec2": // links, a volume of a plug-in and constraints
		d.Network, d.More["requiresCompatibilities"] = "bridge", []string{"EC2"}
		d.More["placementConstraints"] = []obj{{"type": "memberOf", "expression": "attribute:ecs.instance-type =~ m5.*"}}
		d.More["volumes"] = []obj{{"name": "files", "dockerVolumeConfiguration": obj{"driver": "rexray/ebs", "scope": "shared", "autoprovision": true}}}
		d.Containers[0].More["links"] = []string{"cache"}
		d.Containers = append(d.Containers, ctr{Name: "cache", Image: image, Essential: optional, Command: words("term 0 -- sleep forever"), More: login})
	case "worker": // a container that goes first, NFS and a proxy
		d.More["volumes"] = []obj{{"name": "files", "dockerVolumeConfiguration": obj{
			"driver": "local", "driverOpts": obj{"type": "nfs", "device": "nfs.internal:/export", "o": "addr=nfs.internal,rw"},
		}}}
		d.More["proxyConfiguration"] = obj{"type": "APPMESH", "containerName": "app", "properties": []obj{{"name": "ProxyIngressPort", "value": "15000"}}}
		d.Containers[0].DependsOn = []on{{"migrate", "SUCCESS"}}
		d.Containers = append(d.Containers, ctr{Name: "migrate", Image: image, Essential: optional, Command: words("print migrated"), More: login})
	}
	return b.write(d)
}

// checkProduction checks what a task of production was given, and that no secret shows.
func (b *box) checkProduction(ref, n string) {
	b.t.Helper()
	eventually(b.t, "the last line of "+ref, func() bool { return strings.Contains(b.want(0, "logs", ref).out, "listen 80") })
	out := b.want(0, "logs", ref).out
	for _, want := range []string{n, "DB_USER=shop", "LEVEL=debug", "REGION=eu-central-1", "from the file system", `"AccessKeyId":"AKIASHOP"`, `"RoleArn":"arn:aws:iam::123456789012:role/shop"`} {
		if !strings.Contains(out, want) {
			b.t.Errorf("%s: %q is missing in %s", ref, want, out)
		}
	}
	app := b.inspect(ref).Containers[0].RuntimeID
	for _, name := range []string{"DB_PASSWORD", "OLD_PASSWORD", "API_KEY", "TOKEN", "BY_NAME"} {
		if got := b.podman("exec", app, "/testbox", "env", name); got != name+"="+marked {
			b.t.Errorf("%s: %s is %q", ref, name, got)
		}
	}
	b.checkNotShown(b.inspect(ref).ID, marked)
}

// A definition of production runs byte for byte by run, by the API and as a service, all with
// one configuration. The service is updated, survives the end of its agent and is rolled back.
func TestProductionDefinitionRunsThroughEveryInterface(t *testing.T) {
	t.Parallel()
	for _, shape := range productionShapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			runProduction(t, shape)
		})
	}
}

func runProduction(t *testing.T, shape string) {
	b := newBox(t)
	image, _ := b.push("app:1", b.freshImage("app"))
	calls := b.answerReferences()
	b.anonymous()
	one, two := b.production(shape, image, "one"), b.production(shape, image, "two")

	plan := b.want(0, "plan", "--refs", one)
	if strings.Contains(plan.out, marked) || strings.Contains(plan.out, "nothing answers") || strings.Count(plan.out, "podtask.toml:") < 10 {
		t.Errorf("plan --refs printed %s", plan.out)
	}
	id := b.detach("--wait=running", one)
	b.checkProduction(id, "one")
	if seen, err := os.ReadFile(calls); err != nil || !strings.Contains(string(seen), "arn:aws:ssm:"+accountARN+"parameter/shop/token\n") {
		t.Errorf("the program was asked for %s %v", seen, err)
	}
	b.want(0, "rm", "--force", id)

	first := b.agent()
	c, err := api.Dial(t.Context(), b.agentSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	definition, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Create(t.Context(), api.NewTask{Definition: definition})
	if err != nil {
		t.Fatal(err)
	}
	b.checkProduction(made.ID, "one")
	b.want(0, "rm", "--force", made.ID)

	b.want(0, "service", "create", b.family, one, "--wait", "--timeout=4m")
	b.checkProduction(b.well()[0], "one")
	b.want(0, "service", "update", b.family, two, "--wait", "--timeout=4m")
	kept := b.well()[0]
	b.checkProduction(kept, "two")
	first.kill()
	b.agent()
	eventually(t, "the copy of the next agent", func() bool { w := b.well(); return len(w) == 1 && w[0] == kept })
	b.want(0, "service", "rollback", b.family, "--wait", "--timeout=4m")
	b.checkProduction(b.well()[0], "one")

	// One-off entries are in front of the table.
	other := b.secretFile("user.json", `{"username": "other", "password": "x", "host": "x"}`)
	b.want(0, "service", "update", b.family, one, "--map-secret", "arn:aws:secretsmanager:*shop/db-*=file:"+other, "--wait", "--timeout=4m")
	if out := b.want(0, "logs", b.well()[0]).out; !strings.Contains(out, "DB_USER=other") {
		t.Errorf("with --map-secret it printed %s", out)
	}
	b.removeService()
}
