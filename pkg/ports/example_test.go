package ports_test

import (
	"fmt"

	"github.com/podtask/podtask/pkg/ports"
)

// Plan chooses host ports for mappings that have none, and refuses ports that are in use.
func ExamplePlan() {
	host := ports.Host{
		UnprivilegedStart: 1024,
		Free:              func(protocol, ip string) (uint16, error) { return 49152, nil },
		Taken:             func(protocol, ip string, port uint16) bool { return port == 5432 },
	}
	planned, err := ports.Plan([]ports.Mapping{
		{Container: "server", ContainerPort: 80, HostPort: 8080, Protocol: "tcp"},
		{Container: "server", ContainerPort: 443, Protocol: "tcp"},
	}, host)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range planned {
		fmt.Println(m.ContainerPort, "on", m.HostPort)
	}

	_, err = ports.Plan([]ports.Mapping{{Container: "db", ContainerPort: 5432, HostPort: 5432, Protocol: "tcp"}}, host)
	fmt.Println("5432 can be published:", err == nil)
	// Output:
	// 80 on 8080
	// 443 on 49152
	// 5432 can be published: false
}
