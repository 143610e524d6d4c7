package main

import (
	_ "embed"
	"strings"
)

//go:embed scripts/running.sh
var runningScript string

//go:embed scripts/postinst.sh
var postinstScript string

//go:embed scripts/prerm.sh
var prermScript string

// postrmScript makes running user managers look for units and run the generator; so does postinst.
//
//go:embed scripts/postrm.sh
var postrmScript string

// scripts are the scripts of a package by their names in a deb. They only print; what users run goes on.
func scripts(part string) map[string]string {
	head := "#!/bin/sh\nset -e\n\n"
	var programs []string
	for _, p := range programsOf(part) {
		programs = append(programs, "/usr/bin/"+p)
	}
	values := "proc=/proc\npackage=" + part + "\nprograms='" + strings.Join(programs, " ") + "'\n\n"
	return map[string]string{
		"postinst": head + values + runningScript + "\n" + postinstScript,
		"prerm":    head + values + runningScript + "\n" + prermScript,
		"postrm":   head + postrmScript,
	}
}
