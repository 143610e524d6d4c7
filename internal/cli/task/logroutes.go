package task

import (
	"fmt"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// logRoute is the progress of sending the output of a container to its server.
type logRoute struct {
	Task string `json:"task"`
	api.LogRoute
	ref string // the task as users call it
}

// printRoutes prints for each container how far its output was sent.
func (o logsOptions) printRoutes(c *cli.Context, states []lifecycle.State, container string) error {
	shown := []logRoute{}
	for _, st := range states {
		routes, err := o.delivery.Routes(st)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if container == "" || r.Container == container {
				shown = append(shown, logRoute{st.ID, r, taskspec.TaskRef(st)})
			}
		}
	}
	if len(shown) == 0 {
		fmt.Fprintln(o.errOut, "no output is sent to a server")
		if c.String("format") == "" {
			return nil
		}
	}
	return command.Listing[logRoute]{Items: shown, Columns: []command.Column[logRoute]{
		{Head: "TASK", Cell: func(r logRoute) string { return r.ref }},
		{Head: "CONTAINER", Cell: func(r logRoute) string { return r.Container }},
		{Head: "DESTINATION", Cell: func(r logRoute) string { return term.Line(r.Destination) }},
		{Head: "DELIVERED UNTIL", Cell: func(r logRoute) string { return stamp(r.Until) }},
		{Head: "WAITING", Cell: func(r logRoute) string { return units.BytesSize(float64(r.WaitingBytes)) }},
		{Head: "LOST", Cell: logRoute.lost},
		{Head: "STATE", Cell: logRoute.state},
	}}.Print(o.out, c)
}

// stamp formats a time in UTC; empty for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (r logRoute) lost() string {
	lost := strconv.FormatInt(r.LostLines, 10)
	if r.LostBytes > 0 {
		lost += " and " + units.BytesSize(float64(r.LostBytes))
	}
	return lost
}

func (r logRoute) state() string {
	if r.Error == "" {
		return "ok"
	}
	return fmt.Sprintf("since %s: %s", stamp(r.Since), term.Line(r.Error))
}
