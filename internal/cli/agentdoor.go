package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/aws/adapter"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/awskey"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// door is a TCP address of an agent on loopback.
type door struct {
	what        string
	listener    net.Listener
	handler     http.Handler
	connections int // how many may be open
	// ended, if not nil, is called when requests are no longer served.
	ended func()
}

// openDoors listens on the configured addresses. The ECS API is on the agent's socket too.
func (a *agentRun) openDoors(backend serve.AgentBackend, server *api.Server, metrics http.Handler) (doors []door, err error) {
	ecs := adapter.NewECS(backend)
	sessions := adapter.NewECSSessions(ecs)
	aws, err := a.awsServer(backend, ecs, sessions)
	if err != nil {
		return nil, err
	}
	server.Handle("POST /{$}", aws.Trusted())
	served := awsDoor(aws.Signed())
	served.ended = sessions.Close
	for _, d := range []struct {
		address, key string
		door
	}{
		{a.config.Agent.MetricsListen, "metrics-listen", metricsDoor(metrics)},
		{a.config.Agent.AWSListen, "aws-listen", served},
	} {
		if d.address == "" {
			continue
		}
		if d.listener, err = net.Listen("tcp", d.address); err != nil {
			for _, open := range doors {
				_ = open.listener.Close()
			}
			return nil, fmt.Errorf("listen for %s: %w; choose another %s", d.what, err, d.key)
		}
		a.Log.Info("listening", "for", d.what, "address", d.listener.Addr().String())
		doors = append(doors, d.door)
	}
	return doors, nil
}

// metricsDoor serves metrics.
func metricsDoor(metrics http.Handler) door {
	scrape := http.NewServeMux()
	scrape.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		defer connlimit.Serving(r.Context())()
		metrics.ServeHTTP(w, r)
	})
	return door{what: "metrics", handler: scrape, connections: 32}
}

// awsDoor serves requests of AWS clients.
func awsDoor(signed http.Handler) door {
	return door{what: "the ECS API", handler: signed, connections: 64}
}

// awsServer answers clients of ECS.
func (a *agentRun) awsServer(backend serve.AgentBackend, ecs adapter.ECS, sessions adapter.ECSSessions) (*awsapi.Server, error) {
	definitions, err := define.OpenCatalog(a.StateDir, "podtask agent")
	if err != nil {
		return nil, err
	}
	records, err := adapter.OpenECSRecords(a.StateDir)
	if err != nil {
		return nil, err
	}
	return awsapi.New(awsapi.Config{
		Log: a.Log, Key: func() (sigv4.Key, error) { return awskey.Load(a.StateDir) }, Definitions: definitions, Records: records,
		Tasks: ecs, Parser: ecs, Host: ecs, Logs: ecs, Sessions: sessions, Services: adapter.NewECSServices(backend), Now: time.Now,
	}), nil
}

// serve answers until ctx ends.
func (d door) serve(ctx context.Context) error {
	server := &http.Server{
		Handler: d.handler, ConnContext: connlimit.ConnContext,
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if d.ended != nil {
		defer d.ended()
	}
	limited := connlimit.New(connlimit.Share(8, d.connections), nil).Listener(d.listener)
	if err := server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", d.what, err)
	}
	return nil
}
