package awsapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/podtask/podtask/internal/aws/awsapi"
)

func newThrottled(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, host: &host{}, dir: t.TempDir(), now: time.Now(), configure: func(c *awsapi.Config) { c.Throttling = true }}
	w.start()
	return w
}

// burst sends a request until it is throttled and returns how many were answered.
func (w *world) burst(target, body string) (answered int) {
	w.t.Helper()
	for range 1000 {
		status, answer := w.post(target, body)
		switch {
		case status == http.StatusOK:
			answered++
		case status == http.StatusBadRequest && strings.Contains(answer, `"ThrottlingException"`) && strings.Contains(answer, "Rate exceeded"):
			return answered
		default:
			w.t.Fatalf("%s: %d %s", target, status, answer)
		}
	}
	return answered
}

// The bucket of clusters has 50 requests and gets 20 in a second, for its operations together. Others have their own.
func TestRequestsAreThrottledByCategory(t *testing.T) {
	t.Parallel()
	w := newThrottled(t)
	if n := w.burst("DescribeClusters", "{}"); n != 50 {
		t.Errorf("%d requests at once, want 50", n)
	}
	if n := w.burst("ListClusters", "{}"); n != 0 {
		t.Errorf("%d requests of the same category, want none", n)
	}
	if n := w.burst("ListServices", "{}"); n != 100 {
		t.Errorf("%d requests of another category, want 100", n)
	}
	for _, c := range []struct {
		passed time.Duration
		want   int
	}{{time.Second, 20}, {49 * time.Millisecond, 0}, {time.Millisecond, 1}, {-time.Hour, 0}, {2 * time.Hour, 50}} {
		w.now = w.now.Add(c.passed)
		if n := w.burst("ListClusters", "{}"); n != c.want {
			t.Errorf("after %s: %d requests, want %d", c.passed, n, c.want)
		}
	}
	counts := w.server.Requests()
	if answered, throttled := counts[awsapi.Request{Operation: "ListClusters", Outcome: "answered"}], counts[awsapi.Request{Operation: "ListClusters", Outcome: "throttled"}]; answered != 71 || throttled != 6 {
		t.Errorf("%d answered, %d throttled", answered, throttled)
	}
	if _, answer := w.post("DescribeTasks", `{"tasks": []}`); !strings.Contains(answer, "InvalidParameterException") {
		t.Error(answer)
	}
	if n := w.server.Requests()[awsapi.Request{Operation: "DescribeTasks", Outcome: "refused"}]; n != 1 {
		t.Errorf("%d refused requests are counted", n)
	}
}

// The SDK takes the exception for one that goes away: it waits and asks again.
func TestTheSDKRepeatsAThrottledRequest(t *testing.T) {
	t.Parallel()
	w := newThrottled(t)
	w.burst("DescribeClusters", "{}")
	waits := 0
	w.client = ecs.New(ecs.Options{BaseEndpoint: &w.url, Region: "local", Credentials: credentials(key), Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) {
			waits++
			w.now = w.now.Add(time.Second)
			return 0, nil
		})
	})})
	if _, err := w.client.DescribeClusters(t.Context(), &ecs.DescribeClustersInput{Clusters: []string{"default"}}); err != nil || waits != 1 {
		t.Errorf("%d waits, %v", waits, err)
	}
	if !slices.ContainsFunc(retry.DefaultThrottles, func(c retry.IsErrorThrottle) bool { return c.IsErrorThrottle(throttled{}) == aws.TrueTernary }) {
		t.Error("the SDK does not take the code for throttling")
	}
}

// throttled is the error of the SDK for the exception.
type throttled struct{}

func (throttled) Error() string     { return "" }
func (throttled) ErrorCode() string { return "ThrottlingException" }

// A new operation needs a bucket.
func TestEachOperationHasABucket(t *testing.T) {
	t.Parallel()
	for name := range awsapi.Operations() {
		target := "AmazonEC2ContainerServiceV20141113." + name
		if service, operation, ok := strings.Cut(name, " "); ok {
			target = map[string]string{"logs": "Logs_20140328.", "ssm": "AmazonSSM.", "application-autoscaling": "AnyScaleFrontendService."}[service] + operation
		}
		if awsapi.BucketOf(target) < 0 {
			t.Errorf("%s has no bucket", name)
		}
	}
}
