// Package service is the service scheduler of ECS for one host: it keeps a set number of
// copies of a task running and replaces them when their definition changes. It is pure, as
// pkg/lifecycle is: Step takes a State, the time and an Event and returns the next State
// and the Effects to start. It reads no clock and calls nothing. The agent drives it.
//
// # Duties of the caller
//
//   - Save the state before any effect of its step begins. A task is in the state before
//     it is started, with an id derived from the service's, so that an effect that runs
//     twice creates one task, and none is lost.
//   - Answer each effect with one Done. StartTask of a task that already has a record
//     succeeds.
//   - Report with Seen how each task changes whose phase is Live or Stopping, and with
//     Vanished that its record is gone.
//   - Answer CallHook with HookAnswered and CheckAlarms with AlarmsChecked.
//   - Send TimerFired at Wake, and ClockChanged when the clock of the host was set.
//   - Forward connections to the listeners' addresses to the copies in Groups of the saved
//     state, before an effect of its step begins: a copy leaves the rotation, finishes its
//     connections (DrainTask), and only then is told to stop.
//
// What is in flight is not saved: after a load, Step returns those effects again.
//
// # Words
//
// They are those of the ECS API: a deployment is PRIMARY or ACTIVE, its rollout
// IN_PROGRESS, COMPLETED or FAILED. A task is healthy when its health check says so, or without
// a health check has been RUNNING for five seconds. It has failed when it stopped without being asked to, or was
// UNHEALTHY after the grace period.
//
// # Stages
//
// An attempt that is not Rolling, or has hooks, a bake time or alarms, goes through the lifecycle stages of
// ECS: the tables in stages.go say what each does and waits for. Two sets of copies run beside each other,
// blue and green. Connections are shared between them by weights, blue stops last, and the way back is the
// same with the weights reversed.
//
// Values of this package are not safe for concurrent change.
package service
