package taskdef

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

const templated = `{
  "family": "shop", "memory": "${MEMORY}",
  "volumes": [
    {"name": "cache", "host": {}},
    {"name": "files", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}},
    {"name": "disk", "configuredAtLaunch": true},
    {"name": "plug", "dockerVolumeConfiguration": {"driver": "rexray/ebs", "scope": "shared"}},
    {"name": "net", "dockerVolumeConfiguration": {"scope": "task", "driverOpts": {"type": "nfs"}}}
  ],
  "containerDefinitions": [{
    "name": "web", "image": "<IMAGE1_NAME>", "essential": "${ESSENTIAL}",
    "command": ["sh", "-c", "echo ${HOME} <not_this>"],
    "environment": [{"name": "DB", "value": "${DB_HOST}"}],
    "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::bucket/a.env"}],
    "repositoryCredentials": {"credentialsParameter": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hub-AbCdEf"},
    "secrets": [
      {"name": "USER", "valueFrom": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf:user::"},
      {"name": "PASSWORD", "valueFrom": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf:password:AWSPREVIOUS:"},
      {"name": "LOCAL", "valueFrom": "file:local.txt"}
    ]
  }]
}`

func TestNeedsNameTheFlagThatGivesThem(t *testing.T) {
	t.Parallel()
	task, report, err := Parse("d.json", []byte(templated))
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, n := range report.Needs {
		flags = append(flags, strings.TrimPrefix(strings.SplitN(n.Fix, ", or add", 2)[0], "give "))
	}
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"
	want := []string{
		"--var MEMORY=VALUE",
		"--map-volume files=PATH", "--map-volume disk=PATH", "--map-volume plug=PATH", "--map-volume net=PATH",
		"--var IMAGE1_NAME=VALUE", "--var ESSENTIAL=VALUE",
		"--map-env-file arn:aws:s3:::bucket/a.env=PATH",
		"--map-secret " + arn + "hub-AbCdEf=SOURCE",
		"--map-secret " + arn + "db-AbCdEf=SOURCE", "--map-secret " + arn + "db-AbCdEf=SOURCE",
	}
	if diff := cmp.Diff(want, flags); diff != "" {
		t.Error(diff)
	}
	if err := task.Check(); err == nil {
		t.Error("a task that needs more passes Check")
	}
}

func TestSettingsGiveWhatIsNeeded(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"
	s := Settings{
		Vars: map[string]string{"MEMORY": "2 GB", "IMAGE1_NAME": "registry.example.com/web:7", "ESSENTIAL": "true", "DB_HOST": "db.local"},
		Refs: refs.Table{
			{Match: "volume:files", Source: "file:/srv/files"},
			{Match: "ebs:disk", Source: "file:/srv/disk"},
			{Match: "plugin:rexray/ebs/*", Source: "podman:rexray-{1}"},
			{Match: "nfs:*", Source: "tree:/srv"},
			{Match: arn + "hub-AbCdEf", Source: "podman:hub"},
			{Match: arn + "db-AbCdEf:password:AWSPREVIOUS:", Source: "env:DB_PASSWORD"},
			{Match: arn + "db-??????", Source: "file:/run/db.json"},
			{Match: "arn:aws:s3:::bucket/*", Source: "file:/srv/shop/{1}", Origin: "podtask.toml:9"},
		},
		Dir: "/srv/shop",
	}
	task, report, err := s.Parse("d.json", []byte(templated))
	if err != nil || len(report.Needs) > 0 || len(report.Warnings) > 0 {
		t.Fatal(report, err)
	}
	if err := task.Check(); err != nil {
		t.Error(err)
	}
	web := task.Containers[0]
	if task.Memory != 2<<30 || web.Image != "registry.example.com/web:7" || !web.Essential {
		t.Errorf("placeholders give %d, %q, %v", task.Memory, web.Image, web.Essential)
	}
	if web.Command[2] != "echo ${HOME} <not_this>" || web.Environment[0].Value != "db.local" {
		t.Errorf("texts are %q and %q", web.Command[2], web.Environment[0].Value)
	}
	if diff := cmp.Diff(Volume{Name: "files", Kind: VolumeBind, HostPath: "/srv/files"}, task.Volumes[1]); diff != "" {
		t.Error(diff)
	}
	if got := []Volume{task.Volumes[2], task.Volumes[3], task.Volumes[4]}; cmp.Diff([]Volume{
		{Name: "disk", Kind: VolumeBind, HostPath: "/srv/disk"}, {Name: "plug", Kind: VolumeShared, External: "rexray-plug"}, {Name: "net", Kind: VolumeBind, HostPath: "/srv/nfs"},
	}, got) != "" {
		t.Errorf("the volumes are %+v", got)
	}
	if n := len(report.References); n != 8 {
		t.Errorf("%d references are reported", n)
	}
	if web.EnvironmentFiles[0].Path != "/srv/shop/a.env" {
		t.Errorf("the environment file is %q", web.EnvironmentFiles[0].Path)
	}
	type from struct{ Source, Key string }
	got := []from{{web.RepositoryCredentials.Source, web.RepositoryCredentials.JSONKey}}
	for _, secret := range web.Secrets {
		got = append(got, from{secret.Source, secret.JSONKey})
	}
	// A whole valueFrom is mapped to the value itself, an ARN to the document that
	// holds it.
	if diff := cmp.Diff([]from{{"podman:hub", ""}, {"file:/run/db.json", "user"}, {"env:DB_PASSWORD", ""}, {"file:/srv/shop/local.txt", ""}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsWithoutUseAreNamed(t *testing.T) {
	t.Parallel()
	s := Settings{Refs: refs.Table{
		{Match: "volume:chache", Source: "file:/x", Origin: "--map-volume", OneOff: true}, {Match: "/a/b", Source: "env:A", Origin: "--map-secret", OneOff: true}, {Match: "*", Source: "env:B"},
	}}
	_, report, err := s.Parse("d", []byte(minimal(`"volumes": [{"name": "cache"}],`, "")))
	if err != nil || len(report.Warnings) != 2 || !strings.Contains(report.Warnings[0].String(), `did you mean "cache"?`) {
		t.Errorf("%v %v", report.Warnings, err)
	}
}

func TestSourceThatCannotBeAVolumeIsAProblem(t *testing.T) {
	t.Parallel()
	s := Settings{Refs: refs.Table{{Match: "*", Source: "command:/bin/aws", Origin: "podtask.toml:3"}}}
	// A volume that needs nothing of AWS is not answered by a rule for everything.
	_, _, err := s.Parse("d", []byte(minimal(`"volumes": [{"name": "cache"}, {"name": "files", "efsVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/a"}}],`, "")))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.Contains(err.Error(), `podtask.toml:3 answers "efs:fs-1/a" with "command:/bin/aws"`) {
		t.Error(err)
	}
}

func TestFileOfS3ReachesAContainer(t *testing.T) {
	t.Parallel()
	s := Settings{Refs: refs.Table{{Match: "arn:aws:s3:::*", Source: "tree:/srv/aws"}}}
	task, report, err := s.Parse("d", []byte(minimal("", `"x-podtask": {"secretFiles": [{"path": "/etc/app.conf", "valueFrom": "arn:aws:s3:::bucket/app.conf"}]}, "environmentFiles": [{"type": "s3", "value": "arn:aws:s3:::bucket/a.env"}],`)))
	if err != nil || len(report.Needs) != 0 || task.Check() != nil {
		t.Fatal(err, report)
	}
	c := task.Containers[0]
	if got := c.Extensions.SecretFiles[0].Source; got != "tree:/srv/aws:s3/bucket/app.conf" {
		t.Errorf("the file is %s", got)
	}
	if got := c.EnvironmentFiles[0]; got.Source != "tree:/srv/aws:s3/bucket/a.env" || got.Path != "" {
		t.Errorf("the environment file is %+v", got)
	}
}

func TestFirstRuleOfTheTableAnswers(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf"
	src := []byte(minimal("", `"secrets": [{"name": "A", "valueFrom": "`+arn+`:user::"}, {"name": "B", "valueFrom": "/b"}, {"name": "C", "valueFrom": "/c"}],`))
	s := Settings{Refs: refs.Table{{Match: "/b", Source: "env:LINE"}, {Match: arn, Source: "podman:db"}, {Match: "/b", Source: "env:KNOWN"}, {Match: "/other", Source: "env:OTHER"}}}
	task, report, err := s.Parse("f", src)
	if err != nil || len(report.Warnings) > 0 || len(report.Needs) != 1 || !strings.Contains(report.Needs[0].Fix, "--map-secret /c=") {
		t.Fatal(report, err)
	}
	var got []string
	for _, secret := range task.Containers[0].Secrets {
		got = append(got, secret.Source+" "+secret.JSONKey)
	}
	if diff := cmp.Diff([]string{"podman:db user", "env:LINE ", " "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretValues(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-AbCdEf"
	for in, want := range map[string]SecretValue{
		arn:                       {ID: arn},
		arn + ":key::":            {ID: arn, JSONKey: "key"},
		arn + ":::id":             {ID: arn, VersionID: "id"},
		arn + ":key:AWSCURRENT:1": {ID: arn, JSONKey: "key", VersionStage: "AWSCURRENT", VersionID: "1"},
		"arn:aws:secretsmanager:REGION:ACCOUNT_ID:secret:db":   {ID: "arn:aws:secretsmanager:REGION:ACCOUNT_ID:secret:db"},
		"arn:aws:ssm:region:account-id:parameter/a":            {ID: "arn:aws:ssm:region:account-id:parameter/a"},
		"arn:aws-cn:ssm:cn-north-1:123456789012:parameter/a/b": {ID: "arn:aws-cn:ssm:cn-north-1:123456789012:parameter/a/b"},
		"/a/b.c":              {ID: "/a/b.c"},
		"name":                {ID: "name"},
		"podman:db":           {Source: "podman:db"},
		"command:/bin/pass x": {Source: "command:/bin/pass x"},
	} {
		want.ValueFrom = in
		got, err := ParseSecretValue(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", in, err, diff)
		}
	}
	for _, in := range []string{"", arn + ":key", arn + ":a:b:c:d", "arn:aws:s3:::b/x", "vault:x", "podman:", "a b", strings.Repeat("a", 1012)} {
		if v, err := ParseSecretValue(in); err == nil {
			t.Errorf("%q is accepted: %+v", in, v)
		}
	}
}

// What people write by hand where a pipeline puts the value.
func TestPlaceholdersAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	src := []byte(`{"family": "f", "containerDefinitions": [{"name": "c", "image": "<account-id>.dkr.ecr.<region>.amazonaws.com/web:${VERSION.major}"}]}`)
	_, report, err := Parse("f", src)
	if err != nil {
		t.Fatal(err)
	}
	var fixes []string
	for _, n := range report.Needs {
		fixes = append(fixes, n.Fix)
	}
	if diff := cmp.Diff([]string{"give --var account-id=VALUE", "give --var region=VALUE", "give --var VERSION.major=VALUE"}, fixes); diff != "" {
		t.Error(diff)
	}
	s := Settings{Vars: map[string]string{"account-id": "123456789012", "region": "eu-west-1", "VERSION.major": "7"}}
	task, report, err := s.Parse("f", src)
	if err != nil || len(report.Needs) > 0 || task.Containers[0].Image != "123456789012.dkr.ecr.eu-west-1.amazonaws.com/web:7" {
		t.Errorf("%v %v %v", task, report, err)
	}
}

func TestUsersOfThisHost(t *testing.T) {
	t.Parallel()
	for user, problems := range map[string][]string{"1000:1000": nil, "65537": {"/containerDefinitions/0/user"}, "root:100000": {"/containerDefinitions/0/user"}, "www-data": nil} {
		got, text := findings(Settings{IDs: IDs{65536, 65536}}, "f", minimal("", `"user": "`+user+`",`))
		if !cmp.Equal(got, found{Problems: problems}) {
			t.Errorf("%s: %v\n%s", user, got, text)
		}
	}
}
