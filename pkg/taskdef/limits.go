package taskdef

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of the ECS model for members that have no effect here: ECS would refuse
// the definition, so that it is better said now.
const (
	maxTags        = 50
	maxTagKey      = 128 // characters
	maxTagValue    = 256
	maxConstraints = 10
	minStorage     = 21 // GiB
	maxStorage     = 200
	maxImage       = 255 // characters before the digest
)

var compatibilities = []string{"EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES"}

// unused holds what has no effect against the limits of the ECS model.
func (c cursor) unused() {
	for _, item := range c.at("requiresCompatibilities").list(`write a list, as in ["FARGATE"]`) {
		item.oneOf(compatibilities...)
	}
	c.at("placementConstraints").atMost(maxConstraints, "placement constraints")
	c.tags()
	storage := c.at("ephemeralStorage").at("sizeInGiB")
	if size := storage.integer(0, minStorage); size < minStorage || size > maxStorage {
		storage.wrong(fmt.Sprintf("sizeInGiB is out of range: it must be %d to %d GiB", minStorage, maxStorage), "")
	}
}

// tags holds the tags of a task definition against their limits.
func (c cursor) tags() {
	tags := c.at("tags")
	tags.atMost(maxTags, "tags")
	if !tags.present() || tags.node.kind != list {
		return
	}
	seen := make(map[string]bool)
	for _, item := range tags.list("") {
		key := item.at("key")
		if item.node.kind != object || !key.present() {
			continue
		}
		name := key.free()
		switch {
		case seen[name]:
			key.wrong("the tag "+quote(name)+" is set twice", "keep one of them")
		case utf8.RuneCountInString(name) > maxTagKey:
			key.wrong(fmt.Sprintf("the key of a tag has at most %d characters", maxTagKey), "")
		case strings.HasPrefix(strings.ToLower(name), "aws:"):
			key.wrong("keys of tags that start with \"aws:\" are reserved", "rename it")
		}
		seen[name] = true
		if value := item.at("value"); utf8.RuneCountInString(value.free()) > maxTagValue {
			value.wrong(fmt.Sprintf("the value of a tag has at most %d characters", maxTagValue), "")
		}
	}
}

// atMost reports a list that is too long.
func (c cursor) atMost(n int, what string) {
	if c.present() && c.node.kind == list && len(c.node.items) > n {
		c.wrong(fmt.Sprintf("there are %d %s, more than %d", len(c.node.items), what, n), "")
	}
}
