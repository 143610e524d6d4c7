package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// activity is an effect of an owner or one of its requests to Podman; begin counts from the start of the command.
type activity struct {
	begin, took time.Duration
	name        string
}

var (
	logLine = regexp.MustCompile(`^(\d+\.\d+) \S+ podtask\[\d+\]: (.*)`)
	tookOf  = regexp.MustCompile(` took=(\S+)`)
	effect  = regexp.MustCompile(` effect="?lifecycle\.(\w+)`)
	index   = regexp.MustCompile(`Index:(\d+)`)
	request = regexp.MustCompile(`\bmethod=(\S+).* path=(?:/v[0-9.]*/libpod)?(\S+)`)
	ids     = regexp.MustCompile(`(sha256:)?[0-9a-f]{40,}`)
	prefix  = regexp.MustCompile(`podtask-speed\d*-[0-9a-f]*-?`)
)

// activities returns what a journal in the format short-unix tells of podtask's owners, in order of time.
func activities(journal string, since time.Time) (found []activity) {
	for line := range strings.Lines(journal) {
		m, took := logLine.FindStringSubmatch(line), tookOf.FindStringSubmatch(line)
		if m == nil || took == nil {
			continue
		}
		seconds, err := strconv.ParseFloat(m[1], 64)
		d, err2 := time.ParseDuration(took[1])
		end := time.Duration(math.Round(seconds*1e6))*time.Microsecond - time.Duration(since.UnixMicro())*time.Microsecond
		if err != nil || err2 != nil || end <= 0 {
			continue
		}
		found = append(found, activity{end - d, d, nameOf(m[2])})
	}
	slices.SortStableFunc(found, func(a, b activity) int { return cmp.Compare(a.begin, b.begin) })
	return found
}

func nameOf(line string) string {
	if m := effect.FindStringSubmatch(line); m != nil {
		if i := index.FindStringSubmatch(line); i != nil {
			return m[1] + " " + i[1]
		}
		return m[1]
	}
	m := request.FindStringSubmatch(line)
	if m == nil {
		return "  " + line
	}
	return "  " + m[1] + " " + prefix.ReplaceAllString(ids.ReplaceAllString(m[2], "ID"), "")
}

// trace starts and removes a task of n containers twice, and prints the activities of the second time.
func trace(ctx context.Context, share string, n int) error {
	if err := os.Setenv("PODTASK_LOG_LEVEL", "debug"); err != nil {
		return err
	}
	l, err := newLab(ctx, share, n)
	if err != nil {
		return err
	}
	defer l.close()
	var begin time.Time
	var start, remove sample
	for range 2 {
		l.pause(time.Second) // the journal is written a little later
		begin = time.Now()
		start = l.start(fmt.Sprintf("task%d.json", n))
		remove = l.podtask("rm", "--force", start.out)
	}
	l.pause(500 * time.Millisecond)
	fmt.Printf("A task of %d containers: started after %d ms, removed in %d ms. Podman %s.\n\n", n, start.time.Milliseconds(), remove.time.Milliseconds(),
		l.run("podman", "version", "--format", "{{.Client.Version}}").out)
	journal := l.run("journalctl", "--user", "-o", "short-unix", "--since", fmt.Sprintf("@%d", begin.Unix()), "--no-pager").out
	for _, a := range activities(journal, begin) {
		begin, took := a.begin.Milliseconds(), a.took.Milliseconds()
		fmt.Printf("%5d %5d  %-44s |%s%s\n", begin, took, a.name, strings.Repeat(" ", max(0, int(begin/20))), strings.Repeat("#", int(took/20)+1))
	}
	return l.err
}
