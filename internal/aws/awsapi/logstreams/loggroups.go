package logstreams

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/lazy"
)

// logGroupRecord records a log group that clients created, changed or deleted.
type logGroupRecord struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// CreatedAt is zero if no client has created the group, or if it was deleted since.
	CreatedAt time.Time         `json:"createdAt,omitzero"`
	Tags      map[string]string `json:"tags,omitempty"`
	// Kept has the members that podtask stores and gives back without acting on them.
	Kept protocol.Fields `json:"kept,omitempty"`
	// DeletedAt hides the streams of tasks that were made before: their group was deleted.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
	// Streams lists the streams that clients have created, the oldest first.
	Streams []putStream `json:"streams,omitempty"`
}

// hides reports whether a stream was in the group when it was deleted.
func (r logGroupRecord) hides(s Stream) bool {
	return !r.DeletedAt.IsZero() && !s.CreatedAt.After(r.DeletedAt)
}

// logGroup is a group with its streams.
type logGroup struct {
	record    logGroupRecord
	createdAt time.Time
	streams   []Stream
}

// byGroup are all groups: those of containers and those that a client has made.
func (l *logs) byGroup(ctx context.Context) (map[string]logGroup, error) {
	all := make(map[string]logGroup)
	for record, err := range l.records.All(nil) {
		var r logGroupRecord
		if err != nil || json.Unmarshal(record.Data, &r) != nil || r.Kind != kindLogGroup {
			continue // one that cannot be read does not hide the others
		}
		g := logGroup{record: r, createdAt: r.CreatedAt}
		for _, s := range r.Streams {
			g.streams = append(g.streams, Stream{Group: r.Name, Name: s.Name, CreatedAt: s.CreatedAt, put: &s})
		}
		all[r.Name] = g
	}
	for _, s := range l.logs.Streams(ctx) {
		g := all[s.Group]
		if g.record.hides(s) {
			continue
		}
		if g.createdAt.IsZero() || s.CreatedAt.Before(g.createdAt) {
			g.createdAt = s.CreatedAt
		}
		g.streams = append(g.streams, s)
		all[s.Group] = g
	}
	maps.DeleteFunc(all, func(_ string, g logGroup) bool { return g.createdAt.IsZero() })
	return all, nil
}

// record returns what clients have made of a group; an empty record if none has.
func (l *logs) record(name string) (r logGroupRecord, err error) {
	data, err := l.records.Get(resource.RecordKey(kindLogGroup, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return logGroupRecord{Kind: kindLogGroup, Name: name}, nil
	case err == nil:
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

func (l *logs) put(r logGroupRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return l.records.Put(resource.RecordKey(kindLogGroup, r.Name), data)
}

// change changes what is kept of a group that is there.
func (l *logs) change(ctx context.Context, in inGroup, f func(*logGroupRecord) error) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, g, err := l.find(ctx, in)
	if err != nil {
		return nil, err
	}
	r := g.record
	r.Kind, r.Name = kindLogGroup, name
	if err := f(&r); err != nil {
		return nil, err
	}
	return struct{}{}, l.put(r)
}

var logGroupName = lazy.MustCompile(`^[\.\-_/#A-Za-z0-9]+$`)

type createLogGroupIn struct {
	Name string            `json:"logGroupName"`
	Tags map[string]string `json:"tags"`
}

func (l *logs) createGroup(ctx context.Context, in createLogGroupIn, kept protocol.Fields) (any, error) {
	if len(in.Name) > 512 || !logGroupName.MatchString(in.Name) {
		return nil, protocol.Invalidf("logGroupName: %q is not a name of 1 to 512 letters, digits and . - _ / #", protocol.Shortened(in.Name))
	}
	if err := resource.CheckTagMap(in.Tags); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.byGroup(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := all[in.Name]; ok {
		return nil, protocol.Failf("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	r, err := l.record(in.Name)
	if err != nil {
		return nil, err
	}
	r.CreatedAt, r.Tags, r.Kept = l.now().UTC(), in.Tags, kept
	return struct{}{}, l.put(r)
}

// deleteGroup deletes a group from what clients see. The tasks keep their logs.
func (l *logs) deleteGroup(ctx context.Context, in inGroup, _ protocol.Fields) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, _, err := l.find(ctx, in)
	if err != nil {
		return nil, err
	}
	r := logGroupRecord{Kind: kindLogGroup, Name: name, DeletedAt: l.now().UTC()}
	if !slices.ContainsFunc(l.logs.Streams(ctx), func(s Stream) bool { return s.Group == name && r.hides(s) }) {
		return struct{}{}, l.records.Delete(resource.RecordKey(kindLogGroup, name))
	}
	return struct{}{}, l.put(r)
}

// retentions are the days that CloudWatch Logs takes.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

func (l *logs) putRetention(ctx context.Context, in inGroup, kept protocol.Fields) (any, error) {
	var days int
	if err := json.Unmarshal(kept["retentionInDays"], &days); err != nil || !slices.Contains(retentions, days) {
		return nil, protocol.Invalidf("retentionInDays: %s is none of %v", protocol.Shortened(string(kept["retentionInDays"])), retentions)
	}
	return l.change(ctx, in, func(r *logGroupRecord) error {
		r.Kept = maps.Clone(r.Kept)
		if r.Kept == nil {
			r.Kept = make(protocol.Fields)
		}
		maps.Copy(r.Kept, kept)
		return nil
	})
}

func (l *logs) deleteRetention(ctx context.Context, in inGroup, _ protocol.Fields) (any, error) {
	return l.change(ctx, in, func(r *logGroupRecord) error {
		delete(r.Kept, "retentionInDays")
		return nil
	})
}

type logTagsIn struct {
	ARN     string            `json:"resourceArn"`
	Tags    map[string]string `json:"tags"`
	TagKeys []string          `json:"tagKeys"`
}

// group is the group of an ARN.
func (in logTagsIn) group() (inGroup, error) {
	if !strings.HasPrefix(in.ARN, "arn:") {
		return inGroup{}, protocol.Invalidf("resourceArn: %q is not the ARN of a log group", protocol.Shortened(in.ARN))
	}
	return inGroup{Identifier: in.ARN}, nil
}

func (l *logs) tag(ctx context.Context, in logTagsIn, _ protocol.Fields) (any, error) {
	group, err := in.group()
	if err != nil {
		return nil, err
	}
	return l.change(ctx, group, func(r *logGroupRecord) error {
		tags := make(map[string]string)
		maps.Copy(tags, r.Tags)
		maps.Copy(tags, in.Tags)
		r.Tags = tags
		return resource.CheckTagMap(tags)
	})
}

func (l *logs) untag(ctx context.Context, in logTagsIn, _ protocol.Fields) (any, error) {
	group, err := in.group()
	if err != nil {
		return nil, err
	}
	return l.change(ctx, group, func(r *logGroupRecord) error {
		maps.DeleteFunc(r.Tags, func(k, _ string) bool { return slices.Contains(in.TagKeys, k) })
		return nil
	})
}

func (l *logs) listTags(ctx context.Context, in logTagsIn, _ protocol.Fields) (any, error) {
	group, err := in.group()
	if err != nil {
		return nil, err
	}
	_, g, err := l.find(ctx, group)
	tags := make(map[string]string)
	maps.Copy(tags, g.record.Tags)
	return struct {
		Tags map[string]string `json:"tags"`
	}{tags}, err
}
