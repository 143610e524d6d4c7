package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podtask/podtask/internal/aws/instance"
	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/api"
)

// statusDocument is what `podtask ecs status --format json` prints.
type statusDocument struct {
	// Running: a process is the instance now. PID is its ID.
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
	// Instance is absent if the host was never registered.
	Cluster  string            `json:"cluster,omitempty"`
	Region   string            `json:"region,omitempty"`
	Instance string            `json:"containerInstanceArn,omitempty"`
	Status   *ecsstatus.Status `json:"status,omitempty"`
	Tasks    []instance.Task   `json:"tasks"`
}

func status(_ context.Context, o *options, stdout, _ io.Writer) error {
	dir, runtimeDir, err := o.dirs()
	if err != nil {
		return err
	}
	records, err := instance.OpenRecords(dir)
	if err != nil {
		return err
	}
	id, err := records.Identity()
	if err != nil {
		return err
	}
	d := statusDocument{Cluster: id.Cluster, Region: id.Region, Instance: id.ARN}
	if d.Tasks, err = records.Tasks(); err != nil {
		return err
	}
	if d.PID, d.Running = records.Holder(); d.Running {
		if d.Status, err = ecsstatus.Read(ecsstatus.Path(runtimeDir)); err != nil {
			return err
		}
		if d.Status != nil && d.Status.PID != d.PID {
			d.Status = nil // of a process before it
		}
	}
	if o.format == "json" {
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, string(text))
		return err
	}
	printStatus(stdout, d, time.Now())
	return nil
}

func printStatus(w io.Writer, d statusDocument, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(t, "%s\t%s\n", name, value) }
	switch {
	case d.Instance == "":
		line("Instance:", "none; `podtask ecs join` makes this host one")
	default:
		line("Instance:", d.Instance)
		line("Cluster:", d.Cluster+" in "+d.Region)
	}
	switch {
	case !d.Running:
		line("Process:", "none; tasks continue, but ECS is not told of them: `podtask ecs join` or its unit starts it")
	case d.Status == nil:
		line("Process:", fmt.Sprintf("%d", d.PID))
	default:
		line("Process:", fmt.Sprintf("%d, since %s", d.PID, d.Status.Since.Local().Format(time.DateTime)))
		for _, w := range d.Status.Of("") {
			line("Waits for:", w.Text+", for "+now.Sub(w.Since).Round(time.Second).String())
		}
		if d.Status.Inactive {
			line("Problem:", "ECS says that the instance was deregistered: run `podtask ecs leave`, then join again")
		}
		line("ACS:", linkText(d.Status.ACS, now))
		line("TCS:", linkText(d.Status.TCS, now))
	}
	_ = t.Flush()
	if len(d.Tasks) == 0 {
		return
	}
	if d.Status != nil {
		for _, x := range d.Status.Waits {
			if x.Task != "" {
				fmt.Fprintf(w, "Task %s waits for %s, for %s\n", shortARN(x.Task), x.Text, now.Sub(x.Since).Round(time.Second))
			}
		}
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ECS TASK\tFAMILY\tTASK\tDESIRED\tTOLD\tUNSENT")
	for _, k := range d.Tasks {
		id := k.Agent
		if len(id) > 12 {
			id = id[:12]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\n", shortARN(k.ARN), k.Family, id, k.Desired, k.Told, k.Unsent)
	}
	_ = t.Flush()
}

// shortARN is the last part of an ARN.
func shortARN(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

func linkText(l ecsstatus.Link, now time.Time) string {
	switch {
	case l.Connected:
		return "connected for " + now.Sub(l.Since).Round(time.Second).String()
	case l.Problem != "":
		return "not connected: " + l.Problem
	}
	return "not connected yet"
}

// activate uses an activation of Systems Manager. The code is read from a file or the standard input,
// because arguments can be seen by others.
func activate(ctx context.Context, o *options, stdout, _ io.Writer) error {
	var errs []error
	calls, err := o.calls()
	if err != nil {
		errs = append(errs, err)
	}
	if o.activation == "" {
		errs = append(errs, errors.New("--activation-id is missing: CreateActivation of Systems Manager printed it"))
	}
	in := o.stdin
	if o.activationCode != "-" {
		f, err := os.Open(o.activationCode)
		if err != nil {
			errs = append(errs, fmt.Errorf("--activation-code-file: %w", err))
		} else {
			defer f.Close()
			in = f
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	code, err := io.ReadAll(io.LimitReader(in, 1024))
	if err != nil {
		return fmt.Errorf("--activation-code-file: %w", err)
	}
	if len(bytes.TrimSpace(code)) == 0 {
		return errors.New("--activation-code-file: it is empty")
	}
	_, release, err := o.locked()
	if err != nil {
		return err
	}
	defer release()
	h, _, err := o.hybrid(calls)
	if err != nil {
		return err
	}
	if err := h.Register(ctx, o.activation, string(bytes.TrimSpace(code))); err != nil {
		return err
	}
	if _, err := h.Get(ctx); err != nil {
		return fmt.Errorf("this host is %s, but has no credentials yet: %w", h.ID(), err)
	}
	_, err = fmt.Fprintf(stdout, "this host is %s\n", h.ID())
	return err
}

// registered returns the identity of the instance, or an error if there is none.
func registered(records *instance.Records) (instance.Identity, error) {
	id, err := records.Identity()
	if err == nil && id.ARN == "" {
		err = errors.New("this host is no instance: `podtask ecs join` makes it one")
	}
	return id, err
}

// callsOf returns the client of the region of an instance.
func (o *options) callsOf(id instance.Identity) (*awscall.Client, error) {
	if o.region == "" {
		o.region = id.Region
	}
	return o.calls()
}

func drain(ctx context.Context, o *options, stdout, _ io.Writer) error {
	dir, _, err := o.dirs()
	if err != nil {
		return err
	}
	records, err := instance.OpenRecords(dir)
	if err != nil {
		return err
	}
	id, err := registered(records)
	if err != nil {
		return err
	}
	calls, err := o.callsOf(id)
	if err != nil {
		return err
	}
	in := wire.UpdateState{Cluster: id.Cluster, Instances: []string{id.ARN}, Status: "DRAINING"}
	if o.undo {
		in.Status = "ACTIVE"
	}
	var out wire.UpdatedState
	if err := calls.Call(ctx, awscall.ECS, "UpdateContainerInstancesState", in, &out); err != nil {
		return err
	}
	if len(out.Failures) > 0 {
		return fmt.Errorf("ECS does not change %s: %s", out.Failures[0].ARN, out.Failures[0].Reason)
	}
	_, err = fmt.Fprintf(stdout, "%s is %s\n", id.ARN, in.Status)
	return err
}

func leave(ctx context.Context, o *options, stdout, _ io.Writer) error {
	records, release, err := o.locked()
	if errors.Is(err, instance.ErrRunning) {
		return fmt.Errorf("%w: end it first, with `systemctl --user disable --now podtask-ecs.service` if it is the unit", err)
	}
	if err != nil {
		return err
	}
	defer release()
	id, err := registered(records)
	if err != nil {
		return err
	}
	tasks, err := records.Tasks()
	if err != nil {
		return err
	}
	socket, err := o.agentSocket()
	if err != nil {
		return err
	}
	agent := api.NewClient(socket)
	owned, _ := tasksOf(ctx, agent, id) // an agent that is away is told of below
	running := 0
	for _, t := range tasks {
		if t.Told != wire.StatusStopped {
			running++
			delete(owned, t.Agent)
		}
	}
	for _, status := range owned {
		if status != wire.StatusStopped {
			running++ // it is in no record
		}
	}
	if running > 0 && !o.force && !o.local {
		return fmt.Errorf("%d tasks of ECS run here: `podtask ecs drain` has ECS move those of services; `podtask ecs leave --force` stops them", running)
	}
	if !o.local {
		if err := o.deregister(ctx, id, stdout); err != nil {
			return err
		}
	}
	if err := removeTasks(ctx, agent, id, tasks); err != nil {
		if !o.local {
			return fmt.Errorf("the instance was deregistered, but %w: run `podtask ecs leave --force` again", err)
		}
		fmt.Fprintf(stdout, "warning: %v: `podtask ps --filter tag=%s=%s` lists them\n", err, arn.TagInstance, id.ARN)
	}
	if err := records.Forget(ctx); err != nil {
		return err
	}
	if o.local {
		_, err = fmt.Fprintf(stdout, "%s is forgotten here. If ECS still has it: aws ecs deregister-container-instance --force --region %s --cluster %s --container-instance %s\n", id.ARN, id.Region, id.Cluster, id.ARN)
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s was deregistered\n", id.ARN)
	return err
}

// deregister has ECS forget the instance.
func (o *options) deregister(ctx context.Context, id instance.Identity, stdout io.Writer) error {
	calls, err := o.callsOf(id)
	if err != nil {
		return fmt.Errorf("%w; `podtask ecs leave --local` forgets the instance without asking ECS", err)
	}
	in := wire.Deregister{Cluster: id.Cluster, Instance: id.ARN, Force: o.force}
	err = calls.Call(ctx, awscall.ECS, "DeregisterContainerInstance", in, nil)
	var refused *awscall.Error
	switch {
	case errors.As(err, &refused) && refused.Code == "InvalidParameterException" && o.force:
		fmt.Fprintf(stdout, "ECS does not know the instance any more: %s\n", refused.Message)
	case err != nil:
		return fmt.Errorf("%w: nothing was changed; if the cluster, the account or the permission is gone, `podtask ecs leave --local` forgets the instance here", err)
	}
	return nil
}

// tasksOf returns the status of each task that the agent has and that has the tag of the instance.
func tasksOf(ctx context.Context, agent instance.Agent, id instance.Identity) (map[string]string, error) {
	out := make(map[string]string)
	all, err := agent.Tasks(ctx)
	for _, t := range all {
		if t.Tags[arn.TagInstance] == id.ARN {
			out[t.ID] = t.Status
		}
	}
	return out, err
}

// removeTasks removes the tasks of the instance: those that are recorded, and any other that has its tag.
func removeTasks(ctx context.Context, agent instance.Agent, id instance.Identity, tasks []instance.Task) error {
	for _, t := range tasks { // the request of a process that was killed may still be on the way
		if t.Agent != "" || t.Told == wire.StatusStopped {
			continue
		}
		err := agent.Void(ctx, t.ARN)
		if err != nil && !api.Is(err, api.Conflict) && !api.Is(err, api.Unsupported) && !errors.Is(err, api.ErrNoServer) {
			return fmt.Errorf("the task %s, which is not made yet, cannot be forgotten: %w", t.ARN, err)
		}
	}
	all, err := tasksOf(ctx, agent, id)
	for _, t := range tasks {
		if t.Agent != "" {
			all[t.Agent] = t.Told
		}
	}
	if err != nil && (len(all) > 0 || !errors.Is(err, api.ErrNoServer)) {
		return fmt.Errorf("its tasks cannot be removed: %w", err)
	}
	for _, task := range slices.Sorted(maps.Keys(all)) {
		if err := agent.Remove(ctx, task, instance.ByECS, true); err != nil && !api.Is(err, api.NotFound) {
			return fmt.Errorf("the task %s cannot be removed: %w", task, err)
		}
	}
	return nil
}
