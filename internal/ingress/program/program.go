package program

import (
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/buildversion"
	"github.com/podtask/podtask/internal/ingress"
)

// options are the flags.
type options struct {
	plain, secure       string
	stateDir, socket    string
	email, directory    string
	roots, dnsProgram   string
	drain               time.Duration
	maxConnections      int
	debug, printVersion bool
	version             string
}

const (
	exitFailure  = 125
	defaultDrain = 30 * time.Second
)

// Main runs the program with the streams and the environment of this process, and returns the exit code.
// Version is the version of the program; if it is empty, that of the main module.
func Main(ctx context.Context, args []string, version string) int {
	var err error
	if os.Getenv(launchEnv) == launcher {
		err = launch()
	} else {
		err = run(ctx, args[1:], version, os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		return exitFailure
	}
	return 0
}

func run(ctx context.Context, args []string, version string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr, os.Getenv)
	if err != nil {
		return err
	}
	o.version = buildversion.Of(version)
	if o.printVersion {
		_, err := fmt.Fprintln(stdout, ingress.Program+" version "+o.version)
		return err
	}
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	return serve(ctx, o, log, signals)
}

// parse reads the flags. The directories default to those of podtask.
func parse(args []string, stderr io.Writer, getenv func(string) string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(ingress.Program, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.plain, "http", ":80", "listen for requests without TLS on `ADDRESS`; none for nowhere")
	f.StringVar(&o.secure, "https", ":443", "listen for requests with TLS on `ADDRESS`; none for nowhere")
	f.StringVar(&o.stateDir, "state-dir", "", "read routes and keep certificates below `DIRECTORY` ($XDG_STATE_HOME/podtask)")
	f.StringVar(&o.socket, "socket", "", "answer the agent on the socket `FILE` ($XDG_RUNTIME_DIR/podtask/ingress/ingress.sock)")
	f.StringVar(&o.email, "acme-email", "", "`ADDRESS` to which the certificate authority writes")
	f.StringVar(&o.directory, "acme-directory", "", "`URL` of the directory of the ACME server (Let's Encrypt)")
	f.StringVar(&o.roots, "acme-roots", "", "`FILE` with the authorities that the ACME server's own certificate may be of (those of the host)")
	f.StringVar(&o.dnsProgram, "acme-dns-program", "", "prove names by DNS records that `PROGRAM`, with arguments, makes")
	f.DurationVar(&o.drain, "drain", defaultDrain, "let requests finish for `TIME` after SIGTERM")
	f.IntVar(&o.maxConnections, "max-connections", defaultConnections(), "keep at most `NUMBER` connections open")
	f.BoolVar(&o.debug, "debug", false, "log more")
	f.BoolVar(&o.printVersion, "version", false, "print the version")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%s takes no argument %q", ingress.Program, f.Arg(0))
	}
	var errs []error
	if o.stateDir == "" {
		var err error
		o.stateDir, err = home(getenv, "XDG_STATE_HOME", ".local/state")
		errs = append(errs, err)
	}
	if o.socket == "" {
		if base := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
			o.socket = ingress.SocketPath(filepath.Join(base, "podtask"))
		} else if base := fmt.Sprintf("/run/user/%d", os.Getuid()); isDir(base) { // started by the system's systemd
			o.socket = ingress.SocketPath(filepath.Join(base, "podtask"))
		} else {
			errs = append(errs, errors.New("--socket: XDG_RUNTIME_DIR is not set to an absolute path"))
		}
	}
	if o.drain < 0 || o.maxConnections < 1 {
		errs = append(errs, errors.New("--drain is 0 or more, and --max-connections 1 or more"))
	}
	return o, errors.Join(errs...)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func home(getenv func(string) string, variable, below string) (string, error) {
	if base := getenv(variable); filepath.IsAbs(base) {
		return filepath.Join(base, "podtask"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, "podtask"), nil
	}
	return "", fmt.Errorf("--state-dir: set HOME or %s to an absolute path", variable)
}

// rootPool reads the authorities of a file; nil for no file.
func rootPool(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--acme-roots: %s has no certificate in PEM", path)
	}
	return pool, nil
}
