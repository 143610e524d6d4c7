//go:build e2e && bed_systemd && nightly

package e2e

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
	"testing"
	"time"
)

// TestComposeFilesSideBySide runs ten Compose files with podtask and with Debian's
// podman-compose. The containers must see the same: the steps in each directory's file
// observe are done in the containers of both, and print the same. The file
// differs lists those that print something else, with the reason.
func TestComposeFilesSideBySide(t *testing.T) {
	if _, err := exec.LookPath("podman-compose"); err != nil {
		t.Skip("no podman-compose here")
	}
	b := newBox(t)
	image, _ := b.push("shell:1", shellImage(t)) // podman-compose runs every health check in a shell
	b.env = append(b.env, "IMAGE="+image)
	dirs, err := filepath.Glob("testdata/compose/*")
	if err != nil || len(dirs) < 10 {
		t.Fatalf("%d Compose files, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			one := &box{t: t, dir: b.dir, family: b.family, env: b.env} // it fails this subtest
			s := sideBySide{t: t, box: one, dir: filepath.Join(b.dir, "compose", filepath.Base(dir))}
			if err := os.CopyFS(s.dir, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			secrets, err := filepath.Glob(filepath.Join(s.dir, "*", "*.txt"))
			more, err2 := filepath.Glob(filepath.Join(s.dir, "*.txt"))
			if err = errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			for _, file := range append(secrets, more...) {
				if err := os.Chmod(file, 0o600); err != nil { // others must not read them
					t.Fatal(err)
				}
			}
			s.compare()
		})
	}
}

// sideBySide is one Compose file in a directory of its own.
type sideBySide struct {
	t   *testing.T
	box *box
	dir string
}

// lines are those of a file of the fixture, without comments; none if there is no file.
func (s *sideBySide) lines(name string) (lines []string) {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (s *sideBySide) compare() {
	name := filepath.Base(s.dir)
	file, err := filepath.Glob(filepath.Join(s.dir, "*compose.y*ml"))
	if err != nil || len(file) != 1 {
		s.t.Fatal(file, err)
	}
	var profiles []string
	for _, p := range s.lines("profiles") {
		profiles = append(profiles, "--profile", p)
	}
	s.t.Cleanup(func() {
		for _, volume := range strings.Fields(s.box.podman("volume", "ls", "--format", "{{.Name}}")) {
			if strings.HasPrefix(volume, name+"_") || strings.HasPrefix(volume, name+"-") {
				s.box.podman("volume", "rm", "--force", volume)
			}
		}
	})

	s.box.want(0, append(append([]string{"import", "--output", s.dir}, profiles...), file[0])...)
	s.box.want(0, "run", "-d", "--limits=off", "--wait=running", "--name", name, filepath.Join(s.dir, name+".json"))
	ids := map[string]string{}
	for _, c := range s.box.inspect(name).Containers {
		ids[c.Name] = c.RuntimeID
	}
	known := s.lines("differs")
	ours := s.observe("podtask", nil, func(service string) string { return ids[service] })
	s.box.want(0, "rm", "--force", name)

	compose := append([]string{"-f", file[0]}, profiles...)
	s.t.Cleanup(func() { s.compose(append(slices.Clone(compose), "down", "--volumes", "--timeout", "1")...) })
	s.compose(append(slices.Clone(compose), "up", "-d")...)
	theirs := s.observe("podman-compose", known, func(service string) string {
		return s.box.podman("ps", "--all", "-q", "--no-trunc", "--filter", "label=com.docker.compose.service="+service, "--filter", "label=com.docker.compose.project="+name)
	})
	for _, step := range s.lines("observe") {
		listed := slices.Contains(known, step)
		switch {
		case ours[step] != theirs[step] && !listed:
			s.t.Errorf("%s prints\n%s\nwith podtask, and\n%s\nwith podman-compose", step, ours[step], theirs[step])
		case ours[step] == theirs[step] && listed:
			s.t.Errorf("%s prints the same now: take it out of the file differs", step)
		}
	}
	s.t.Logf("%d observations in %d containers, %d differ", len(ours), len(ids), len(known))
}

// observe does the steps in the containers, which container returns for services, until each
// succeeds; one of those in once is done once.
func (s *sideBySide) observe(tool string, once []string, container func(service string) string) map[string]string {
	s.t.Helper()
	seen := map[string]string{}
	for _, line := range s.lines("observe") {
		service, step, _ := strings.Cut(line, " ")
		var last string
		eventually(s.t, fmt.Sprintf("%s in the container of %s (%s)", step, service, tool), func() bool {
			id := container(service)
			if id == "" {
				return false // it is not started yet
			}
			var out, problem bytes.Buffer
			cmd := exec.Command("podman", append([]string{"exec", id, "/testbox"}, strings.Fields(step)...)...)
			cmd.Stdout, cmd.Stderr = &out, &problem
			err := cmd.Run()
			if now := problem.String(); now != last {
				s.t.Logf("%s: %s: %s", tool, line, now)
				last = now
			}
			if seen[line] = out.String(); err != nil {
				seen[line] += err.Error()
			}
			return err == nil || slices.Contains(once, line)
		})
	}
	return seen
}

func (s *sideBySide) compose(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // it waits forever for what cannot happen
	defer cancel()
	cmd := exec.CommandContext(ctx, "podman-compose", args...)
	cmd.WaitDelay = time.Second // its children keep the pipe open
	cmd.Dir, cmd.Env = s.dir, append(s.box.env, "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("podman-compose %v: %v\n%s", args, err, out)
	}
	return string(out)
}
