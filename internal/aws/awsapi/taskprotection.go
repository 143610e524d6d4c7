package awsapi

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// protection are the operations that protect tasks from the updates of their services and from
// a drain.
type protection struct {
	*tasks
	now func() time.Time
}

// How long a protection lasts, in minutes, and how many tasks a request changes.
const (
	defaultProtection = 120
	longestProtection = int(lifecycle.MaxProtection / time.Minute)
	maxProtected      = 10
)

func (p protection) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("UpdateTaskProtection", protocol.Honor("cluster!", "tasks!", "protectionEnabled!", "expiresInMinutes"), p.update),
		protocol.Define("GetTaskProtection", protocol.Honor("cluster!", "tasks"), p.get),
	}
}

// protectedDoc is a task in answers.
type protectedDoc struct {
	TaskARN string          `json:"taskArn"`
	Enabled bool            `json:"protectionEnabled"`
	Expires protocol.Moment `json:"expirationDate,omitzero"`
}

type protectedAnswer struct {
	Tasks    []protectedDoc     `json:"protectedTasks"`
	Failures []protocol.Problem `json:"failures"`
}

type protectionIn struct {
	Cluster string   `json:"cluster"`
	Tasks   []string `json:"tasks"`
	Enabled bool     `json:"protectionEnabled"`
	Minutes *int     `json:"expiresInMinutes"`
}

func (p protection) update(ctx context.Context, in protectionIn, _ protocol.Fields) (any, error) {
	if n := len(in.Tasks); n < 1 || n > maxProtected {
		return nil, protocol.Invalidf("tasks: %d is not 1 to %d", n, maxProtected)
	}
	if err := protocol.Within("expiresInMinutes", in.Minutes, 1, longestProtection); err != nil {
		return nil, err
	}
	until := time.Time{}
	if in.Enabled {
		minutes := defaultProtection
		if in.Minutes != nil {
			minutes = *in.Minutes
		}
		until = p.now().Add(time.Duration(minutes) * time.Minute).UTC().Truncate(time.Second)
	}
	return p.each(ctx, in, func(s lifecycle.State) error { return p.tasks.tasks.Protect(ctx, s.ID, until) })
}

func (p protection) get(ctx context.Context, in protectionIn, _ protocol.Fields) (any, error) {
	if len(in.Tasks) > protocol.MaxPage {
		return nil, protocol.Invalidf("tasks: there are %d, more than %d", len(in.Tasks), protocol.MaxPage)
	}
	return p.each(ctx, in, func(lifecycle.State) error { return nil })
}

// each changes the tasks of a request and describes them; without any in the request, all that
// are meant to run.
func (p protection) each(ctx context.Context, in protectionIn, change func(lifecycle.State) error) (any, error) {
	cluster, err := p.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	answer := protectedAnswer{[]protectedDoc{}, []protocol.Problem{}}
	if len(in.Tasks) == 0 {
		for _, s := range p.tasks.tasks.States(ctx) {
			if s.Goal == lifecycle.Up && clusterOf(s) == cluster {
				in.Tasks = append(in.Tasks, s.ID)
			}
		}
	}
	var ids []string
	for _, text := range in.Tasks {
		s, ok, err := p.find(ctx, "tasks", cluster, text)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			id, _ := inCluster("tasks", "task", cluster, text)
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Task(cluster, id), Reason: protocol.MissingReason})
		case s.Goal != lifecycle.Up:
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Task(cluster, s.ID), Reason: "TASK_NOT_VALID", Detail: "the task is stopping or has stopped"})
		default:
			if err := change(s); err != nil {
				return nil, err
			}
			ids = append(ids, s.ID)
		}
	}
	for _, id := range ids {
		if s, ok := p.tasks.tasks.State(ctx, id); ok {
			on := p.now().Before(s.ProtectedUntil)
			doc := protectedDoc{TaskARN: arn.Task(cluster, s.ID), Enabled: on}
			if on {
				doc.Expires = protocol.Moment(s.ProtectedUntil)
			}
			answer.Tasks = append(answer.Tasks, doc)
		}
	}
	return answer, nil
}
