package awsapi

import (
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/lazy"
)

// cut returns what stands behind the kind in an ARN, or the whole text if it is no ARN.
// Any region is taken: it is a name that clients choose.
func cut(path, kind, text string) (rest string, isARN bool, err error) {
	if !strings.HasPrefix(text, "arn:") {
		return text, false, nil
	}
	parts := strings.SplitN(text, ":", 6)
	if len(parts) == 6 {
		rest, isARN = strings.CutPrefix(parts[5], kind+"/")
	}
	if !isARN || parts[2] != "ecs" || parts[4] != arn.Account() {
		return "", true, protocol.Invalidf("%s: %q is not the ARN of a %s of account %s", path, protocol.Shortened(text), kind, arn.Account())
	}
	return rest, true, nil
}

// namePattern has no length: to compile counted repeats takes time and memory in each process.
var namePattern = lazy.MustCompile(`^[a-zA-Z0-9_-]+$`)

// clusterName reads the name or the ARN of a cluster; an empty text is the default one.
func clusterName(path, text string) (string, error) {
	if text == "" {
		return arn.DefaultCluster, nil
	}
	name, _, err := cut(path, "cluster", text)
	if err == nil && (len(name) > 255 || !namePattern.MatchString(name)) {
		err = protocol.Invalidf("%s: %q is not a name of 1 to 255 letters, digits, dashes and underscores", path, protocol.Shortened(name))
	}
	return name, err
}

// idPattern is that of tasks and container instances.
var idPattern = lazy.MustCompile(`^[0-9a-f]{32}$`)

// inCluster reads an id, or an ARN of the kind in the cluster.
func inCluster(path, kind, cluster, text string) (id string, err error) {
	id, isARN, err := cut(path, kind, text)
	if err != nil {
		return "", err
	}
	if isARN {
		own, rest, two := strings.Cut(id, "/")
		if two && own != cluster {
			return "", protocol.Invalidf("%s: %s is in cluster %s, not in %s", path, protocol.Shortened(text), own, cluster)
		}
		if two {
			id = rest
		}
	}
	return id, nil
}

// definitionRef reads FAMILY, FAMILY:REVISION or an ARN.
func definitionRef(path, text string) (catalog.Ref, error) {
	name, _, err := cut(path, "task-definition", text)
	if err != nil {
		return catalog.Ref{}, err
	}
	ref, err := catalog.ParseRef(name)
	if err != nil {
		return ref, protocol.Invalidf("%s: %v", path, err)
	}
	return ref, nil
}
