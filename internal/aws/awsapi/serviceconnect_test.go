package awsapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/pkg/service"
)

func TestConnectGivesTheNamesOfECS(t *testing.T) {
	t.Parallel()
	registry := func(arn string) (string, bool) {
		name, ok := strings.CutPrefix(arn, "arn:aws:servicediscovery:eu-west-1:111122223333:service/srv-")
		return name + ".shop.local", ok
	}
	web := func(name string, port uint16) service.Name {
		return service.Name{Name: name, Port: port, PortName: "web"}
	}
	for name, c := range map[string]struct {
		connect, registries, cluster string
		want                         service.Names
		noted, refused               string
	}{
		"off":                {connect: `{"enabled": false, "namespace": "n", "services": [{"portName": "web"}]}`},
		"client only":        {connect: `{"enabled": true, "namespace": "n"}`, want: service.Names{Namespace: "n"}},
		"cluster's":          {connect: `{"enabled": true}`, cluster: "c", want: service.Names{Namespace: "c"}},
		"by ARN":             {connect: `{"enabled": true, "namespace": "arn:aws:servicediscovery:eu-west-1:111122223333:namespace/ns-x"}`, want: service.Names{Namespace: "ns-x"}},
		"alias without name": {connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web", "clientAliases": [{"port": 80}]}]}`, want: service.Names{Namespace: "n", Offered: []service.Name{web("web.n", 80)}}},
		"discovery name":     {connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web", "discoveryName": "shop", "clientAliases": [{"port": 80}]}]}`, want: service.Names{Namespace: "n", Offered: []service.Name{web("shop.n", 80)}}},
		"alias":              {connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web", "clientAliases": [{"port": 80, "dnsName": "Shop"}]}]}`, want: service.Names{Namespace: "n", Offered: []service.Name{web("shop", 80)}}},
		"no alias":           {connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web"}]}`, want: service.Names{Namespace: "n", Offered: []service.Name{web("web.n", 0)}}},
		"no effect": {
			connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web", "tls": {"issuerCertificateAuthority": {}}, "clientAliases": [{"port": 80, "dnsName": "a"}]}], "logConfiguration": {"logDriver": "awslogs"}}`,
			want:    service.Names{Namespace: "n", Offered: []service.Name{web("a", 80)}}, noted: "keeps serviceConnectConfiguration.logConfiguration, which has no effect on this host. keeps serviceConnectConfiguration.services[0].tls,",
		},
		"registry":           {registries: `[{"registryArn": "arn:aws:servicediscovery:eu-west-1:111122223333:service/srv-orders"}]`, want: service.Names{Namespace: "shop.local", Offered: []service.Name{{Name: "orders.shop.local"}}}},
		"registry's port":    {registries: `[{"registryArn": "arn:aws:servicediscovery:eu-west-1:111122223333:service/srv-a", "containerName": "app", "containerPort": 80}]`, want: service.Names{Namespace: "shop.local", Offered: []service.Name{{Name: "a.shop.local", Port: 80, Container: "app", ContainerPort: 80}}}},
		"unknown registry":   {registries: `[{"registryArn": "arn:aws:servicediscovery:eu-west-1:111122223333:service/x"}]`, noted: `keeps serviceRegistries[0], which has no effect`},
		"no namespace":       {connect: `{"enabled": true, "services": [{}]}`, refused: "serviceConnectConfiguration.namespace is required: the cluster has no serviceConnectDefaults with one; serviceConnectConfiguration.services[0].portName is required"},
		"bad namespace":      {connect: `{"enabled": true, "namespace": "a b"}`, refused: `the namespace "a b"`},
		"port":               {connect: `{"enabled": true, "namespace": "n", "services": [{"portName": "web", "clientAliases": [{}, {"port": 70000}]}]}`, refused: "clientAliases[0].port is 1 to 65535; serviceConnectConfiguration.services[0].clientAliases[1].port"},
		"half of a registry": {registries: `[{"registryArn": "arn:aws:servicediscovery:eu-west-1:111122223333:service/srv-a", "containerName": "app"}, {}]`, refused: "belong together; serviceRegistries[1].registryArn is required"},
	} {
		kept := make(protocol.Fields)
		if c.connect != "" {
			kept[connectMember] = json.RawMessage(c.connect)
		}
		if c.registries != "" {
			kept[registriesMember] = json.RawMessage(c.registries)
		}
		got, notes, err := serviceNames(kept, c.cluster, registry)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", name, err, c.refused)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || !strings.Contains(strings.Join(notes, " "), c.noted) || c.noted == "" && len(notes) > 0 {
			t.Errorf("%s: %v, %q\n%s", name, err, notes, diff)
		}
	}
}

// Whatever a client sends becomes names that can be checked, or an error.
func FuzzServiceNames(f *testing.F) {
	f.Add(`{"enabled": true, "namespace": "n", "services": [{"portName": "web", "clientAliases": [{"port": 80, "dnsName": "a"}]}]}`, `[{"registryArn": "a", "port": 1}]`)
	f.Fuzz(func(t *testing.T, connect, registries string) {
		names, _, err := serviceNames(protocol.Fields{connectMember: json.RawMessage(connect), registriesMember: json.RawMessage(registries)}, "", func(arn string) (string, bool) { return arn, true })
		if err == nil && len(names.Offered) > 0 && names.Namespace == "" {
			t.Errorf("names without a namespace: %+v", names)
		}
	})
}
