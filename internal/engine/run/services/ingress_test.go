package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/routes"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/testing/certtest"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// addressed is a service with one healthy copy, and one that is not.
func addressed(urls ...string) service.State {
	all := []taskdef.Ingress{}
	for _, u := range urls {
		all = append(all, taskdef.Ingress{URL: u, Container: "app", Port: 80})
	}
	return service.State{
		Name: "web", Config: service.Config{Ingress: &all},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Deployment: "web/1", Phase: service.Live, HealthyNow: true}, {ID: "sick", Deployment: "web/1", Phase: service.Live}},
	}
}

// publisher returns a runner that writes to a state directory.
func publisher(t *testing.T, secret func() ([]byte, error)) (l *runner, stateDir string) {
	t.Helper()
	stateDir = t.TempDir()
	log := slog.New(slog.DiscardHandler)
	all := &Services{ctx: t.Context(), loops: map[string]*runner{}, Config: Config{
		Log: log, Tasks: &record.Tasks{}, Routes: routes.Open(stateDir, t.TempDir(), log),
		ReadSecret: func(context.Context, string) ([]byte, error) { return secret() },
	}}
	l = newRunner(all, addressed())
	l.hearing.targets = map[place]string{{"good", target{container: "app", port: 80}}: "127.0.0.1:40001", {"sick", target{container: "app", port: 80}}: "127.0.0.1:40002"}
	return l, stateDir
}

func readRoutes(t *testing.T, stateDir string) []routefile.Route {
	t.Helper()
	table, err := routefile.Read(routefile.Path(stateDir))
	if err != nil {
		t.Fatal(err)
	}
	return table.Routes
}

// Only healthy copies get requests, and a service that is removed has no routes.
func TestRoutesFollowTheService(t *testing.T) {
	t.Parallel()
	l, stateDir := publisher(t, nil)
	s := addressed("https://b.test", "https://a.test/x")
	not := l.publish(s)
	if len(not) != 2 || !strings.Contains(not[0].Problem, "is not running") {
		t.Errorf("without a proxy: %+v", not)
	}
	got := readRoutes(t, stateDir)
	if len(got) != 2 || got[0].Key() != "https://a.test/x" || len(got[0].Groups) != 1 {
		t.Fatalf("routes %+v", got)
	}
	if g := got[0].Groups[0]; g.Deployment != "web/1" || g.Weight != int(service.Whole) || len(g.Targets) != 1 || g.Targets[0] != (routefile.Target{ID: "good", Address: "127.0.0.1:40001"}) {
		t.Errorf("the group is %+v", g)
	}
	s.Tasks[0].Phase = service.Stopping
	l.publish(s)
	if got := readRoutes(t, stateDir); len(got[0].Groups) != 0 && len(got[0].Groups[0].Targets) != 0 {
		t.Errorf("a copy that is to stop has %+v", got[0].Groups)
	}
	s.Status, s.Tasks = service.Draining, nil
	l.publish(s)
	if got := readRoutes(t, stateDir); len(got) != 0 {
		t.Errorf("a service that is removed has %+v", got)
	}
}

func TestAnAddressBelongsToOneService(t *testing.T) {
	t.Parallel()
	l, _ := publisher(t, nil)
	other := addressed("https://a.test")
	other.Name = "shop"
	l.all.loops["shop"] = newRunner(l.all, other)
	mine := []taskdef.Ingress{{URL: "https://A.test/"}}
	if err := l.all.checkIngress("web", service.Spec{}, service.Config{Ingress: &mine}); err == nil || !strings.Contains(err.Error(), "service shop has https://a.test already") {
		t.Errorf("the error is %v", err)
	}
	if err := l.all.checkIngress("shop", service.Spec{}, service.Config{Ingress: &mine}); err != nil {
		t.Errorf("its own address: %v", err)
	}
	spec := service.Spec{Task: taskdef.Task{Extensions: taskdef.TaskExtensions{Ingress: mine}}}
	if err := l.all.checkIngress("web", spec, service.Config{}); err == nil {
		t.Error("the address of a definition is not checked")
	}
	if err := l.all.checkIngress("web", spec, service.Config{Ingress: &[]taskdef.Ingress{}}); err != nil {
		t.Errorf("a service without the addresses of its definition: %v", err)
	}
}

// The users of an address are read once for a deployment. Until then, and if they cannot be read, those from
// before stay, or nobody is let in.
func TestUsersOfAnAddress(t *testing.T) {
	t.Parallel()
	answer, failure := "ann:secret-word\n", error(nil)
	reads := 0
	l, stateDir := publisher(t, func() ([]byte, error) { reads++; return []byte(answer), failure })
	s := addressed("https://a.test")
	(*s.Config.Ingress)[0].Auth = "podman:users"
	users := func() (names []string) {
		for range 2 {
			l.publish(s)
			l.tells.Wait()
		}
		for _, u := range readRoutes(t, stateDir)[0].Users {
			names = append(names, u.Name)
		}
		return names
	}
	l.publish(s)
	l.tells.Wait()
	if got := users(); len(got) != 1 || got[0] != "ann" || reads != 1 {
		t.Errorf("users %v after %d reads", got, reads)
	}
	data, err := os.ReadFile(routefile.Path(stateDir))
	if err != nil || strings.Contains(string(data), "secret-word") {
		t.Errorf("the file has the password: %v", err)
	}

	s.Deployments[0].ID, failure = "web/2", errors.New("no such secret")
	if got := users(); len(got) != 1 {
		t.Errorf("when the secret cannot be read, the users are %v", got)
	}
	if not := l.publish(s); len(not) == 0 || !strings.Contains(not[0].Problem, "no such secret") {
		t.Errorf("the problem is %+v", not)
	}
	s.Deployments[0].ID, answer, failure = "web/3", "bob:x\nann:y\n", nil
	if got := users(); len(got) != 2 || got[0] != "bob" {
		t.Errorf("of the next deployment the users are %v", got)
	}
}

// The certificate of a secret is written for the proxy, and only there. Until that, and if it does not fit, the address
// keeps the one that it had; the file of a service that is removed is removed.
func TestCertificateOfASecret(t *testing.T) {
	t.Parallel()
	secrets, failure := map[string]string{}, error(nil)
	l, stateDir := publisher(t, nil)
	l.all.ReadSecret = func(_ context.Context, source string) ([]byte, error) { return []byte(secrets[source]), failure }
	put := func(revision, name string) {
		chain, key := certtest.Pair(t, name)
		secrets["podman:crt-"+revision], secrets["podman:key-"+revision] = string(chain), string(key)
	}
	s := addressed("https://a.test")
	deployments := 0
	deploy := func(revision string) []service.Unheard {
		deployments++
		s.Deployments[0].ID = fmt.Sprintf("web/%d", deployments)
		i := &(*s.Config.Ingress)[0]
		i.Certificate, i.CertificateKey = "podman:crt-"+revision, "podman:key-"+revision
		for range 2 {
			l.publish(s)
			l.tells.Wait()
		}
		return l.publish(s)
	}
	now := func() (route routefile.Route, text string) {
		route = readRoutes(t, stateDir)[0]
		data, err := os.ReadFile(route.Certificate)
		if err != nil {
			return route, ""
		}
		info, err := os.Stat(route.Certificate)
		dir, failed := os.Stat(filepath.Dir(route.Certificate))
		if err != nil || failed != nil || info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("the file is %v, %v, in %v, %v", info, err, dir, failed)
		}
		return route, string(data)
	}

	put("0", "other.test")
	not := deploy("0")
	if len(not) != 1 || !strings.Contains(not[0].Problem, `it is for "other.test", and not for a.test`) {
		t.Errorf("a certificate of another name: %+v", not)
	}
	if route, text := now(); text != "" || !filepath.IsAbs(route.Certificate) {
		t.Errorf("it is served from %s", route.Certificate)
	}
	put("1", "a.test")
	if not := deploy("1"); len(not) != 1 || !strings.Contains(not[0].Problem, "is not running") {
		t.Errorf("%+v", not)
	}
	first, text := now()
	if text != secrets["podman:crt-1"]+secrets["podman:key-1"] || first.CertificateSource != "podman:crt-1" || first.CertificateKey != first.Certificate {
		t.Errorf("the route is %+v, the file %q", first, text)
	}
	table, err := os.ReadFile(routefile.Path(stateDir))
	if err != nil || strings.Contains(string(table), strings.Split(secrets["podman:key-1"], "\n")[1]) {
		t.Errorf("the routes have the key, %v", err)
	}
	deploy("0")
	if route, _ := now(); route.Certificate != first.Certificate {
		t.Errorf("with one that does not fit it is %s, want that from before", route.Certificate)
	}
	put("2", "a.test")
	failure = errors.New("no such secret")
	if not := deploy("2"); len(not) != 1 || !strings.Contains(not[0].Problem, "no such secret") || strings.Contains(not[0].Problem, "PRIVATE") {
		t.Errorf("a secret that is missing: %+v", not)
	}
	if route, _ := now(); route.Certificate != first.Certificate {
		t.Errorf("without the secret it is %s", route.Certificate)
	}
	failure = nil
	deploy("2")
	second, text := now()
	if text != secrets["podman:crt-2"]+secrets["podman:key-2"] || second.Certificate == first.Certificate {
		t.Errorf("the second is %+v: %q", second, text)
	}
	if _, err := os.Stat(first.Certificate); !os.IsNotExist(err) {
		t.Errorf("the file of the first: %v", err)
	}
	s.Status, s.Tasks = service.Draining, nil
	l.publish(s)
	if left, err := os.ReadDir(filepath.Dir(second.Certificate)); err != nil || len(left) != 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
