package pod

import (
	"slices"
	"time"
)

// CronJob is what a CronJob says besides its Pod.
type CronJob struct {
	// Schedule is a cron expression of five fields. TimeZone is empty for UTC.
	Schedule, TimeZone string
	// ConcurrencyPolicy is Allow, Forbid or Replace.
	ConcurrencyPolicy string
	Suspend           bool
	// StartingDeadline is how late a run may begin; 0: no limit.
	StartingDeadline time.Duration
	// Ignored are the members that have no effect on a schedule.
	Ignored []string
}

// newCronJob reads the document of a CronJob.
func newCronJob(doc value) *CronJob {
	spec := doc.at("spec")
	c := &CronJob{
		Schedule: spec.at("schedule").str(), TimeZone: spec.at("timeZone").str(),
		ConcurrencyPolicy: spec.at("concurrencyPolicy").word("Allow", "Allow", "Forbid", "Replace"),
		Suspend:           spec.at("suspend").flag(false),
		StartingDeadline:  time.Duration(spec.at("startingDeadlineSeconds").integer(0, 1<<31, 0)) * time.Second,
	}
	known := []string{"schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "jobTemplate"}
	for _, f := range spec.entries() {
		if !slices.Contains(known, f.Key) {
			c.Ignored = append(c.Ignored, "spec."+f.Key)
		}
	}
	for _, f := range spec.at("jobTemplate").at("spec").entries() {
		if f.Key != "template" {
			c.Ignored = append(c.Ignored, "spec.jobTemplate.spec."+f.Key)
		}
	}
	return c
}
