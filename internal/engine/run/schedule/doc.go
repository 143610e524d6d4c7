// Package schedule has the records of schedules: when a task is due, what became of its latest runs, and what
// to do now.
//
// Decide is pure: it computes the next record from the record and the due times up to now. Whoever acts saves
// the record first. The ID of a run's task follows from the schedule and the due time, so that a run that is
// begun twice is one task. Due times are systemd's: SystemdCalendar asks systemd-analyze.
//
// # Decisions
//
//   - A schedule is a record and a timer. The record (internal/engine/run/schedule, in the same store as tasks) has
//     the task, the times, the latest time that was decided and the runs. systemd's user manager only wakes: the
//     timer starts podtask schedule run --due NAME, also when the timer itself starts, and that process decides by
//     the record what is due. It ends as soon as the task has an owner.
//   - schedule.Decide is pure, and the record is saved before the task is created. The ID of the task follows from
//     the schedule and the due time, so a run that is begun twice is one task. The run is noted as created before
//     its task gets an owner: a task without one has not begun. Whatever is killed, the next process continues at
//     that step.
//   - Calendar expressions are systemd's. systemd-analyze calendar checks them and says when they are due, so the
//     record and the timer agree on time zones and daylight saving. internal/define/calendar converts those of
//     EventBridge and cron.
package schedule
