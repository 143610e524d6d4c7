// Command demo-registry serves images made of static programs from a registry
// on a free loopback port that demands a password.
//
//	demo-registry -dir DIR -image server=/path/to/server [-image NAME[:TAG]=PATH ...]
//
// When it is ready it has written into DIR (made if missing, mode 0700)
//
//	addr             host:port of the registry
//	auth.json        a login, for REGISTRY_AUTH_FILE
//	registries.conf  for CONTAINERS_REGISTRIES_CONF: the registry has no TLS
//	requests.log     a line per request, written as they finish
//
// and then prints host:port as its only line on stdout. It ends on SIGTERM and
// SIGINT, and, if stdin is a pipe, when that closes. Each run
// makes a new password, which is stored only in auth.json.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo-registry:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("demo-registry", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory for addr, auth.json, registries.conf and requests.log")
	var programs []program
	flags.Func("image", "`NAME[:TAG]=PATH` of a static program; may be repeated", func(text string) error {
		p, err := parseProgram(text)
		programs = append(programs, p)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || len(programs) == 0 || flags.NArg() > 0 {
		return errors.New("usage: demo-registry -dir DIR -image NAME[:TAG]=PATH [-image NAME[:TAG]=PATH]")
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(*dir, "requests.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	registry, err := registrytest.New(registrytest.Options{
		Auth: registrytest.Token, User: "demo", Password: rand.Text(), Log: log,
	})
	if err != nil {
		return err
	}
	defer registry.Close()
	for _, p := range programs {
		if err := p.push(registry); err != nil {
			return err
		}
	}
	if err := describe(registry, *dir); err != nil {
		return err
	}
	fmt.Println(registry.Addr())
	waitForEnd(ctx)
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = registry.Shutdown(grace) // what still runs then is cut off
	return nil
}

// program is a static program and the image it becomes.
type program struct{ name, path string }

func parseProgram(text string) (program, error) {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return program{}, fmt.Errorf("%q is not NAME[:TAG]=PATH", text)
	}
	return program{name, path}, nil
}

func (p program) push(registry *registrytest.Registry) error {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	img, err := registrytest.ProgramImage(filepath.Base(p.path), data)
	if err != nil {
		return err
	}
	_, err = registry.Push(p.name, img)
	return err
}

func describe(registry *registrytest.Registry, dir string) error {
	for name, contents := range map[string][]byte{
		"addr":            []byte(registry.Addr() + "\n"),
		"auth.json":       registry.AuthJSON(),
		"registries.conf": registry.RegistriesConf(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), contents, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// waitForEnd returns when ctx ends, or stdin if that is a pipe. Scripts start
// background jobs with /dev/null there, which must not end them.
func waitForEnd(ctx context.Context) {
	closed := make(chan struct{})
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // any end will do
			close(closed)
		}()
	}
	select {
	case <-ctx.Done():
	case <-closed:
	}
}
