package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

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
			Log: a.log, Settings: a.settings, Engine: a.engine, Backend: backend, StateDir: a.host.StateDir, Socket: a.socket, Getenv: a.getenv, Handle: server.Handle, Listen: listen, Collect: m.Add, Run: func(do func(context.Context) error) { a.beside = append(a.beside, do) },
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
		if !ofThisHost(r.Host) {
			http.Error(w, "The request is for another host: ask localhost, or a proxy in front to set the header Host.", http.StatusMisdirectedRequest)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	return command.TCPServer{What: "metrics", Handler: scrape, Connections: 32}
}

// ofThisHost reports whether a Host header names this machine. A page of another site may have its name resolve to the loopback
// address and read what answers there (DNS rebinding); the browser then says the name of the site. Addresses, names of one word
// and those that nobody can register (RFC 6761, and .internal of ICANN) are of no site.
func ofThisHost(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return true
	}
	own, err := os.Hostname()
	return strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal") || err == nil && host == strings.ToLower(own)
}
