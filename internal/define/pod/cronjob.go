package pod

import (
	"time"

	"github.com/podtask/podtask/internal/define/calendar"
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
	switch _, err := calendar.Cron(c.Schedule); {
	case c.Schedule == "":
		spec.wrong("schedule is missing", "write it as in schedule: \"0 3 * * *\"")
	case err != nil:
		spec.at("schedule").wrong(err.Error(), "")
	}
	if c.TimeZone == "Local" {
		spec.at("timeZone").wrong("Local is no name of a time zone", "write a name such as Europe/Vienna, or leave it out for UTC")
	}
	return c
}
