package service

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// namesFlag returns the names of a flag; nil if it is not given.
func namesFlag(c *cli.Context, flag string) (*[]api.ServiceName, error) {
	if !c.IsSet(flag) {
		return nil, nil
	}
	names, err := parseNames(c.StringSlice(flag))
	if err != nil {
		return nil, command.Usagef(command.Path(c), "--%s %v", flag, err)
	}
	return &names, nil
}

// parseNames reads the words of --name-as; the only word "none" stands for no name. The agent checks the names.
func parseNames(words []string) ([]api.ServiceName, error) {
	names := []api.ServiceName{}
	if len(words) == 1 && words[0] == "none" {
		return names, nil
	}
	for _, w := range words {
		name, err := parseName(w)
		if err != nil {
			return nil, fmt.Errorf("%q is not NAME[:PORT][=CONTAINER:PORT], as in orders:8080=app:80: %w", w, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// parseName reads NAME[:PORT][=CONTAINER:PORT]; what follows = without a colon is the name of a port mapping.
func parseName(word string) (n api.ServiceName, err error) {
	client, target, has := strings.Cut(word, "=")
	name, port, hasPort := strings.Cut(client, ":")
	if n.Name = name; name == "" {
		return n, fmt.Errorf("the name is missing")
	}
	if hasPort {
		if n.Port, err = parsePort(port); err != nil {
			return n, err
		}
	}
	container, port, hasPort := strings.Cut(target, ":")
	switch {
	case !has:
		return n, nil
	case container == "":
		return n, fmt.Errorf("the container is missing")
	case !hasPort:
		n.PortName = container
		return n, nil
	}
	n.ContainerName = container
	n.ContainerPort, err = parsePort(port)
	return n, err
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%q is not a port, 1 to 65535", text)
	}
	return uint16(port), nil
}
