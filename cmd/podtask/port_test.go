package main

import (
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

// In bridge mode a port of a container is also one of the task.
func TestEachPublishedPortIsListedOnce(t *testing.T) {
	t.Parallel()
	web := api.Port{ContainerPort: 80, HostPort: 8080, Protocol: "tcp"}
	dns := api.Port{ContainerPort: 53, HostPort: 5353, Protocol: "udp"}
	rows := publishedPorts(api.Task{Ports: []api.Port{web, dns}, Containers: []api.Container{{Name: "app", Ports: []api.Port{web}}}})
	want := []portRow{{Container: "app", Port: web}, {Port: dns}}
	if len(rows) != len(want) || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("ports %v, want %v", rows, want)
	}
}
