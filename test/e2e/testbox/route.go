package main

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/podtask/podtask/internal/testing/logstest"
)

// route is a log router without outputs. What the configuration refers to comes from its
// variables, of which only the length is printed.
func (b *box) route(args []string) error { return b.router(args[0], true) }

// mute is a log router that takes what it is sent, and never acknowledges.
func (b *box) mute(args []string) error { return b.router(args[0], false) }

func (b *box) router(config string, acknowledges bool) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	network, address, host := "", "", ""
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "unix_path":
			network, address = "unix", value
		case name == "Listen" && host == "":
			host = value
		case name == "Port" && network == "unix":
			network, address = "tcp", net.JoinHostPort(host, value)
		case strings.HasPrefix(value, "${"):
			fmt.Println("option", name, len(os.Getenv(strings.Trim(value, "${}"))))
		}
	}
	if network == "unix" {
		_ = os.Remove(address) // of the run before, as fluent-bit does
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	server := &logstest.Forward{Silent: !acknowledges, Took: func(r logstest.Record) {
		tag, _, _ := strings.Cut(r.Tag, "-firelens-")
		fmt.Println(tag, r.Members["source"], r.Members["log"])
	}}
	b.serving = true
	go server.Serve(l)
	return nil
}
