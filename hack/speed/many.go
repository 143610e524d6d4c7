package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/host/quota"
)

// many measures 200 short tasks, four at a time, and submitted at once. A round takes about two minutes, so none is left out.
func (l *lab) many(rounds int) {
	shell := func(command string) sample {
		return l.run("sh", "-c", "seq 200 | xargs -P 4 -I{} "+command, "sh", image, filepath.Join(l.share, "podtask"), l.path("short.json"))
	}
	for range rounds {
		theirs := shell(`podman run --rm --pull never "$1" exit 0`)
		ours := shell(`"$2" run --rm --pull never --limits off "$3"`)
		queued := shell(`"$2" run -d --pull never --limits off "$3"`)
		wait := l.run("sh", "-c", `"$1" wait --all >/dev/null`, "sh", filepath.Join(l.share, "podtask"))
		l.pair("200 short tasks, 4 at a time, agent / podman run --rm", 1.1, ours.time, theirs.time)
		l.pair("200 short tasks, submitted before the first is waited for, agent / podtask run --rm, 4 at a time", 1, queued.time+wait.time, ours.time)
		l.clean()
	}
}

// door measures RunTask of a client of Amazon ECS against as many commands, through one agent.
func (l *lab) door(rounds int) {
	const address, count = "127.0.0.1:14580", 20
	_, stop := l.background(filepath.Join(l.share, "podtask"), "agent", "--aws-listen="+address, "--aws-throttling=off")
	defer stop()
	l.awaitAgent()
	env := make(map[string]string)
	for line := range strings.Lines(l.podtask("aws", "env", "--aws-listen="+address).out) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[name] = value
	}
	client := ecs.New(ecs.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}, nil
	})})
	if l.err == nil {
		_, err := client.RegisterTaskDefinition(l.ctx, &ecs.RegisterTaskDefinitionInput{Family: aws.String("speed"), NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{
			{Name: aws.String("c1"), Image: aws.String(image), Command: []string{"sleep", "forever"}, Memory: aws.Int32(64)},
		}})
		l.try(err)
	}
	l.pairs(rounds, func(counts bool) {
		ids := make([]string, count)
		begin, requests := time.Now(), new(errgroup.Group)
		for i := range count {
			requests.Go(func() error {
				made, err := client.RunTask(l.ctx, &ecs.RunTaskInput{TaskDefinition: aws.String("speed")})
				if err == nil && len(made.Tasks) == 0 {
					err = fmt.Errorf("no task was made: %+v", made.Failures)
				}
				if err == nil {
					arn := *made.Tasks[0].TaskArn
					ids[i] = arn[strings.LastIndexByte(arn, '/')+1:]
				}
				return err
			})
		}
		l.try(requests.Wait())
		l.podtask(append([]string{"wait", "--condition", "running"}, ids...)...)
		ours := time.Since(begin)
		l.clean()
		theirs := l.run("sh", "-c", fmt.Sprintf(`seq %[1]d | xargs -P %[1]d -I{} "$1" run -d --wait=running --pull never --limits off "$2"`, count), "sh", filepath.Join(l.share, "podtask"), l.path("task1.json"))
		l.clean()
		if counts {
			l.pair(fmt.Sprintf("%d tasks at once by RunTask of ECS / podtask run -d --wait=running", count), 1, ours, theirs.time)
		}
	})
}

// hundreds measures 500 tasks: that each hundred takes as long as the first, and how long they take to stop and to be removed. It
// measures nothing where root has not raised the quota of keys, of which each container takes one or two.
func (l *lab) hundreds() {
	for _, keys := range quota.Keys(os.DirFS("/"), os.Getuid()) {
		if keys.Free() < 1200 {
			fmt.Fprintln(os.Stderr, "speed: hundreds is left out: the quota of keys has no room for 500 tasks")
			return
		}
	}
	for i := range 5 {
		hundred := l.run("sh", "-c", `seq 100 | xargs -P 8 -I{} "$1" run -d --wait=running --pull never --limits off "$2"`, "sh", filepath.Join(l.share, "podtask"), l.path("task1.json"))
		l.figure(fmt.Sprintf("start of tasks %d to %d, 8 at a time, ms", i*100+1, i*100+100), 0, ms(hundred.time))
	}
	l.figure("stop --all of 500 tasks, ms", 30000, ms(l.podtask("stop", "--all").time))
	l.figure("rm --all of 500 stopped tasks, ms", 30000, ms(l.podtask("rm", "--all").time))
}
