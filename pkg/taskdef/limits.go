package taskdef

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
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
	maxSwappiness  = 100
	maxImage       = 255 // characters before the digest
)

var compatibilities = []string{"EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES"}

// unusedWords are the enums of members that have no effect here.
var unusedWords = []struct {
	path  string
	words []string
}{
	{"placementConstraints[].type", []string{"memberOf"}},
	{"volumes[].efsVolumeConfiguration.transitEncryption", []string{"ENABLED", "DISABLED"}},
	{"volumes[].efsVolumeConfiguration.authorizationConfig.iam", []string{"ENABLED", "DISABLED"}},
	{inContainer + "portMappings[].appProtocol", []string{"http", "http2", "grpc"}},
	{inContainer + "logConfiguration.options.mode", []string{"blocking", "non-blocking"}},
}

// warnUnused warns of members without an effect, by the limits of the ECS model.
func warnUnused(c cursor) {
	for _, item := range c.at("requiresCompatibilities").list(`write a list, as in ["FARGATE"]`) {
		decodeOneOf(item, compatibilities...)
	}
	checkIsolation(c.at("trustedExecutionConfiguration"))
	requireAtMost(c.at("placementConstraints"), maxConstraints, "placement constraints")
	checkTags(c)
	for _, u := range unusedWords {
		forEach(c, strings.Split(u.path, "."), func(word cursor) { warnUnusedWord(word, u.words) })
	}
	forEach(c, strings.Split(linux+"swappiness", "."), checkSwappiness)
	warnLaunchedVolumes(c)
}

// decodeStorage decodes the ephemeral storage of a task, in GiB; 0 for none.
func decodeStorage(c cursor) int64 {
	storage := c.at("sizeInGiB")
	size := storage.integer(0, minStorage)
	if size < minStorage || size > maxStorage {
		storage.wrong(fmt.Sprintf("sizeInGiB is out of range: it must be %d to %d GiB", minStorage, maxStorage), "")
	}
	if !storage.filled() || storage.failed() {
		return 0
	}
	return size
}

// checkIsolation accepts the isolation that every task has here: none beyond that of containers.
func checkIsolation(c cursor) {
	if !c.present() {
		return
	}
	switch mode := c.at("isolationMode"); mode.str() {
	case "SHARED":
	case "":
		if !mode.failed() {
			c.wrong("isolationMode is missing", `write "isolationMode": "SHARED"`)
		}
	case "ISOLATED_SANDBOX", "CONFIDENTIAL_SANDBOX":
		mode.wrong(mode.str()+" needs a Nitro sandbox, which this host does not have", `write "SHARED" if the task may share the host with others`)
	default:
		decodeOneOf(mode, "SHARED")
	}
}

// warnUnusedWord reports a word that is not in an enum. What stands for a word, such as
// a placeholder, need not be given for a member without effect.
func warnUnusedWord(c cursor, words []string) {
	if c.node.Kind == doctree.Text && c.node.Text != "" && !slices.Contains(words, c.node.Text) && !placeholder.MatchString(c.node.Text) {
		c.wrong("this cannot be "+quote(c.node.Text), cmp.Or(suggest.Question(c.node.Text, words), "use "+strings.Join(words, " or ")))
	}
}

func checkSwappiness(c cursor) {
	if c.node.Kind != doctree.Number {
		return
	}
	if value := c.integer(0, 0); value > maxSwappiness {
		c.wrong(fmt.Sprintf("swappiness is out of range: it must be 0 to %d", maxSwappiness), "")
	}
}

// warnLaunchedVolumes reports a second volume that is configured at launch.
func warnLaunchedVolumes(c cursor) {
	launched := 0
	forEach(c, []string{"volumes[]", "configuredAtLaunch"}, func(flag cursor) {
		if flag.node.Text != "true" {
			return
		}
		if launched++; launched > 1 {
			flag.wrong("a task definition has at most one volume that is configured at launch", "")
		}
	})
}

// decodeTags decodes a list of tags; nil for none.
func decodeTags(c cursor) map[string]string {
	var tags map[string]string
	for _, item := range c.list("") {
		if !item.want(doctree.Object, `write {"key": ..., "value": ...}`) {
			continue
		}
		key, value := item.at("key").free(), item.at("value").free()
		if tags == nil {
			tags = make(map[string]string)
		}
		if key != "" {
			tags[key] = value
		}
	}
	return tags
}

// checkTags holds the tags of a task definition against their limits.
func checkTags(c cursor) {
	tags := c.at("tags")
	requireAtMost(tags, maxTags, "tags")
	if !tags.present() || tags.node.Kind != doctree.List {
		return
	}
	seen := make(map[string]bool)
	for _, item := range tags.list("") {
		key := item.at("key")
		if item.node.Kind != doctree.Object || !key.present() {
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

// requireAtMost reports a list that is too long.
func requireAtMost(c cursor, n int, what string) {
	if c.present() && c.node.Kind == doctree.List && len(c.node.Items) > n {
		c.wrong(fmt.Sprintf("there are %d %s, more than %d", len(c.node.Items), what, n), "")
	}
}
