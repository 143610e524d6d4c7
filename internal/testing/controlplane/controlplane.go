package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/testing/freeport"
)

// The parts of a control plane.
const (
	Etcd        = "etcd"
	Server      = "kube-apiserver"
	Controllers = "kube-controller-manager"
	Scheduler   = "kube-scheduler"
)

// Plane is a running control plane. Its methods are for one goroutine, except Kubectl.
type Plane struct {
	// URL is that of the API server.
	URL string
	// Admin is the kubeconfig file of a user who may do everything.
	Admin string

	program, dir string
	ca           *authority
	flags        map[string][]string
	running      map[string]*process
}

// process is a running part.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startLimit is the time that the parts have to come up, on a busy machine.
const startLimit = 5 * time.Minute

// look is how often they are asked.
const look = 100 * time.Millisecond

// Start starts a control plane with the program of internal/testing/controlplane/testdata/kubernetes. It keeps everything in dir and
// returns once Pods can be created.
func Start(ctx context.Context, program, dir string) (*Plane, error) {
	p := &Plane{program: program, dir: dir, running: make(map[string]*process)}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := p.startAll(ctx)
	if err != nil {
		err = errors.Join(err, p.Close())
		return nil, err
	}
	return p, nil
}

func (p *Plane) startAll(ctx context.Context) error {
	if err := errors.Join(p.Run(Etcd), p.Run(Server)); err != nil {
		return err
	}
	if err := p.Await(ctx, "get", "--raw", "/readyz"); err != nil {
		return err
	}
	if err := errors.Join(p.Run(Controllers), p.Run(Scheduler)); err != nil {
		return err
	}
	// The API server calls nodes as this user; kubeadm binds it likewise.
	if _, err := p.Kubectl(ctx, "", "create", "clusterrolebinding", kubeletClient, "--clusterrole=system:kubelet-api-admin", "--user="+kubeletClient); err != nil {
		return err
	}
	return p.Await(ctx, "get", "serviceaccount", "default") // without it no Pod is admitted
}

// Close ends all parts. The files stay.
func (p *Plane) Close() error {
	var errs []error
	for _, part := range []string{Scheduler, Controllers, Server, Etcd} {
		errs = append(errs, p.Kill(part))
	}
	return errors.Join(errs...)
}

// Run starts a part that does not run.
func (p *Plane) Run(part string, more ...string) error {
	log, err := os.OpenFile(p.file(part+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.program, slices.Concat([]string{part}, p.flags[part], more)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that is killed leaves nothing
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", part, err)
	}
	run := &process{cmd, make(chan struct{})}
	p.running[part] = run
	go func() {
		_ = cmd.Wait()
		close(run.ended)
	}()
	return nil
}

// Kill ends a part with SIGKILL.
func (p *Plane) Kill(part string) error {
	run := p.running[part]
	if run == nil {
		return nil
	}
	delete(p.running, part)
	if err := run.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", part, err)
	}
	<-run.ended
	return nil
}

// Kubectl runs kubectl as the administrator and returns what it printed. The input may be empty.
func (p *Plane) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := p.Command(ctx, p.Admin, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

// Command is a kubectl that has not been started.
func (p *Plane) Command(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, slices.Concat([]string{"kubectl", "--kubeconfig", kubeconfig, "--cache-dir", p.file("cache")}, args)...)
	cmd.Env = append(os.Environ(), "KUBERC=off")
	return cmd
}

// Await runs kubectl until it succeeds. A part that ended is an error, with the end of its log.
func (p *Plane) Await(ctx context.Context, args ...string) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		_, err := p.Kubectl(ctx, "", args...)
		if err == nil {
			return nil
		}
		for part, run := range p.running {
			select {
			case <-run.ended:
				return fmt.Errorf("%s ended: %s", part, p.Tail(part))
			default:
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Tail is the end of the log of a part.
func (p *Plane) Tail(part string) string {
	text, _ := os.ReadFile(p.file(part + ".log"))
	return string(text[max(0, len(text)-2000):])
}

// Node makes the identity of a node and returns its kubeconfig file.
func (p *Plane) Node(name string) (string, error) {
	return p.Identity("node-"+name, "system:node:"+name, "system:nodes")
}

// CA is the file with the certificate of the cluster's authority.
func (p *Plane) CA() string { return p.file("ca.crt") }

// Identity makes a client certificate and returns its kubeconfig file; the certificate and its key
// are the files of the same name that end in .crt and .key.
func (p *Plane) Identity(name, user string, groups ...string) (string, error) {
	if err := p.ca.client(name, user, groups...); err != nil {
		return "", err
	}
	return writeConfig(p, name, fmt.Sprintf("client-certificate: %q, client-key: %q", p.file(name+".crt"), p.file(name+".key")))
}

// ServiceAccount returns a kubeconfig file with a token of a service account that is there.
func (p *Plane) ServiceAccount(ctx context.Context, namespace, name string) (string, error) {
	token, err := p.Kubectl(ctx, "", "create", "token", name, "--namespace", namespace)
	if err != nil {
		return "", err
	}
	return writeConfig(p, namespace+"-"+name, fmt.Sprintf("token: %q", strings.TrimSpace(token)))
}

// writeConfig writes a kubeconfig file for a user.
func writeConfig(p *Plane, name, user string) (string, error) {
	file := p.file(name + ".kubeconfig")
	return file, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, p.URL, p.CA(), user), 0o600)
}

func (p *Plane) file(name string) string { return filepath.Join(p.dir, name) }

// freePorts are ports that nothing listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		port, err := freeport.Port()
		if err != nil {
			return nil, err
		}
		ports = append(ports, int(port))
	}
	return ports, nil
}
