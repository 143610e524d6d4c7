//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/convert/compose"
)

// TestMain is the program itself with a low limit if the test of it asks for that.
func TestMain(m *testing.M) {
	if os.Getenv("PODTASK_COMPOSE_LIMITED") != "" {
		limit(96 << 20)
		os.Exit(run(nil, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestAFileTakesNoMoreMemoryThanTheLimit(t *testing.T) {
	t.Parallel()
	var ports []string
	for i := range 20 {
		ports = append(ports, fmt.Sprintf("'127.0.0.%d:1-65535:1-65535'", i+1))
	}
	request, err := json.Marshal(compose.Request{File: "compose.yaml", Task: "shop", Source: []byte("services: {web: {image: x, ports: [" + strings.Join(ports, ", ") + "]}}")})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test
	var problems bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), "PODTASK_COMPOSE_LIMITED=1"), bytes.NewReader(request), &problems
	if err := cmd.Run(); err == nil || !strings.HasPrefix(problems.String(), "fatal error: ") || !strings.Contains(problems.String(), " memory") {
		t.Errorf("it ended with %v and said %.300s", err, problems.String())
	}
}
