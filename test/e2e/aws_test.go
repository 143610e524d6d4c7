//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/testing/registrytest"
)

// awsbox pushes the image with software for ECS and returns its reference.
func (b *box) awsbox() string {
	b.t.Helper()
	program, err := os.ReadFile(os.Getenv("PODTASK_AWSBOX"))
	if err != nil {
		b.t.Fatal(err)
	}
	img, err := registrytest.ProgramImage("awsbox", program)
	if err != nil {
		b.t.Fatal(err)
	}
	ref, _ := b.push("awsbox:1", img)
	return ref
}

// credentialsHelper makes a helper that prints such credentials and sets it.
func (b *box) credentialsHelper(secretKey string) {
	b.t.Helper()
	helper := filepath.Join(b.dir, "credentials")
	script := "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"AKIA'$PODTASK_TASK_ROLE_ARN'\",\"SecretAccessKey\":\"" + secretKey + "\",\"SessionToken\":\"tok\",\"Expiration\":\"2100-01-01T00:00:00Z\"}'\n"
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "PODTASK_CREDENTIALS_HELPER="+helper)
}

// The AWS SDK for Go finds credentials by its default chain, OpenTelemetry finds
// out where it runs, and a client of the endpoint reads it; none is told anything.
func TestSoftwareForECSRunsUnchanged(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"awsvpc", "bridge", "none", "host"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			secret := "marked-" + b.family
			b.credentialsHelper(secret)
			image := b.awsbox()
			b.want(0, "run", "--quiet", "--name", b.family, b.write(def{Network: mode, Containers: []ctr{
				{Name: "sdk", Image: image, Command: words("credentials"), Essential: optional},
				{Name: "otel", Image: image, Command: words("detect"), Essential: optional},
				{Name: "client", Image: image, Command: words("metadata"), Essential: optional},
				{Name: "end", Command: words("exit 0"), DependsOn: []on{{"sdk", "SUCCESS"}, {"otel", "SUCCESS"}, {"client", "SUCCESS"}}},
			}}))
			task := b.inspect(b.family)

			found := decodeAnswer[struct {
				AccessKeyID, SecretAccessKey, SessionToken, Source string
				Expires                                            time.Time
			}](t, b.lines(b.family, "sdk"))
			if found.AccessKeyID != "AKIA" || found.SecretAccessKey != secret || found.SessionToken != "tok" ||
				found.Expires.Year() != 2100 && found.Expires.Year() != 2099 || found.Source != "CredentialsEndpointProvider" {
				t.Errorf("the SDK found %+v", found)
			}
			detected := b.lines(b.family, "otel")
			for _, want := range []string{
				"cloud.provider=aws\n", "cloud.platform=aws_ecs\n", "aws.ecs.launchtype=external\n", "aws.ecs.task.family=" + b.family + "\n",
				"/" + task.ID + "\n", "/" + task.ID + "/otel\n", "cloud.account.id=000000000000\n",
			} {
				if !strings.Contains(detected+"\n", want) {
					t.Errorf("OpenTelemetry detected\n%s\nwithout %q", detected, want)
				}
			}
			read := decodeAnswer[struct {
				Task, V3  metadata.Task
				Container metadata.Container
			}](t, b.lines(b.family, "client"))
			if read.Task.Family != b.family || len(read.Task.Containers) != 4 || read.V3.TaskARN != read.Task.TaskARN ||
				read.Container.Name != "client" || read.Container.DockerID != task.Containers[2].RuntimeID || read.Container.Networks[0].NetworkMode != mode {
				t.Errorf("the client read %+v", read)
			}
		})
	}
}

// A program with the AWS SDK for Go that names neither a region nor credentials signs its requests
// for the configured region, with the credentials of the task's role.
func TestSDKNeedsNoRegion(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.credentialsHelper("secret")
	b.env = append(b.env, "PODTASK_AWS_REGION=eu-north-1")
	b.want(0, "run", "--quiet", "--name", b.family, b.write(def{Network: "awsvpc", Containers: allOf(
		ctr{Name: "sdk", Image: b.awsbox(), Command: words("call")},
		ctr{Name: "own", Image: b.awsbox(), Command: words("call"), More: obj{"environment": []obj{{"name": "AWS_REGION", "value": "us-west-2"}}}},
	), More: obj{"taskRoleArn": "arn:aws:iam::123456789012:role/one"}}))
	for name, region := range map[string]string{"sdk": "eu-north-1", "own": "us-west-2"} {
		got := b.lines(b.family, name)
		if !strings.HasPrefix(got, "POST sts."+region+".amazonaws.com AKIAarn:aws:iam::123456789012:role/one/") || !strings.Contains(got, "/"+region+"/sts/aws4_request\n") || !strings.HasSuffix(got, "\naccount 123456789012") {
			t.Errorf("%s sent %s", name, got)
		}
	}
}
