//go:build remote && containers_image_openpgp

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/logdelivery"
	"github.com/podtask/podtask/internal/podspec"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// logRoute is how far the output of a container of a task was sent.
type logRoute struct {
	Task string `json:"task"`
	logdelivery.Status
}

// showRoutes prints how far the output of containers was sent.
func showRoutes(s *session, states []lifecycle.State, container, format string) error {
	if format != "" && format != "text" && format != "json" {
		return usagef("logs", "no format %q: it is text or json", format)
	}
	shown := []logRoute{}
	table := [][]string{{"TASK", "CONTAINER", "DESTINATION", "DELIVERED UNTIL", "WAITING", "LOST", "STATE"}}
	for _, st := range states {
		routes, err := s.Agent.Delivery.Routes(st)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if container == "" || r.Container == container {
				shown = append(shown, logRoute{st.ID, r})
				table = append(table, append([]string{podspec.TaskRef(st)}, routeRow(r)...))
			}
		}
	}
	switch {
	case format == "json":
		return console.WriteJSON(s.stdout, shown)
	case len(shown) == 0:
		fmt.Fprintln(s.stderr, "no output is sent to a server")
		return nil
	}
	return console.WriteTable(s.stdout, table)
}

// routeRow is a row of the table, without the task.
func routeRow(r logdelivery.Status) []string {
	until, status, lost := "", "ok", strconv.FormatInt(r.LostLines, 10)
	if !r.Until.IsZero() {
		until = r.Until.UTC().Format(time.RFC3339)
	}
	if r.Error != "" {
		status = fmt.Sprintf("since %s: %s", r.Since.UTC().Format(time.RFC3339), term.Line(r.Error))
	}
	if r.LostBytes > 0 {
		lost += " and " + units.BytesSize(float64(r.LostBytes))
	}
	return []string{r.Container, term.Line(r.Destination), until, units.BytesSize(float64(r.WaitingBytes)), lost, status}
}
