package awsapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/shlex"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Sessions are the programs that clients run in containers, each with a terminal at the
// other end of a web socket, and the ports that they forward.
type Sessions interface {
	// Open makes a session in which a command is to run in the i-th container of a task. A
	// client connects to it with the token.
	Open(task string, i int, command []string) (id, token string, err error)
	// Forward makes a session that forwards a port of the i-th container of a task; local is the
	// client's port, 0 for any.
	Forward(task string, i int, port, local uint16) (id, token string, err error)
	// Resume gives the client of a session another token; false: it has ended.
	Resume(id string) (token string, ok bool)
	// Terminate ends a session, if it has not ended.
	Terminate(id string)
	// Serve makes a request the web socket of a session.
	Serve(w http.ResponseWriter, r *http.Request, id string)
}

// execute are the operations with which a client runs a program in a container.
type execute struct {
	*tasks
	sessions Sessions
}

const (
	// targetSSM is that of AWS Systems Manager, which has the sessions of ECS.
	targetSSM = "AmazonSSM."
	// channelPath is where web sockets are, as in AWS.
	channelPath = "/v1/data-channel/"
	// longestCommand is in bytes. The program that `ecsta cp` sends in a command has 37 kB; Linux takes
	// 128 KiB in one argument.
	longestCommand = 64 << 10
)

func (e *execute) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("ExecuteCommand", protocol.Honor("cluster", "container", "command!", "interactive!", "task!"), e.execute),
		protocol.Define("DiscoverPollEndpoint", protocol.Honor("cluster", "containerInstance"), e.endpoint),
	}
}

func (e *execute) operationsSSM() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("StartSession", protocol.Members(protocol.Honor("Target!", "DocumentName", "Parameters"), protocol.Keep[string]("the log names the session", "Reason")), e.startSession),
		protocol.Define("ResumeSession", protocol.Honor("SessionId!"), e.resume),
		protocol.Define("TerminateSession", protocol.Honor("SessionId!"), e.terminate),
	}
}

type executeIn struct {
	Cluster     string `json:"cluster"`
	Container   string `json:"container"`
	Command     string `json:"command"`
	Interactive bool   `json:"interactive"`
	Task        string `json:"task"`
}

// sessionDoc is a session in the answer of ECS.
type sessionDoc struct {
	ID        string `json:"sessionId"`
	StreamURL string `json:"streamUrl"`
	Token     string `json:"tokenValue"`
}

type executeAnswer struct {
	ClusterARN    string     `json:"clusterArn"`
	ContainerARN  string     `json:"containerArn"`
	ContainerName string     `json:"containerName"`
	Interactive   bool       `json:"interactive"`
	Session       sessionDoc `json:"session"`
	TaskARN       string     `json:"taskArn"`
}

func (e *execute) execute(ctx context.Context, in executeIn, _ protocol.Fields) (any, error) {
	if !in.Interactive {
		return nil, protocol.Invalidf("Interactive is the only mode supported currently.")
	}
	command, err := words(in.Command)
	if err != nil {
		return nil, err
	}
	cluster, err := e.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	s, ok, err := e.find(ctx, "task", cluster, in.Task)
	if err == nil && !ok {
		err = taskNotFound()
	}
	if err != nil {
		return nil, err
	}
	i, err := e.container(s, in.Container)
	if err != nil {
		return nil, err
	}
	stream, err := streamURL(ctx)
	if err != nil {
		return nil, err
	}
	id, token, err := e.sessions.Open(s.ID, i, command)
	if err != nil {
		return nil, protocol.Failf(protocol.CodeClient, "%v", err)
	}
	return executeAnswer{
		ClusterARN: arn.Cluster(cluster), ContainerARN: arn.Container(cluster, s.ID, i), ContainerName: s.Task.Containers[i].Name, Interactive: true,
		Session: sessionDoc{id, stream(id), token}, TaskARN: arn.Task(cluster, s.ID),
	}, nil
}

// container is the container of a task in which a command can run now. The name may be
// empty if there is one only.
func (e *execute) container(s lifecycle.State, name string) (i int, err error) {
	var names []string
	for _, c := range s.Task.Containers {
		names = append(names, c.Name)
	}
	switch i = slices.Index(names, name); {
	case name == "" && len(names) == 1:
		i = 0
	case name == "":
		return 0, protocol.Invalidf("container: the task has several: name one of %s", strings.Join(names, ", "))
	case i < 0:
		return 0, protocol.Invalidf("container: the task has no container %q: it has %s", protocol.Shortened(name), strings.Join(names, ", "))
	}
	if status := statusOf(s); status != "RUNNING" {
		return 0, protocol.Invalidf("task: it is %s, not RUNNING", status)
	}
	if !e.executable(s) {
		return 0, protocol.Invalidf("The execute command failed because execute command was not enabled when the task was run: run a new task with enableExecuteCommand, or use podtask exec")
	}
	if status := containerOf(s, clusterOf(s), i).LastStatus; status != "RUNNING" {
		return 0, protocol.Failf("TargetNotConnectedException", "The execute command failed: the container %s is %s, not RUNNING", names[i], status)
	}
	return i, nil
}

// words splits a command as AWS' agent does. It is no shell: ; | and > are words.
func words(command string) ([]string, error) {
	if len(command) > longestCommand {
		return nil, protocol.Invalidf("command: it has %d bytes, more than %d", len(command), longestCommand)
	}
	all, err := shlex.Split(command)
	if err != nil {
		return nil, protocol.Invalidf("command: %q cannot be split into words: %v", protocol.Shortened(command), err)
	}
	if len(all) == 0 || all[0] == "" || strings.ContainsRune(command, 0) {
		return nil, protocol.Invalidf("command: it is empty, or has a NUL")
	}
	return all, nil
}

type hostKey struct{}

// withHost keeps by which name the caller has reached this side: a tunnel may have another
// port. It is signed.
func withHost(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, hostKey{}, r.Host)
}

// streamURL makes the addresses of the data channels of sessions.
func streamURL(ctx context.Context) (func(id string) string, error) {
	host, _ := ctx.Value(hostKey{}).(string)
	if host == "" {
		return nil, protocol.Invalidf("a session needs a connection of its own: send the request to the address of aws-listen")
	}
	return func(id string) string {
		u := url.URL{Scheme: "ws", Host: host, Path: channelPath + id, RawQuery: "role=publish_subscribe"}
		return u.String()
	}, nil
}

// sessionID is that of a session, now or once.
var sessionID = lazy.MustCompile(`^(ecs-execute-command|port-forwarding)-[0-9a-f]{16}$`)

type sessionIn struct {
	ID string `json:"SessionId"`
}

// check refuses what was never the ID of a session.
func (in sessionIn) check() error {
	if !sessionID.MatchString(in.ID) {
		return protocol.Failf("DoesNotExistException", "SessionId: %q is no session of execute-command or of port forwarding", protocol.Shortened(in.ID))
	}
	return nil
}

// sessionAnswer is a session in answers of Systems Manager.
type sessionAnswer struct {
	ID        string `json:"SessionId"`
	StreamURL string `json:"StreamUrl"`
	Token     string `json:"TokenValue,omitempty"`
}

// resume answers without a token if the session has ended: by that the plugin knows it.
func (e *execute) resume(ctx context.Context, in sessionIn, _ protocol.Fields) (any, error) {
	stream, err := streamURL(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	token, _ := e.sessions.Resume(in.ID)
	return sessionAnswer{in.ID, stream(in.ID), token}, nil
}

func (e *execute) terminate(_ context.Context, in sessionIn, _ protocol.Fields) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	e.sessions.Terminate(in.ID)
	return struct {
		ID string `json:"SessionId"`
	}{in.ID}, nil
}
