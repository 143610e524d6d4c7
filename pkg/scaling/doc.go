// Package scaling decides how many copies a service has, by its policies. It is pure: samples of metrics and the time go
// in, a number of copies comes out. internal/engine/run/scaling takes the samples and changes the services.
//
// # Decisions
//
//   - A policy tracks a target, as the target tracking of Application Auto Scaling does. Samples come every Interval. Three
//     in a row above the target scale out, at once to the number that brings the metric back to the target. All samples of
//     InAfter below nine tenths of the target scale in, to the number with which the metric stays below that. The gap of a
//     tenth, and the long time, keep a service from going back and forth.
//   - Of several policies the highest number wins. A service scales in only if all policies that may do so agree.
//   - The cool-down after a scale-out does not forbid another one: it counts the load as that of the copies before, so that
//     only a larger load adds more. The cool-down for scaling in counts from the latest change in either direction.
//   - A service whose copies wait for room on the host gets no more of them: what runs already would have to wait with it in
//     the queue. A deployment forbids scaling in.
//   - A service with a desired count of 0 was stopped by a person and stays so; one that sleeps is left to its sleep.
package scaling
