// Package schedule has the records of schedules: when a task is due, what became of its latest runs, and what
// to do now.
//
// Decide is pure: it computes the next record from the record and the due times up to now. Whoever acts saves
// the record first. The ID of a run's task follows from the schedule and the due time, so that a run that is
// begun twice is one task. Due times are systemd's: SystemdCalendar asks systemd-analyze.
package schedule
