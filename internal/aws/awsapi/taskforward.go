package awsapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// forwardDocument is the document of Systems Manager that is answered.
const forwardDocument = "AWS-StartPortForwardingSession"

type startSessionIn struct {
	Target     string              `json:"Target"`
	Document   string              `json:"DocumentName"`
	Parameters map[string][]string `json:"Parameters"`
}

// ports returns the port of the container and that of the client; 0 if the client chooses one.
func (in startSessionIn) ports() (port, local uint16, err error) {
	for name, values := range in.Parameters {
		if name != "portNumber" && name != "localPortNumber" {
			return 0, 0, protocol.Failf("InvalidParameters", "Parameters: %s has portNumber and localPortNumber, not %q", forwardDocument, protocol.Shortened(name))
		}
		if len(values) != 1 {
			return 0, 0, protocol.Failf("InvalidParameters", "Parameters: %s has one value, not %d", name, len(values))
		}
	}
	number := func(name, usual string) uint16 {
		text := usual
		if v := in.Parameters[name]; len(v) == 1 {
			text = v[0]
		}
		n, wrong := strconv.ParseUint(text, 10, 16)
		if wrong != nil && err == nil {
			err = protocol.Failf("InvalidParameters", "Parameters: %s %q is no port", name, protocol.Shortened(text))
		}
		return uint16(n)
	}
	port, local = number("portNumber", "80"), number("localPortNumber", "0")
	if err == nil && port == 0 {
		err = protocol.Failf("InvalidParameters", "Parameters: portNumber 0 is no port of a container")
	}
	return port, local, err
}

// startSession forwards a port of a container. The target is ecs:CLUSTER_TASK_RUNTIMEID.
func (e *execute) startSession(ctx context.Context, in startSessionIn, _ protocol.Fields) (any, error) {
	if in.Document != forwardDocument {
		return nil, protocol.Failf("InvalidDocument", "DocumentName: podtask has the document %s for ports of containers, not %q: run programs with `aws ecs execute-command`", forwardDocument, protocol.Shortened(in.Document))
	}
	port, local, err := in.ports()
	if err != nil {
		return nil, err
	}
	task, i, err := e.target(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	stream, err := streamURL(ctx)
	if err != nil {
		return nil, err
	}
	id, token, err := e.sessions.Forward(task, i, port, local)
	if err != nil {
		return nil, protocol.Failf(protocol.CodeClient, "%v", err)
	}
	return sessionAnswer{id, stream(id), token}, nil
}

// target finds the container of a target. It has to be one in which commands may be run.
func (e *execute) target(ctx context.Context, text string) (task string, i int, err error) {
	refused := func(why string) error {
		return protocol.Failf("TargetNotConnected", "%s is not connected: %s", protocol.Shortened(text), why)
	}
	rest, ok := strings.CutPrefix(text, "ecs:")
	parts := strings.Split(rest, "_")
	n := len(parts)
	if !ok || n < 3 {
		return "", 0, refused("a target is ecs:CLUSTER_TASK_RUNTIMEID")
	}
	cluster, err := e.clusters.active(strings.Join(parts[:n-2], "_"))
	if err != nil {
		return "", 0, refused("there is no such cluster")
	}
	s, ok, err := e.find(ctx, "Target", cluster, parts[n-2])
	if err != nil || !ok {
		return "", 0, refused("there is no such task")
	}
	var ids []string
	for _, c := range s.Containers {
		ids = append(ids, c.ID)
	}
	if i = slices.Index(ids, parts[n-1]); i < 0 || parts[n-1] == "" {
		return "", 0, refused("no container of the task has that runtime ID")
	}
	if _, err := e.container(s, s.Task.Containers[i].Name); err != nil {
		return "", 0, refused(protocol.AsFailure(err).Message)
	}
	return s.ID, i, nil
}

// endpoint answers the address by which the caller has reached this side, for each of the members that ECS answers:
// tools give it to AWS' plugin, which sends the requests of its session there.
func (e *execute) endpoint(ctx context.Context, _ struct{}, _ protocol.Fields) (any, error) {
	host, _ := ctx.Value(hostKey{}).(string)
	if host == "" {
		return nil, protocol.Invalidf("the agent has an address for clients on aws-listen only: send the request there")
	}
	address := "http://" + host + "/"
	return struct {
		Endpoint       string `json:"endpoint"`
		Telemetry      string `json:"telemetryEndpoint"`
		ServiceConnect string `json:"serviceConnectEndpoint"`
	}{address, address, address}, nil
}
