//go:build e2e

//e2e:bed systemd

package e2e

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/podtask/podtask/internal/testing/ecscluster"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/test/testbed"
)

// ecsCluster is a control plane with a scheduler, and two boxes that are its instances.
type ecsCluster struct {
	t         *testing.T
	cluster   *ecscluster.Cluster
	client    *ecs.Client
	instances []*ecsInstance
	image     string
}

func newECSCluster(t *testing.T) *ecsCluster {
	t.Helper()
	instances := httptest.NewServer(nil)
	t.Cleanup(instances.Close)
	cluster, err := ecscluster.New(instances.URL, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	instances.Config.Handler = cluster.Instances()
	clients := httptest.NewServer(cluster.Clients())
	t.Cleanup(clients.Close)
	c := &ecsCluster{t: t, cluster: cluster}
	c.client = ecs.New(ecs.Options{
		BaseEndpoint: aws.String(clients.URL), Region: ecsplane.Region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: ecsplane.KeyID, SecretAccessKey: ecsplane.Secret}, nil
		}),
	})
	for range 2 {
		c.instances = append(c.instances, newECSInstanceOf(t, cluster.Plane))
	}
	t.Cleanup(cluster.Kill) // so that it starts nothing while the instances end
	c.image = c.instances[0].testbox()
	return c
}

// register registers a revision of a definition.
func (c *ecsCluster) register(family string, check *types.HealthCheck) string {
	c.t.Helper()
	out, err := c.client.RegisterTaskDefinition(c.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &family, NetworkMode: types.NetworkModeBridge, RequiresCompatibilities: []types.Compatibility{types.CompatibilityExternal},
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: &c.image, Memory: aws.Int32(32), StopTimeout: aws.Int32(2), HealthCheck: check, Command: words("wait /never"),
		}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", family, out.TaskDefinition.Revision)
}

func (c *ecsCluster) create(name, definition string, count int32) {
	c.t.Helper()
	if _, err := c.client.CreateService(c.t.Context(), &ecs.CreateServiceInput{
		Cluster: aws.String("lab"), ServiceName: &name, TaskDefinition: &definition, DesiredCount: &count, LaunchType: types.LaunchTypeExternal,
	}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *ecsCluster) update(name, definition string) {
	c.t.Helper()
	if _, err := c.client.UpdateService(c.t.Context(), &ecs.UpdateServiceInput{Cluster: aws.String("lab"), Service: &name, TaskDefinition: &definition}); err != nil {
		c.t.Fatal(err)
	}
}

// stable waits as `aws ecs wait services-stable` does, and until no copy of another revision is left.
func (c *ecsCluster) stable(name string, revision, count int) {
	c.t.Helper()
	w := ecs.NewServicesStableWaiter(c.client, func(o *ecs.ServicesStableWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, time.Second })
	if err := w.Wait(c.t.Context(), &ecs.DescribeServicesInput{Cluster: aws.String("lab"), Services: []string{name}}, patience); err != nil {
		c.fail("%s is not stable: %v", name, err)
	}
	eventually(c.t, "copies of the new revision alone", func() bool {
		copies := c.cluster.Copies(name)
		return len(copies) == count && !slices.ContainsFunc(copies, func(k ecscluster.Copy) bool { return k.Revision != revision || !k.Running })
	})
}

func (c *ecsCluster) fail(format string, args ...any) {
	c.t.Helper()
	for n, i := range c.instances {
		c.t.Logf("podtask-ecs %d:\n%s", n+1, lastLines(i.program.err.String(), 30))
	}
	c.t.Fatalf(format, args...)
}

// check checks that Podman runs what ECS knows, on each instance.
func (c *ecsCluster) check(names ...string) {
	c.t.Helper()
	for n, i := range c.instances {
		var want []string
		for _, name := range names {
			for _, k := range c.cluster.Copies(name) {
				if k.Instance == ecsplane.InstanceARN(n+1) {
					want = append(want, "ecs-"+k.ID)
				}
			}
		}
		slices.Sort(want)
		var runs []string
		if !testbed.Until(func() bool {
			runs = nil
			for line := range strings.Lines(i.want(0, "ps", "--format", "{{.Name}} {{.Status}}").out) {
				if f := strings.Fields(line); len(f) > 1 && f[1] == "RUNNING" { // limits that are not applied follow
					runs = append(runs, f[0])
				}
			}
			slices.Sort(runs)
			return slices.Equal(runs, want)
		}) {
			c.fail("instance %d runs %v, not %v", n+1, runs, want)
		}
	}
}

// A service of a client of ECS runs on two instances: it is steady, is updated, moves away from an instance that
// is drained, and survives that each part is killed during an update.
func TestAServiceOnTwoInstancesOfECS(t *testing.T) {
	t.Parallel()
	c := newECSCluster(t)
	c.register("checked", &types.HealthCheck{Command: words("CMD /testbox exists /testbox"), Interval: aws.Int32(5), Timeout: aws.Int32(5), Retries: aws.Int32(1)})
	c.create("checked", "checked:1", 1)
	c.create("web", c.register("web", nil), 2)
	c.stable("web", 1, 2)
	c.check("web", "checked")

	c.update("web", c.register("web", nil))
	c.stable("web", 2, 2)

	drained := c.instances[0].startWith(podtaskECS, "drain").want(0)
	if !strings.Contains(drained.out, "DRAINING") {
		t.Errorf("drain prints %s", drained.out)
	}
	eventually(t, "the drain", func() bool {
		return !slices.ContainsFunc(c.cluster.Copies("web"), func(k ecscluster.Copy) bool { return k.Instance == ecsplane.InstanceARN(1) })
	})
	c.stable("web", 2, 2)
	c.instances[0].startWith(podtaskECS, "drain", "--undo").want(0)
	c.stable("checked", 1, 1) // by what the instances tell of health

	revision := 2
	for _, part := range []struct {
		name string
		kill func() (back func())
	}{
		{"podtask-ecs of the first", func() func() { c.instances[0].program.kill(); return c.instances[0].join }},
		{"podtask-ecs of the second", func() func() { c.instances[1].program.kill(); return c.instances[1].join }},
		{"the agent of the first", func() func() { return c.instances[0].killAgent() }},
		{"the agent of the second", func() func() { return c.instances[1].killAgent() }},
		{"the control plane", func() func() { c.cluster.Kill(); return c.cluster.Start }},
	} {
		t.Log(part.name)
		revision++
		c.update("web", c.register("web", nil))
		part.kill()()
		c.stable("web", revision, 2)
		c.check("web", "checked")
	}
	for _, name := range []string{"web", "checked"} {
		if _, err := c.client.DeleteService(t.Context(), &ecs.DeleteServiceInput{Cluster: aws.String("lab"), Service: &name, Force: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of "+name, func() bool { return len(c.cluster.Copies(name)) == 0 })
	}
	for id, told := range c.cluster.Told() {
		// A task that was stopped before it ran has fewer states.
		if told[len(told)-1] != "STOPPED" {
			t.Errorf("%s was told as %v", id, told)
		}
	}
	for _, p := range c.cluster.Problems() {
		t.Error(p)
	}
}

// killAgent kills the agent, and returns what starts it again.
func (i *ecsInstance) killAgent() (back func()) {
	i.runner.kill()
	return func() { i.runner = i.agent() }
}
