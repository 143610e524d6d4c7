package main

import (
	"cmp"
	"strconv"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/taskdef"
)

// planUlimit is a limit of the processes of a container; -1 is none.
type planUlimit struct {
	Container string `json:"container"`
	taskdef.Ulimit
}

// planEnvFile is a file of variables; without a path it is not mapped yet.
type planEnvFile struct {
	Container string `json:"container"`
	taskdef.EnvironmentFile
}

// addKernel adds what a container asks of the kernel and of files.
func (pl *plan) addKernel(c taskdef.Container) {
	for _, l := range c.Linux.Ulimits {
		pl.Ulimits = append(pl.Ulimits, planUlimit{c.Name, l})
	}
	for _, f := range c.EnvironmentFiles {
		pl.EnvFiles = append(pl.EnvFiles, planEnvFile{c.Name, f})
	}
	if login := c.RepositoryCredentials; login != nil {
		pl.Secrets = append(pl.Secrets, planSecret{Container: c.Name, Login: true, Source: login.Source, JSONKey: login.JSONKey})
	}
}

func (pl plan) ulimitRows() [][]string {
	var rows [][]string
	for _, l := range pl.Ulimits {
		rows = append(rows, []string{l.Container, l.Name, noLimit(l.Soft), noLimit(l.Hard)})
	}
	if rows == nil {
		return nil
	}
	return append([][]string{{"", "", "SOFT", "HARD"}}, rows...)
}

func noLimit(n int64) string {
	if n == -1 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

func (pl plan) envFileRows() [][]string {
	var rows [][]string
	for _, f := range pl.EnvFiles {
		rows = append(rows, []string{f.Container, "<- " + console.OneLine(cmp.Or(f.Path, "not mapped yet"))})
	}
	return rows
}
