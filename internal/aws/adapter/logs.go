package adapter

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/serve/ownerapi"
)

// Streams implements awsapi.Logs.
func (e ECS) Streams(ctx context.Context) (all []logstreams.Stream) {
	for _, s := range e.States(ctx) {
		for i, c := range s.Task.Containers {
			if group, stream, ok := logdelivery.CloudWatch(s, i); ok {
				all = append(all, logstreams.Stream{Group: group, Name: stream, Task: s.ID, Container: c.Name, CreatedAt: s.CreatedAt})
			}
		}
	}
	return all
}

// Lines implements awsapi.Logs. A container that was not started yet has none.
func (e ECS) Lines(ctx context.Context, stream logstreams.Stream, since time.Time, fn func(logstreams.Line) error) error {
	s, err := e.backend.Engine.Tasks.Find(stream.Task)
	if err != nil {
		return ownerapi.Failure(err)
	}
	opts := observe.LogOptions{Since: since, Tail: -1, Timestamps: true}
	return e.backend.Engine.Logs.Read(ctx, s, stream.Container, opts, func(l observe.LogLine) error {
		return fn(logstreams.Line{Time: l.Time, Text: l.Text})
	})
}

// Last implements awsapi.Logs.
func (e ECS) Last(ctx context.Context, stream logstreams.Stream) (last logstreams.Line, ok bool, err error) {
	s, err := e.backend.Engine.Tasks.Get(stream.Task)
	if err != nil {
		return last, false, ownerapi.Failure(err)
	}
	err = e.backend.Engine.Logs.Read(ctx, s, stream.Container, observe.LogOptions{Tail: 1, Timestamps: true}, func(l observe.LogLine) error {
		last, ok = logstreams.Line{Time: l.Time, Text: l.Text}, true
		return nil
	})
	return last, ok, err
}
