package metadata

import (
	"encoding/json"
	"testing"
)

func TestFile(t *testing.T) {
	t.Parallel()
	src := source(running())
	for i, want := range []string{
		`{"Cluster":"podtask","TaskARN":"arn:task","TaskDefinitionFamily":"shop","TaskDefinitionRevision":"3","ContainerID":"c0ffee","ContainerName":"web",` +
			`"DockerContainerName":"podtask-web","ImageID":"sha256:beef","ImageName":"example.com/web:1",` +
			`"PortMappings":[{"ContainerPort":80,"HostPort":32768,"BindIp":"","Protocol":"tcp"}],` +
			`"Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.100"],"IPv6Addresses":["fd00::1"]}],"MetadataFileStatus":"READY"}`,
		// A container that is not there yet.
		`{"Cluster":"podtask","TaskARN":"arn:task","TaskDefinitionFamily":"shop","TaskDefinitionRevision":"3","ContainerName":"job","DockerContainerName":"podtask-job"}`,
	} {
		got, err := json.Marshal(FileOf(running(), i, src.Names, src.Addresses))
		if err != nil || string(got) != want {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}
