package agent

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/aws/adapter"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awskey"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// listenTCP listens on the configured TCP addresses, and adds the ECS API to the agent's socket.
func (a *agentRun) listenTCP(backend serve.AgentBackend, server *api.Server, metrics http.Handler) (servers []command.TCPServer, err error) {
	ecs := adapter.NewECS(backend)
	sessions := adapter.NewECSSessions(ecs)
	aws, err := a.awsServer(backend, ecs, sessions)
	if err != nil {
		return nil, err
	}
	server.Handle("POST /{$}", aws.Trusted())
	served := signedServer(aws.Signed())
	served.Ended = sessions.Close
	for _, d := range []struct {
		address, key string
		command.TCPServer
	}{
		{a.settings.Agent.MetricsListen, "metrics-listen", metricsServer(metrics)},
		{a.settings.Agent.AWSListen, "aws-listen", served},
	} {
		if d.address == "" {
			continue
		}
		if d.Listener, err = net.Listen("tcp", d.address); err != nil {
			for _, open := range servers {
				_ = open.Listener.Close()
			}
			return nil, fmt.Errorf("listen for %s: %w; choose another %s", d.What, err, d.key)
		}
		a.log.Info("listening", "for", d.What, "address", d.Listener.Addr().String())
		servers = append(servers, d.TCPServer)
	}
	return servers, nil
}

// metricsServer is the server of metrics.
func metricsServer(metrics http.Handler) command.TCPServer {
	scrape := http.NewServeMux()
	scrape.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		defer connlimit.Serving(r.Context())()
		metrics.ServeHTTP(w, r)
	})
	return command.TCPServer{What: "metrics", Handler: scrape, Connections: 32}
}

// signedServer is the server of AWS clients.
func signedServer(signed http.Handler) command.TCPServer {
	return command.TCPServer{What: "the ECS API", Handler: signed, Connections: 64}
}

// awsServer returns the server of the ECS API.
func (a *agentRun) awsServer(backend serve.AgentBackend, ecs adapter.ECS, sessions adapter.ECSSessions) (*awsapi.Server, error) {
	definitions, err := define.OpenCatalog(a.host.StateDir, "podtask agent")
	if err != nil {
		return nil, err
	}
	records, err := adapter.OpenECSRecords(a.host.StateDir)
	if err != nil {
		return nil, err
	}
	return awsapi.New(awsapi.Config{
		Log: a.log, Key: func() (sigv4.Key, error) { return awskey.Load(a.host.StateDir) }, Definitions: definitions, Records: records,
		Tasks: ecs, Parser: ecs, Host: ecs, Logs: ecs, Sessions: sessions, Services: adapter.NewECSServices(backend), Now: time.Now,
		Registry: adapter.Registries(a.settings.Rules),
	}), nil
}
