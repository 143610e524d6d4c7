package taskdef

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const withSidecars = `
family: shop
networkMode: bridge
containerDefinitions:
  - {name: router, image: fluent:1, memory: 64, essential: false, firelensConfiguration: {type: fluentbit}}
  - name: web
    image: web:1
    memory: 64
    versionConsistency: disabled
    links: ["agent:dd", "db"]
    dependsOn: [{containerName: agent, condition: START}, {containerName: db, condition: START}]
    volumesFrom: [{sourceContainer: agent}]
    logConfiguration: {logDriver: awsfirelens, options: {Name: stdout}}
  - {name: agent, image: agent:1, memory: 64, essential: false}
  - {name: db, image: web:1, memory: 64}
`

func TestContainersAreLeftOutWithAllThatNamesThem(t *testing.T) {
	t.Parallel()
	task, _, err := Parse("f", []byte(withSidecars))
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Adjust(Adjustments{LeaveOut: []string{"agent", "router"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Containers) != 2 || got.Containers[0].Name != "web" || got.Containers[1].Name != "db" {
		t.Fatalf("left are %+v", got.Containers)
	}
	web := got.Containers[0]
	if len(web.DependsOn) != 1 || web.DependsOn[0].Container != 1 || len(web.Net.Links) != 1 || web.Net.Links[0].Container != 1 || len(web.VolumesFrom) > 0 {
		t.Errorf("web still names what is left out: %+v %+v %+v", web.DependsOn, web.Net.Links, web.VolumesFrom)
	}
	if web.Log != nil {
		t.Errorf("web logs to a router that is left out: %+v", web.Log)
	}
	if len(task.Containers) != 4 || len(task.Containers[1].DependsOn) != 2 || task.Containers[1].DependsOn[0].Container != 2 {
		t.Errorf("the task itself changed: %+v", task.Containers[1])
	}
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"agnet"}, `did you mean "agent"?`},
		{[]string{"web", "db"}, "no essential container is left"},
	} {
		_, err := task.Adjust(Adjustments{LeaveOut: tt.names})
		if invalid := new(InvalidError); !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.names, err)
		}
	}
}

func TestImagesAreReplaced(t *testing.T) {
	t.Parallel()
	task, _, err := Parse("f", []byte(withSidecars))
	if err != nil {
		t.Fatal(err)
	}
	task.Containers[3].Extensions.Kube.Images = []ImageMount{{Image: "data:1", Path: "/data"}}
	if got := task.Images(); !slices.Equal(got, []string{"fluent:1", "web:1", "agent:1", "data:1"}) {
		t.Errorf("the images are %v", got)
	}
	pinned := "web:1@sha256:" + strings.Repeat("a", 64)
	got, err := task.Adjust(Adjustments{Images: map[string]string{"web:1": pinned, "data:1": "data@sha256:b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Containers[1].Image != pinned || got.Containers[1].Unpinned || got.Containers[3].Image != pinned || got.Containers[2].Image != "agent:1" {
		t.Errorf("the containers have %v", got.Images())
	}
	if got.Containers[3].Extensions.Kube.Images[0].Image != "data@sha256:b" || task.Containers[3].Extensions.Kube.Images[0].Image != "data:1" {
		t.Errorf("the volume has %+v, that of the task itself %+v", got.Containers[3].Extensions.Kube.Images, task.Containers[3].Extensions.Kube.Images)
	}
}
