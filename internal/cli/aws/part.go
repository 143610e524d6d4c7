package aws

import (
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/aws/adapter"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awskey"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/serve/metrics/awsmetrics"
	"github.com/podtask/podtask/internal/state"
)

// Part is the part aws.
func Part() part.Part {
	const own = "of the host's own loopback: run it there"
	return part.Part{
		Name: "aws",
		Commands: func(p *command.Program) []part.Command {
			return []part.Command{{Command: Command(p), Group: "Amazon ECS and Kubernetes"}}
		},
		Routes: func() map[string]part.Route {
			return map[string]part.Route{
				"aws env":     {Place: part.Refused, Why: "the address that it prints is " + own},
				"aws profile": {Place: part.Refused, Why: "the address that it writes is " + own},
				"aws key":     {},
			}
		},
		Agent: serve,
	}
}

// serve adds the ECS API to an agent: without signatures to its socket, with them to the TCP address aws-listen.
func serve(a *part.Agent) error {
	ecs := adapter.NewECS(a.Backend)
	sessions := adapter.NewECSSessions(ecs)
	definitions, err := define.OpenCatalog(a.StateDir, "podtask agent")
	if err != nil {
		return err
	}
	records, err := adapter.OpenECSRecords(a.StateDir)
	if err != nil {
		return err
	}
	scaled, err := scaling.Open(a.StateDir, state.OS{})
	if err != nil {
		return err
	}
	server := awsapi.New(awsapi.Config{
		Log: a.Log, Key: func() (sigv4.Key, error) { return awskey.Load(a.StateDir) }, Definitions: definitions, Records: records,
		Tasks: ecs, Parser: ecs, Host: ecs, Logs: ecs, Sessions: sessions, Services: adapter.NewECSServices(a.Backend), Now: time.Now,
		Scaling:  adapter.Scaling{Store: scaled, Calendar: schedule.SystemdCalendar{Path: a.Getenv("PATH")}},
		Registry: adapter.Registries(a.Settings.Rules), ExpressDomain: a.Settings.AWS.ExpressDomain, Throttling: a.Settings.AWS.Throttling, NoDefaultCluster: !a.Settings.AWS.DefaultCluster,
	})
	a.Collect(awsmetrics.New(func() (all []awsmetrics.Count) {
		for r, n := range server.Requests() {
			all = append(all, awsmetrics.Count{Operation: r.Operation, Outcome: r.Outcome, N: n})
		}
		return all
	}))
	a.Handle("POST /{$}", server.Trusted())
	signed := signedServer(server.Signed())
	signed.Ended = sessions.Close
	return a.Listen(signed, "aws-listen", a.Settings.Agent.AWSListen)
}

// signedServer is the server of AWS clients.
func signedServer(signed http.Handler) command.TCPServer {
	return command.TCPServer{What: "the ECS API", Handler: signed, Connections: 64}
}
