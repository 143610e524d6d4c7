package main

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/logstest"
)

// route is a log router without outputs. What the configuration refers to comes from its
// variables, of which only the length is printed.
func (b *box) route(args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	host, port := "", ""
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "Listen" && host == "":
			host = value
		case name == "Port" && port == "":
			port = value
		case strings.HasPrefix(value, "${"):
			fmt.Println("option", name, len(os.Getenv(strings.Trim(value, "${}"))))
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	server := &logstest.Forward{Took: func(r logstest.Record) {
		tag, _, _ := strings.Cut(r.Tag, "-firelens-")
		fmt.Println(tag, r.Members["source"], r.Members["log"])
	}}
	b.serving = true
	go server.Serve(l)
	return nil
}
