package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
)

// Tag is a tag of anything.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

const maxTags = 50

// CheckTags checks tags as ECS does.
func CheckTags(path string, tags []Tag) error {
	if len(tags) > maxTags {
		return protocol.Invalidf("%s: there are %d tags, more than %d", path, len(tags), maxTags)
	}
	seen := make(map[string]bool)
	for _, t := range tags {
		switch {
		case t.Key == "" || len([]rune(t.Key)) > 128:
			return protocol.Invalidf("%s: a key has 1 to 128 characters, not %q", path, protocol.Shortened(t.Key))
		case len([]rune(t.Value)) > 256:
			return protocol.Invalidf("%s: the value of %s has more than 256 characters", path, t.Key)
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return protocol.Invalidf("%s: %s: keys that begin with aws: are reserved", path, protocol.Shortened(t.Key))
		case seen[t.Key]:
			return protocol.Invalidf("%s: %s is there twice", path, t.Key)
		}
		seen[t.Key] = true
	}
	return nil
}

// TagStore holds the tags of what was tagged after it was made. Others have those that they
// were made with.
type TagStore struct {
	records *state.Store

	mu sync.Mutex // for one change
}

// NewTagStore returns the tags that are in records.
func NewTagStore(records *state.Store) *TagStore { return &TagStore{records: records} }

// tagRecord is a record of tags.
type tagRecord struct {
	Kind string `json:"kind"`
	ARN  string `json:"arn"`
	Tags []Tag  `json:"tags"`
}

const kindTags = "tags"

// RecordKey names the record of something.
func RecordKey(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + name))
	return hex.EncodeToString(sum[:16])
}

// tagsKey names the record of the tags of something.
func tagsKey(name string) string { return RecordKey(kindTags, arn.Lasting(name)) }

// Of returns the tags of something that was made with some; never nil.
func (s *TagStore) Of(name string, made []Tag) ([]Tag, error) {
	data, err := s.records.Get(tagsKey(name))
	if errors.Is(err, fs.ErrNotExist) {
		return append([]Tag{}, made...), nil
	}
	var r tagRecord
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return append([]Tag{}, r.Tags...), err
}

// Change replaces the tags of something by what f makes of them.
func (s *TagStore) Change(name string, made []Tag, f func([]Tag) []Tag) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.Of(name, made)
	if err != nil {
		return err
	}
	now = f(now)
	if err := CheckTags("tags", now); err != nil {
		return err
	}
	data, err := json.Marshal(tagRecord{kindTags, name, now})
	if err != nil {
		return err
	}
	return s.records.Put(tagsKey(name), data)
}

// Forget drops the tags of something that is gone.
func (s *TagStore) Forget(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.Delete(tagsKey(name))
}

// CheckTagMap checks tags as CloudWatch Logs has them.
func CheckTagMap(tags map[string]string) error {
	var list []Tag
	for k, v := range tags {
		list = append(list, Tag{k, v})
	}
	return CheckTags("tags", list)
}

// WithTags adds tags, or replaces those of the same keys.
func WithTags(tags []Tag, more map[string]string) []Tag {
	tags = slices.DeleteFunc(tags, func(t Tag) bool { _, again := more[t.Key]; return again })
	for _, k := range slices.Sorted(maps.Keys(more)) {
		tags = append(tags, Tag{k, more[k]})
	}
	return tags
}
