package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/payload"
	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// definitions asks ECS for task definitions where that is permitted, once for each revision: they never
// change. The managed policy of instances does not permit it, so the payload must do without.
type definitions struct {
	mu     sync.Mutex
	known  map[string]json.RawMessage // nil for those that ECS does not describe
	denied bool                       // until the process ends
}

// maxDefinitions is how many are kept.
const maxDefinitions = 200

// plan returns what the agent is asked for: the definition as ECS describes it, with what the payload
// overrides; else the payload, translated.
func (n *node) plan(ctx context.Context, t wire.Task) (payload.Plan, []payload.Problem) {
	if d := n.definitions.get(ctx, n, t); d != nil {
		return payload.Described(d, t, n.arn())
	}
	return payload.Of(t, n.arn())
}

func (d *definitions) get(ctx context.Context, n *node, t wire.Task) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denied || t.Family == "" || t.Version == "" {
		return nil
	}
	name := t.Family + ":" + t.Version
	if part := strings.Split(t.ARN, ":"); t.Account != "" && len(part) > 3 {
		name = fmt.Sprintf("%s:%s:ecs:%s:%s:task-definition/%s", part[0], part[1], part[3], t.Account, name)
	}
	if found, known := d.known[name]; known {
		return found
	}
	var out struct {
		Definition json.RawMessage `json:"taskDefinition"`
	}
	err := n.Calls.Call(ctx, awscall.ECS, "DescribeTaskDefinition", map[string]string{"taskDefinition": name}, &out)
	switch {
	case awscall.CodeOf(err) == "AccessDeniedException":
		d.denied = true
		n.Log.Info("ecs:DescribeTaskDefinition is not permitted, so payloads are translated", "error", err)
		return nil
	case err != nil && !awscall.Refused(err):
		return nil // the next task may have it
	}
	if d.known == nil || len(d.known) >= maxDefinitions {
		d.known = make(map[string]json.RawMessage)
	}
	d.known[name] = out.Definition
	return out.Definition
}
