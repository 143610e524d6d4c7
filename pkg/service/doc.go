// Package service decides how many copies of a task there are to be and which go
// first: the service scheduler of ECS for one host. It is pure, as pkg/lifecycle is:
// Step takes a State, a moment and an Event and returns the next State and what is to be
// done. It reads no clock and calls nothing.
//
// # Duties of the caller
//
//   - Save the state before any effect of its step begins. A task is in the state before
//     it is asked for, under an id that follows from the service's, so that an effect
//     done twice makes one task, and none is lost.
//   - Answer each effect with Done, once. StartTask of a task that has a record already
//     is success.
//   - Report with Seen what becomes of each task whose phase is Live or Stopping, and with
//     Vanished that its record is gone.
//   - Send TimerFired at Wake.
//
// What is in flight is not saved: a state that is loaded asks again.
//
// # Words
//
// They are those of the ECS API: a deployment is PRIMARY or ACTIVE, its rollout
// IN_PROGRESS, COMPLETED or FAILED. A task is fit when it is HEALTHY, or without
// a health check has been RUNNING for five seconds. It has failed when it stopped without being asked to, or was
// UNHEALTHY after the grace period.
//
// Values of this package are not safe for concurrent change.
package service
