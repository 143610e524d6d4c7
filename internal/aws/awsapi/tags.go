package awsapi

import (
	"context"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
)

// tagging are the operations on tags.
type tagging struct {
	tags        *resource.TagStore
	clusters    *clusters
	definitions *definitions
	tasks       *tasks
	services    *serviceIndex
}

func (t *tagging) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("TagResource", protocol.Honor("resourceArn!", "tags!", "tags[].key", "tags[].value"), t.tag),
		protocol.Define("UntagResource", protocol.Honor("resourceArn!", "tagKeys!"), t.untag),
		protocol.Define("ListTagsForResource", protocol.Honor("resourceArn!"), t.list),
	}
}

// taggingIn is the request of each of them.
type taggingIn struct {
	ResourceARN string         `json:"resourceArn"`
	Tags        []resource.Tag `json:"tags"`
	TagKeys     []string       `json:"tagKeys"`
}

// made finds a resource: the ARN under which it has tags, and those it was made with.
func (t *tagging) made(ctx context.Context, text string) (string, []resource.Tag, error) {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) < 6 {
		return "", nil, protocol.Invalidf("resourceArn: %q is not an ARN", protocol.Shortened(text))
	}
	switch kind, _, _ := strings.Cut(parts[5], "/"); kind {
	case "cluster":
		return t.clusters.tagged(text)
	case "task-definition":
		return t.definitions.tagged(text)
	case "task":
		return t.tasks.tagged(ctx, text)
	case "service":
		return t.services.tagged(text)
	default:
		return "", nil, protocol.Invalidf("resourceArn: podtask has no tags for a %s", protocol.Shortened(kind))
	}
}

func (t *tagging) tag(ctx context.Context, in taggingIn, _ protocol.Fields) (any, error) {
	if err := resource.CheckTags("tags", in.Tags); err != nil {
		return nil, err
	}
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return struct{}{}, t.tags.Change(name, made, func(tags []resource.Tag) []resource.Tag {
		for _, set := range in.Tags {
			i := slices.IndexFunc(tags, func(t resource.Tag) bool { return t.Key == set.Key })
			if i < 0 {
				tags = append(tags, set)
			} else {
				tags[i] = set
			}
		}
		return tags
	})
}

func (t *tagging) untag(ctx context.Context, in taggingIn, _ protocol.Fields) (any, error) {
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return struct{}{}, t.tags.Change(name, made, func(tags []resource.Tag) []resource.Tag {
		return slices.DeleteFunc(tags, func(t resource.Tag) bool { return slices.Contains(in.TagKeys, t.Key) })
	})
}

func (t *tagging) list(ctx context.Context, in taggingIn, _ protocol.Fields) (any, error) {
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	tags, err := t.tags.Of(name, made)
	return struct {
		Tags []resource.Tag `json:"tags"`
	}{tags}, err
}
