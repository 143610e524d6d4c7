package kubeserve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/podtask/podtask/pkg/api/connlimit"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Config configures a Server.
type Config struct {
	// Node is the name of the node.
	Node string
	Pods Pods
	// Bound returns the Pods that are bound to the node, each a copy.
	Bound func() []*corev1.Pod
	// Settings are the settings of the node by their names in KubeletConfiguration.
	Settings map[string]any
	// Client asks the API server who a caller is and what it may do, with the identity of the node.
	Client kubernetes.Interface
	// ClientCAs sign the certificates of callers; nil: callers need a token. A certificate says
	// only who its owner is.
	ClientCAs *x509.CertPool
	// Certificate is the certificate of the endpoint.
	Certificate Certificate
	Log         *slog.Logger
}

// Certificate returns the present certificate of the endpoint.
type Certificate func() (*tls.Certificate, error)

// Server is the endpoint of one node.
type Server struct {
	cfg   Config
	guard *guard
	conns connections
}

// New makes a Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, guard: newGuard(cfg.Node, cfg.Client)}
}

// The limits of connections. A follower of a log or a shell may be idle for long.
const (
	maxConnections = 512
	headerTimeout  = 30 * time.Second // also of the handshake of TLS
	idleTimeout    = 5 * time.Minute
	maxHeader      = 128 << 10     // a command is in the path
	streamIdle     = 4 * time.Hour // as a kubelet (streamingConnectionIdleTimeout)
	streamCreation = 30 * time.Second
)

// Serve answers requests until ctx ends, and closes l. It then ends all streams.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	cas := s.cfg.ClientCAs
	if cas == nil {
		cas = x509.NewCertPool() // nil would mean those of the system
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := connlimit.New(maxConnections, nil)
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connContext,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"}, // SPDY and websockets upgrade a connection of HTTP/1.1
			ClientAuth:     tls.VerifyClientCertIfGiven,
			ClientCAs:      cas,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cfg.Certificate() },
		},
	}
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		s.conns.closeAll() // those that were upgraded are no longer the server's
	})
	defer stop()
	err := server.ServeTLS(limit.Listener(l), "", "")
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// connContext lets a request find its connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, c)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return connlimit.ConnContext(ctx, c)
}

// Handler answers the requests of callers that may make them.
func (s *Server) Handler() http.Handler {
	routes := mux.NewRouter()
	routes.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", s.serveLogs).Methods(http.MethodGet)
	routes.HandleFunc("/stats/summary", s.serveSummary).Methods(http.MethodGet)
	routes.HandleFunc("/metrics/resource", s.serveResource).Methods(http.MethodGet)
	routes.HandleFunc("/metrics", s.serveMetrics).Methods(http.MethodGet)
	routes.HandleFunc("/pods", s.servePods).Methods(http.MethodGet)
	routes.HandleFunc("/configz", s.serveConfig).Methods(http.MethodGet)
	routes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	exec := api.HandleContainerExec(s.exec, api.WithExecStreamIdleTimeout(streamIdle), api.WithExecStreamCreationTimeout(streamCreation))
	attach := api.HandleContainerAttach(s.attach, api.WithExecStreamIdleTimeout(streamIdle), api.WithExecStreamCreationTimeout(streamCreation))
	forward := api.HandlePortForward(s.forward, api.WithPortForwardStreamIdleTimeout(streamIdle), api.WithPortForwardCreationTimeout(streamCreation))
	for path, h := range map[string]http.HandlerFunc{
		"/exec/{namespace}/{pod}/{container}":         exec,
		"/exec/{namespace}/{pod}/{uid}/{container}":   exec,
		"/attach/{namespace}/{pod}/{container}":       attach,
		"/attach/{namespace}/{pod}/{uid}/{container}": attach,
		"/portForward/{namespace}/{pod}":              forward,
		"/portForward/{namespace}/{pod}/{uid}":        forward,
	} {
		routes.HandleFunc(path, h).Methods(http.MethodGet, http.MethodPost)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard.admit(r); err != nil {
			s.cfg.Log.Debug("refuse a request to the endpoint of the node", "path", r.URL.Path, "from", r.RemoteAddr, "error", err)
			http.Error(w, err.Error(), err.status)
			return
		}
		defer connlimit.Serving(r.Context())()
		defer s.conns.begin(r.Context())()
		routes.ServeHTTP(w, r)
	})
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ErrRefused):
		status = http.StatusBadRequest
	}
	// The status says that it is refused.
	http.Error(w, strings.TrimSuffix(err.Error(), ": "+ErrRefused.Error()), status)
}

// connections holds the connections on which a request is served. Streams take theirs over from the HTTP server, which
// then no longer closes them.
type connections struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

type connKey struct{}

// begin notes the connection of a request until done is called.
func (c *connections) begin(ctx context.Context) (done func()) {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if conn == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[net.Conn]bool)
	}
	c.all[conn] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, conn)
	}
}

func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.all {
		_ = conn.Close()
	}
}
