package pod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const cronJob = `apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * 1-5"
  timeZone: Europe/Berlin
  concurrencyPolicy: Replace
  startingDeadlineSeconds: 90
  suspend: true
  failedJobsHistoryLimit: 1
  jobTemplate:
    spec:
      backoffLimit: 4
      template:
        spec:
          restartPolicy: Never
          containers: [{name: a, image: example.com/a}]
`

func TestCronJob(t *testing.T) {
	t.Parallel()
	result, _, err := Parse("cron.yaml", []byte(cronJob), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &CronJob{
		Schedule: "0 3 * * 1-5", TimeZone: "Europe/Berlin", ConcurrencyPolicy: "Replace", Suspend: true, StartingDeadline: 90 * time.Second,
	}
	if diff := cmp.Diff(want, result.CronJob); diff != "" {
		t.Error(diff)
	}
	if _, _, err := Parse("cron.yaml", []byte(strings.Replace(cronJob, "Replace", "replace", 1)), Options{}); err == nil {
		t.Error("an unknown policy is taken")
	}
}
