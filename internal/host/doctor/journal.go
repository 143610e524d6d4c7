package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The defaults of journald (journald.conf(5)).
const (
	journalInterval = "30s"
	journalBurst    = "10000"
)

// journalDirs are the directories of journald's configuration, the first with the least precedence.
var journalDirs = []string{"usr/lib/systemd", "usr/local/lib/systemd", "run/systemd", "etc/systemd"}

// checkJournal reports the amount of a container's output that journald keeps. It is no warning, because most hosts have
// the default.
func checkJournal(_ context.Context, h Host) Finding {
	switch {
	case h.Podman == nil:
		return ok("not checked, because Podman does not answer")
	case h.Podman.LogDriver != "journald":
		return ok("by default, the output of containers is not written to the journal")
	}
	interval, burst := h.journalRate()
	if strings.Trim(interval, "0smin ") == "" || strings.Trim(burst, "0") == "" {
		return ok("journald does not limit the output of containers")
	}
	return ok("journald keeps %s lines of a container in %s and drops the rest, so the end of a burst of output may be missing in the logs; "+
		"for more lines: RateLimitBurst=N in /etc/systemd/journald.conf (0 for no limit), or logDriver json-file in the task definition", burst, interval)
}

// journalRate reads journald's rate limit. Files in journald.conf.d take precedence over
// journald.conf, later names over earlier ones.
func (h Host) journalRate() (interval, burst string) {
	files := map[string]string{} // by name: a directory with more precedence masks it
	main := ""
	for _, dir := range journalDirs {
		if text, found := h.read(path.Join("/", dir, "journald.conf")); found {
			main = text
		}
		entries, err := fs.ReadDir(h.Root, path.Join(dir, "journald.conf.d"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if text, found := h.read(path.Join("/", dir, "journald.conf.d", e.Name())); found && strings.HasSuffix(e.Name(), ".conf") {
				files[e.Name()] = text
			}
		}
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	all := []string{main}
	for _, name := range names {
		all = append(all, files[name])
	}
	for line := range strings.Lines(strings.Join(all, "\n")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch strings.TrimSpace(key) {
		case "RateLimitIntervalSec", "RateLimitInterval":
			interval = strings.TrimSpace(value)
		case "RateLimitBurst":
			burst = strings.TrimSpace(value)
		}
	}
	return cmp.Or(interval, journalInterval), cmp.Or(burst, journalBurst)
}
