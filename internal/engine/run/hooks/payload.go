package hooks

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/service"
)

// payload is what a hook gets, with the members of ECS' payload for Lambda functions.
type payload struct {
	ExecutionID string          `json:"executionId"`
	Stage       service.Stage   `json:"lifecycleStage"`
	Resource    string          `json:"resourceArn"`
	Execution   execution       `json:"executionDetails"`
	Details     json.RawMessage `json:"hookDetails,omitempty"`
}

// execution says what the deployment does. Weights are in percent, by the ARN of a revision.
type execution struct {
	Test       map[string]float64 `json:"testTrafficWeights"`
	Production map[string]float64 `json:"productionTrafficWeights"`
	Service    string             `json:"serviceArn"`
	Target     string             `json:"targetServiceRevisionArn"`
}

// Payload returns what a hook gets.
func Payload(s service.State, r service.HookRequest) ([]byte, error) {
	cluster := cmp.Or(s.Config.Cluster, arn.DefaultCluster)
	revision := func(deployment string) string {
		return arn.ServiceRevision(cluster, s.Name, arn.RevisionID(deployment))
	}
	weights := func(parts map[string]service.Permille) map[string]float64 {
		percents := make(map[string]float64)
		for deployment, part := range parts {
			percents[revision(deployment)] = part.Percent()
		}
		return percents
	}
	return json.Marshal(payload{
		ExecutionID: executionID(r.ID), Stage: r.Stage, Resource: arn.ServiceDeployment(cluster, s.Name, arn.AttemptID(s.ID, r.Attempt)),
		Execution: execution{weights(r.TestWeights), weights(r.ProductionWeights), arn.Service(cluster, s.Name), revision(r.Green)},
		Details:   r.Details,
	})
}

// executionID is a UUID for a hook in a stage: repeated calls have the same one, also after the
// agent was killed, so that a hook may tell that it began already.
func executionID(call string) string {
	b := sha256.Sum256([]byte("podtask hook " + call))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8 of RFC 9562: made by the application
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
