package awsapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
)

// tag is a tag of anything.
type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

const maxTags = 50

// checkTags checks tags as ECS does.
func checkTags(path string, tags []tag) error {
	if len(tags) > maxTags {
		return invalidf("%s: there are %d tags, more than %d", path, len(tags), maxTags)
	}
	seen := make(map[string]bool)
	for _, t := range tags {
		switch {
		case t.Key == "" || len([]rune(t.Key)) > 128:
			return invalidf("%s: a key has 1 to 128 characters, not %q", path, shortened(t.Key))
		case len([]rune(t.Value)) > 256:
			return invalidf("%s: the value of %s has more than 256 characters", path, t.Key)
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return invalidf("%s: %s: keys that begin with aws: are reserved", path, shortened(t.Key))
		case seen[t.Key]:
			return invalidf("%s: %s is there twice", path, t.Key)
		}
		seen[t.Key] = true
	}
	return nil
}

// tagStore holds the tags of what was tagged after it was made. Others have those that they
// were made with.
type tagStore struct {
	records *state.Store

	mu sync.Mutex // for one change
}

// tagRecord is a record of tags.
type tagRecord struct {
	Kind string `json:"kind"`
	ARN  string `json:"arn"`
	Tags []tag  `json:"tags"`
}

const kindTags = "tags"

// recordKey names the record of something.
func recordKey(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + name))
	return hex.EncodeToString(sum[:16])
}

// tagsKey names the record of the tags of something.
func tagsKey(name string) string { return recordKey(kindTags, arn.Lasting(name)) }

// of returns the tags of something that was made with some; never nil.
func (s *tagStore) of(name string, made []tag) ([]tag, error) {
	data, err := s.records.Get(tagsKey(name))
	if errors.Is(err, fs.ErrNotExist) {
		return append([]tag{}, made...), nil
	}
	var r tagRecord
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return append([]tag{}, r.Tags...), err
}

// change replaces the tags of something by what f makes of them.
func (s *tagStore) change(name string, made []tag, f func([]tag) []tag) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.of(name, made)
	if err != nil {
		return err
	}
	now = f(now)
	if err := checkTags("tags", now); err != nil {
		return err
	}
	data, err := json.Marshal(tagRecord{kindTags, name, now})
	if err != nil {
		return err
	}
	return s.records.Put(tagsKey(name), data)
}

// forget drops the tags of something that is gone.
func (s *tagStore) forget(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.Delete(tagsKey(name))
}

// tagging are the operations on tags.
type tagging struct {
	tags        *tagStore
	clusters    *clusters
	definitions *definitions
	tasks       *tasks
	services    *serviceBook
}

func (t *tagging) operations() []operation {
	return []operation{
		define("TagResource", honor("resourceArn!", "tags!", "tags[].key", "tags[].value"), t.tag),
		define("UntagResource", honor("resourceArn!", "tagKeys!"), t.untag),
		define("ListTagsForResource", honor("resourceArn!"), t.list),
	}
}

// taggingIn is the request of each of them.
type taggingIn struct {
	ResourceARN string   `json:"resourceArn"`
	Tags        []tag    `json:"tags"`
	TagKeys     []string `json:"tagKeys"`
}

// made finds a resource: the ARN under which it has tags, and those it was made with.
func (t *tagging) made(ctx context.Context, text string) (string, []tag, error) {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) < 6 {
		return "", nil, invalidf("resourceArn: %q is not an ARN", shortened(text))
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
		return "", nil, invalidf("resourceArn: podtask has no tags for a %s", shortened(kind))
	}
}

func (t *tagging) tag(ctx context.Context, in taggingIn, _ fields) (any, error) {
	if err := checkTags("tags", in.Tags); err != nil {
		return nil, err
	}
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return struct{}{}, t.tags.change(name, made, func(tags []tag) []tag {
		for _, set := range in.Tags {
			i := slices.IndexFunc(tags, func(t tag) bool { return t.Key == set.Key })
			if i < 0 {
				tags = append(tags, set)
			} else {
				tags[i] = set
			}
		}
		return tags
	})
}

func (t *tagging) untag(ctx context.Context, in taggingIn, _ fields) (any, error) {
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return struct{}{}, t.tags.change(name, made, func(tags []tag) []tag {
		return slices.DeleteFunc(tags, func(t tag) bool { return slices.Contains(in.TagKeys, t.Key) })
	})
}

func (t *tagging) list(ctx context.Context, in taggingIn, _ fields) (any, error) {
	name, made, err := t.made(ctx, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	tags, err := t.tags.of(name, made)
	return struct {
		Tags []tag `json:"tags"`
	}{tags}, err
}
