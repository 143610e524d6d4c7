package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/metrics"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// tcpServers are the servers of an agent on TCP addresses.
type tcpServers []command.TCPServer

// addParts lets the parts add to the agent.
func (a *agentRun) addParts(backend serve.AgentBackend, server *api.Server, m *metrics.Metrics) (err error) {
	var servers tcpServers
	defer func() {
		if err != nil {
			servers.close()
		}
	}()
	listen := func(s command.TCPServer, key, address string) error {
		if address == "" {
			return nil
		}
		var err error
		if s.Listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("listen for %s: %w; choose another %s", s.What, err, key)
		}
		a.log.Info("listening", "for", s.What, "address", s.Listener.Addr().String())
		servers = append(servers, s)
		return nil
	}
	if err := listen(metricsServer(m.Handler()), "metrics-listen", a.settings.Agent.MetricsListen); err != nil {
		return err
	}
	if missing := a.build.MissingSetting("aws-listen"); missing != "" && a.settings.Agent.AWSListen != "" {
		return errors.New("aws-listen: " + missing + ", or leave the key out")
	}
	for _, p := range a.build.Parts {
		if p.Agent == nil {
			continue
		}
		err := p.Agent(&part.Agent{
			Log: a.log, Settings: a.settings, Engine: a.engine, Backend: backend, StateDir: a.host.StateDir, Getenv: a.getenv, Handle: server.Handle, Listen: listen, Collect: m.Add, Run: func(do func(context.Context) error) { a.beside = append(a.beside, do) },
		})
		if err != nil {
			return err
		}
	}
	for _, s := range servers {
		a.beside = append(a.beside, s.Serve)
	}
	return nil
}

// close ends the servers that do not serve yet.
func (s tcpServers) close() {
	for _, open := range s {
		_ = open.Listener.Close()
	}
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
