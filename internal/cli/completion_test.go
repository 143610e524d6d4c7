package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.create("")
	for _, tt := range []struct{ words, want string }{
		{"", " ps"},
		{"lo", "logs lock"},
		{"logs ", " web"},
		{"logs -f w", "web"},
		{"logs web ", "app"},
		{"logs web app ", ""},
		{"--log-level debug rm w", "web"},
		{"rm web w", ""},
		{"ps --no-t", "--no-trunc"},
		{"--log-level ", "debug info warn error"},
		{"run --pull o", "once"},
		{"wait --condition h", "healthy"},
		{"run --wait=h", "--wait=healthy"},
		{"run --pull=o", "--pull=once"},
		{"run --name=", ""},
		{"run --progress ", "auto plain json none"},
		{"ps -o ", "table wide json yaml"},
		{"validate --format ", "json yaml github sarif"},
		{"plan --format d", "dot"},
		{"ps --filter f", "family="},
		{"service update --strategy b", "blue-green"},
		{"run ", ""},
		{"completion ", "bash zsh fish"},
		{"nonsense x", ""},
		{"image ", "resolve ls pending prune"},
		{"image ls --no-t", "--no-trunc"},
		{"service ", "create ls ps inspect update scale scaling rollback continue wake history events rm"},
		{"service ps ", ""},
		{"schema o", "override"},
		{"stats w", "web"},
		{"fault ", "start stop status"},
		{"fault start w", "web"},
		{"fault start web l", "latency"},
		{"fault stop web ", "blackhole-port latency packet-loss"},
		{"fault stop web latency ", ""},
		{"fault start --direction ", "ingress egress"},
		{"logs --", " --follow"},
	} {
		words := append([]string{"__complete", "--"}, strings.Split(tt.words, " ")...)
		out, stderr, code := w.podtask(words...)
		got := strings.Join(strings.Fields(out), " ")
		if code != 0 || stderr != "" {
			t.Errorf("%q: %d %s", tt.words, code, stderr)
		}
		if some, part := strings.CutPrefix(tt.want, " "); part {
			if !strings.Contains(" "+got+" ", " "+some+" ") {
				t.Errorf("%q: %s is missing in %q", tt.words, some, got)
			}
		} else if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
	if out, _, _ := w.podtask("__complete", "--", ""); strings.Contains(out, "__") || strings.Contains(out, "owner") {
		t.Errorf("hidden commands are completed: %s", out)
	}
}

// The script of bash is run by bash, with a podtask that prints what it was asked.
func TestBashCompletionAsksForTheWordsOfTheLine(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "podtask"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\necho\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"podtask logs -f we": "<__complete><--><logs><-f><we>",
		"podtask ":           "<__complete><--><>",
		"podtask --pull = o": "<__complete><--><--pull=o>",
		"podtask --pull =":   "<__complete><--><--pull=>",
	} {
		words := strings.Split(line, " ")
		script := bashCompletion + `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_podtask
printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"-c", script, "bash"}, words...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if got := strings.ReplaceAll(strings.TrimSpace(string(out)), `\`, ""); err != nil || got != want {
			t.Errorf("%q: %q, want %q; %v", line, got, want, err)
		}
	}
}

// BenchmarkCompletion is what a person waits for behind a tab among 100 tasks, but for
// the start of the program. It is to stay below 100 ms with it.
func BenchmarkCompletion(b *testing.B) {
	w := newWorld(b)
	for range 100 {
		w.create("")
	}
	for b.Loop() {
		if out, _, code := w.podtask("__complete", "--", "logs", ""); code != 0 || strings.Count(out, "\n") < 100 {
			b.Fatalf("code %d: %s", code, out)
		}
	}
}
