//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// request reads a request from testdata/serviceconnect.
func request[In any](t *testing.T, name string) (in In) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "serviceconnect", name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The requests of a Service Connect tutorial: the namespace is that of the cluster, a service has a port name with a client
// alias, and another service of the namespace reaches it as DISCOVERY-NAME.NAMESPACE. What was sent comes back.
func TestServiceConnect(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_LIMITS=best-effort") // the bed has no cgroup controllers
	address := loopback(t)
	agent := b.agent("--aws-listen=" + address)
	c := ecsClient(b, address)
	ctx := t.Context()
	if _, err := c.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("tutorial"), ServiceConnectDefaults: &types.ClusterServiceConnectDefaultsRequest{Namespace: aws.String("service-connect")}}); err != nil {
		t.Fatal(err)
	}
	register := func(family, command string) *string {
		d := request[ecs.RegisterTaskDefinitionInput](t, "definition")
		d.Family, d.ContainerDefinitions[0].Image, d.ContainerDefinitions[0].Command = &family, aws.String(b.testbox()), words(command)
		if _, err := c.RegisterTaskDefinition(ctx, &d); err != nil {
			t.Fatal(err)
		}
		return d.Family
	}
	sent := request[ecs.CreateServiceInput](t, "service")
	sent.TaskDefinition = register(b.family, "term 0 -- serve 8080")
	made, err := c.CreateService(ctx, &sent)
	if err != nil {
		t.Fatal(err)
	}
	got := made.Service.Deployments[0].ServiceConnectConfiguration
	if got == nil || !got.Enabled || *got.Services[0].PortName != "nginx" || *got.Services[0].ClientAliases[0].Port != 80 || got.LogConfiguration.Options["awslogs-stream-prefix"] != "proxy" {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(made.Service.Events, func(e types.ServiceEvent) bool {
		return strings.Contains(*e.Message, "is reached as nginx.service-connect:80 in namespace service-connect")
	}) {
		t.Errorf("no event names the service: %+v", made.Service.Events)
	}
	twice := sent
	twice.ServiceName = aws.String("other")
	if _, err := c.CreateService(ctx, &twice); err == nil || !strings.Contains(err.Error(), "service web has the name nginx.service-connect:80") {
		t.Errorf("a name that is taken: %v", err)
	}
	client := sent
	client.ServiceName, client.TaskDefinition = aws.String("client"), register(b.family, "term 0 -- await http://nginx.service-connect/ -- print reached -- wait /tmp/go")
	client.ServiceConnectConfiguration = &types.ServiceConnectConfiguration{Enabled: true}
	if _, err := c.CreateService(ctx, &client); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client reaches the service", func() bool { return strings.Contains(b.podtask("logs", "client-1").out, "reached") })
	off := &ecs.UpdateServiceInput{Cluster: sent.Cluster, Service: sent.ServiceName, ServiceConnectConfiguration: &types.ServiceConnectConfiguration{Enabled: false}}
	if _, err := c.UpdateService(ctx, off); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the name is gone", func() bool {
		return b.podtask("exec", "client-1", "webserver", "/testbox", "get", "http://nginx.service-connect/").code != 0
	})
	for _, name := range []string{"client", "web"} {
		b.want(0, "service", "rm", "--force", "--wait", "--timeout=4m", name)
	}
	agent.end()
}
