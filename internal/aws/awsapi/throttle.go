package awsapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// bucket is a category of operations with the rate at which requests of all of them together are answered.
type bucket struct {
	category   string
	burst      float64 // requests at once
	rate       float64 // requests in a second, on average
	operations []string
}

// buckets hold the rates of "Request throttling for the Amazon ECS API", without those of refused operations. ECS's page has no rate for
// ContinueServiceDeployment, DiscoverPollEndpoint and StopServiceDeployment; the buckets of other services, which
// have quotas for each operation on AWS, are podtask's.
var buckets = []bucket{
	{"Cluster modify", 20, 1, []string{"CreateCluster", "DeleteCluster", "PutClusterCapacityProviders", "UpdateCluster", "UpdateClusterSettings"}},
	{"Cluster read", 50, 20, []string{"DescribeClusters", "ListClusters", "DiscoverPollEndpoint"}},
	{"Task definition modify", 20, 1, []string{"DeregisterTaskDefinition", "RegisterTaskDefinition"}},
	{"Task definition read", 50, 20, []string{"DescribeTaskDefinition", "ListTaskDefinitions", "ListTaskDefinitionFamilies"}},
	{"Task definition deletion", 5, 1, []string{"DeleteTaskDefinitions"}},
	{"Capacity provider read", 50, 20, []string{"DescribeCapacityProviders"}},
	{"Tag modify", 20, 10, []string{"TagResource", "UntagResource"}},
	{"Tag read", 50, 20, []string{"ListTagsForResource"}},
	{"Setting modify", 10, 1, []string{"DeleteAccountSetting", "PutAccountSetting", "PutAccountSettingDefault"}},
	{"Setting read", 50, 20, []string{"ListAccountSettings"}},
	{"Cluster resource modify", 100, 40, []string{"ExecuteCommand", "RunTask", "StartTask", "StopTask", "UpdateContainerInstancesState"}},
	{"Cluster resource read", 100, 20, []string{"DescribeContainerInstances", "DescribeTasks", "ListContainerInstances", "ListTasks"}},
	{"Service modify", 50, 5, []string{"CreateService", "DeleteService", "UpdateService", "CreateExpressGatewayService", "DeleteExpressGatewayService", "UpdateExpressGatewayService"}},
	{"Service read", 100, 20, []string{"DescribeServices", "ListServices", "DescribeExpressGatewayService"}},
	{"Service deployment", 50, 20, []string{"DescribeServiceDeployments", "ListServiceDeployments", "StopServiceDeployment", "ContinueServiceDeployment"}},
	{"Service revision", 50, 20, []string{"DescribeServiceRevisions"}},
	{"Task protection", 200, 80, []string{"UpdateTaskProtection", "GetTaskProtection"}},
	{"Cluster service resource read", 10, 1, []string{"ListServicesByNamespace"}},
	{category: "Logs", burst: 100, rate: 25},
	{category: "Systems Manager", burst: 100, rate: 40},
	{category: "Application Auto Scaling", burst: 50, rate: 10},
}

// bucketOf returns the index of the bucket of a target that is answered.
func bucketOf(target string) int {
	service, name, _ := strings.Cut(target, ".")
	category := map[string]string{logstreams.Target: "Logs", targetSSM: "Systems Manager", autoscaling.Target: "Application Auto Scaling"}[service+"."]
	return slices.IndexFunc(buckets, func(b bucket) bool {
		return category != "" && b.category == category || category == "" && slices.Contains(b.operations, name)
	})
}

// throttle limits the rate of requests with a token bucket for each category, and counts them. It is safe for concurrent use.
type throttle struct {
	off bool
	now func() time.Time

	mu     sync.Mutex
	filled []filling // like buckets
	counts map[Request]uint64
}

// filling is the content of a bucket.
type filling struct {
	tokens float64
	at     time.Time // zero: it was not used yet, and is full
}

// Request is an operation, named as Operations names it, with what became of a request: answered, refused, throttled, or
// failed for a reason of this side.
type Request struct{ Operation, Outcome string }

// The outcomes.
const (
	outcomeAnswered  = "answered"
	outcomeRefused   = "refused"
	outcomeThrottled = "throttled"
	outcomeFailed    = "failed"
)

func newThrottle(off bool, now func() time.Time) *throttle {
	return &throttle{off: off, now: now, filled: make([]filling, len(buckets)), counts: make(map[Request]uint64)}
}

// take takes a token for a request, or returns ECS's exception. SDKs wait and ask again.
func (t *throttle) take(target string) error {
	i := bucketOf(target)
	if t.off || i < 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, f, at := buckets[i], &t.filled[i], t.now()
	if f.at.IsZero() {
		f.tokens = b.burst
	} else if passed := at.Sub(f.at); passed > 0 { // a clock that is set back gives nothing
		f.tokens = min(b.burst, f.tokens+passed.Seconds()*b.rate)
	}
	f.at = at
	if f.tokens < 1 {
		return protocol.Failf(protocol.CodeThrottling, "Rate exceeded")
	}
	f.tokens--
	return nil
}

// count counts a request by its outcome.
func (t *throttle) count(operation string, err error) {
	outcome := outcomeAnswered
	if err != nil {
		switch f := protocol.AsFailure(err); {
		case f.Code == protocol.CodeThrottling:
			outcome = outcomeThrottled
		case f.Status() >= http.StatusInternalServerError:
			outcome = outcomeFailed
		default:
			outcome = outcomeRefused
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[Request{operation, outcome}]++
}

// Requests returns how many requests there were, of the operations that are answered. It may be called concurrently with
// requests.
func (s *Server) Requests() map[Request]uint64 {
	s.throttle.mu.Lock()
	defer s.throttle.mu.Unlock()
	return maps.Clone(s.throttle.counts)
}
