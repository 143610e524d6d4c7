package metadata

import (
	"cmp"
	"net/netip"
	"path"
	"strconv"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// FileEnv names the variable with the path of the metadata file, FileName is its
// last element (ECS agent).
const (
	FileEnv  = "ECS_CONTAINER_METADATA_FILE"
	FileName = "ecs-container-metadata.json"
)

// FileDir returns the directory in which a container has its metadata file. key is
// the task's.
func FileDir(key, container string) string {
	return path.Join("/opt/ecs/metadata", containerID(key, container))
}

// File is the document of the metadata file. The keys are those of the ECS agent;
// what needs AWS is left out.
type File struct {
	Cluster                string
	TaskARN                string
	TaskDefinitionFamily   string
	TaskDefinitionRevision string
	ContainerID            string `json:",omitempty"`
	ContainerName          string
	DockerContainerName    string
	ImageID                string     `json:",omitempty"`
	ImageName              string     `json:",omitempty"`
	PortMappings           []FilePort `json:",omitempty"`
	Networks               []Network  `json:",omitempty"`
	// MetadataFileStatus is READY once the document is complete, and absent before.
	MetadataFileStatus string `json:",omitempty"`
}

// FilePort is a published port in the metadata file.
type FilePort struct {
	ContainerPort uint16
	HostPort      uint16
	BindIP        string `json:"BindIp"`
	Protocol      string
}

// FileOf returns the document about container i of a task, addresses being those of
// its network namespace. It is ready when the container has been created.
func FileOf(s lifecycle.State, i int, n Names, addresses []netip.Addr) File {
	c := ContainerOf(s, i, n, addresses)
	f := File{
		Cluster: n.Cluster, TaskARN: n.TaskARN, TaskDefinitionFamily: s.Task.Family, TaskDefinitionRevision: cmp.Or(n.Revision, strconv.Itoa(s.Task.Revision)),
		ContainerName: c.Name, DockerContainerName: c.DockerName,
	}
	if c.DockerID == "" {
		return f
	}
	f.ContainerID, f.ImageID, f.ImageName, f.Networks, f.MetadataFileStatus = c.DockerID, c.ImageID, c.Image, c.Networks, "READY"
	for _, p := range c.Ports {
		f.PortMappings = append(f.PortMappings, FilePort{ContainerPort: p.ContainerPort, HostPort: p.HostPort, BindIP: p.HostIP, Protocol: p.Protocol})
	}
	return f
}
