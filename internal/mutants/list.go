package main

import "slices"

// What should notice. The model is the exhaustive one in its small cases, with
// random walks.
var (
	model   = check{"internal/sim", []string{"-run=TestModel|TestRandom", "-quick"}}
	stories = check{"internal/sim", []string{"-run=TestScripts"}}
	rules   = check{"pkg/lifecycle", nil}
	share   = check{"pkg/admission", nil}
	copies  = check{"pkg/service", nil}
	power   = check{"pkg/state/statetest", []string{"-run=TestStoreSurvivesPowerLossAnywhere"}}
	store   = check{"pkg/state", []string{"-run=Record|Sync|Doubt"}}
)

const (
	depend  = "pkg/lifecycle/depend.go"
	fold    = "pkg/lifecycle/fold.go"
	health  = "pkg/lifecycle/health.go"
	memory  = "pkg/lifecycle/memory.go"
	outcome = "pkg/lifecycle/outcome.go"
	plan    = "pkg/lifecycle/plan.go"
	queue   = "pkg/admission/queue.go"
	sandbox = "pkg/lifecycle/sandbox.go"
	infra   = "pkg/lifecycle/infra.go"
	rolling = "pkg/service/schedule.go"
	record  = "pkg/lifecycle/record.go"
	restart = "pkg/lifecycle/restart.go"
	watches = "pkg/lifecycle/watch.go"
	settle  = "pkg/lifecycle/settle.go"
	states  = "pkg/lifecycle/state.go"
	step    = "pkg/lifecycle/step.go"
	storeGo = "pkg/state/store.go"
)

var mutants = slices.Concat(coreMutants, agentMutants)

var coreMutants = []mutant{
	// What is said of memory.
	{"take our own SIGKILL for the kernel's", memory,
		"seen.ExitCode == exitKilled && s.Goal == Up &&", "seen.ExitCode == exitKilled &&", rules},
	{"account for a kill twice", memory,
		"return s.Sandbox.Memory\n}", "return MemoryUse{}\n}", rules},

	// What is believed.
	{"trust a failed call", fold,
		"c.Stale = true\n\t\tc.Unconfirmed = Unconfirmed{Kind: op.Kind, Failure: f}", "c.fail(f)\n\t\tc.end(at)", model},
	{"believe stored status after restart", fold,
		"s.Containers[i].Stale = s.Sandbox.Dirty && !s.Containers[i].Ended", "s.Containers[i].Stale = false", model},
	{"believe the stored sandbox after restart", fold,
		"s.Sandbox.Stale = s.Sandbox.Dirty", "s.Sandbox.Stale = false", model},
	{"keep in-flight marks", states,
		"c.Op, c.Retry, c.Unconfirmed, c.Stale = Op{}, Retry{}, Unconfirmed{}, false", "c.Retry, c.Unconfirmed, c.Stale = Retry{}, Unconfirmed{}, false", model},
	{"accept late replies", fold,
		"if s.Containers[i].Op.ID == ev.ID {", "if s.Containers[i].Op.Busy() {", model},
	{"accept late replies to the sandbox", fold,
		"if s.Sandbox.Op.ID == ev.ID {", "if s.Sandbox.Op.Busy() {", model},
	{"assume stop worked", fold,
		"default: // Stop, Inspect: never given up, but in the end left to a removal\n", "case Stop:\n\t\tc.end(at)\n\tdefault:\n", model},
	{"ignore hints", fold,
		"c.Stale, c.Op.Outdated = true, c.Op.Kind == Inspect", "_ = c", model},
	{"forget a hint that comes while a container is inspected", fold,
		"c.Stale = c.Stale || op.Outdated && !c.Ended\n", "", rules},
	{"ignore the end of the infra container", infra,
		"s.Sandbox.Stale = true\n", "_ = InfraIndex\n", model},
	{"take a second run of the infra container for the first", infra,
		"|| seen.StartedAt.Equal(b.InfraStartedAt))", "|| !seen.StartedAt.IsZero())", model},
	{"stop for a lost network before the containers were looked at", infra,
		"if !b.Lost || s.Goal == Up && s.anyStale() {", "if !b.Lost {", rules},
	{"let containers run on without their network", infra,
		"(b.InfraStartedAt.IsZero() || c.StartedAt.Before(b.InfraStartedAt))", "at.IsZero()", model},
	{"overlook that a container has vanished", fold,
		"case ran && (seen.Presence == Absent || seen.Presence == Created && !c.awaitsRestart()):", "case at.IsZero():", model},
	{"take an exit without a start for an exit", fold,
		"if seen.Presence == Exited && seen.StartedAt.IsZero() {", "if at.IsZero() {", rules},

	// One thing at a time, and only what is needed.
	{"drop the one-operation guard", plan,
		"if c.Op.Busy() {\n\t\treturn s.planCancel(at, i)\n\t}\n", "", model},
	{"forget to cancel", plan,
		"c.Op.Canceled = true\n\treturn CancelOp{ID: c.Op.ID}", "return nil", model},
	{"forget to cancel the sandbox", sandbox,
		"b.Op.Canceled = true\n\t\t\treturn CancelOp{ID: b.Op.ID}", "return nil", model},
	{"cancel again and again", plan,
		"c.Op.Canceled = true\n", "", model},

	// Order.
	{"start before dependency", plan,
		"a != satisfied {", "a == impossible {", model},
	{"stop in any order", plan,
		"case !s.Force && slices", "case s.Force && slices", model},
	{"resolve one after the other", plan,
		"case !c.Resolved:", "case !c.Resolved && (i == 0 || s.Containers[i-1].Resolved):", model},
	{"pull before all digests are known", plan,
		"case !s.allResolved():", "case at.IsZero():", model},
	{"create without a sandbox", plan,
		"case podReady:", "default:", model},
	{"take the sandbox down too early", sandbox,
		"case s.Goal == Up, !s.allLetGo():", "case s.Goal == Up:", model},
	{"a dependency that never ran counts as done", depend,
		"if c.Ended && c.StartedAt.IsZero() {", "if at.IsZero() {", rules},
	{"success with any exit code", depend,
		"case d.Condition == taskdef.Success && c.ExitCode != 0:", "case at.IsZero():", model},
	{"complete without an end", depend,
		"case !c.Ended:\n", "case c.StartedAt.IsZero():\n", model},
	{"ignore the start timeout", depend,
		"!deadline.IsZero() && !at.Before(deadline)", "deadline.IsZero() && !at.Before(deadline) && false", rules},
	{"sleep through the start timeout", step,
		"consider(s.startDeadline(d.Container))", "_ = d", stories},

	// Ends.
	{"ignore that a container is essential", settle,
		"if !c.Ended || !s.Task.Containers[i].Essential {", "if !c.Ended || s.Task.Containers[i].Essential {", model},
	{"take every container for essential", settle,
		"if !c.Ended || !s.Task.Containers[i].Essential {", "if !c.Ended {", model},
	{"lose the exit code", restart,
		"c.FinishedAt, c.HasExit, c.ExitCode = seen.FinishedAt, true, seen.ExitCode", "c.FinishedAt, c.HasExit = seen.FinishedAt, true", model},
	{"no exit code for an impossible dependency", settle,
		"c.HasExit, c.ExitCode = true, exitDependency", "c.HasExit = false", rules},
	{"exit code of the last container", outcome,
		"end.Before(best)", "end.After(best)", rules},
	{"give up a failed halt", sandbox,
		"default:\n\t\tb.Retry.postpone(at, f, b.Retry.persisted(), s.jitter(-1))", "default:\n\t\tb.Phase = SandboxStopped", model},
	{"give up a failed inspection", fold,
		"default: // Stop, Inspect: never given up, but in the end left to a removal\n\t\tc.Stale = true", "default:\n\t\tc.Stale = op.Kind != Inspect", model},
	{"sleep through a retry", step,
		"consider(c.Retry.NotUntil)", "_ = c", model},
	{"retry for ever what may be given up", fold,
		"if d.Failure.mayPass() && c.Retry.Attempts+1 < s.attemptLimit(d.Kind, d.Failure) {", "if d.Failure.mayPass() {", rules},
	{"a refused removal is tried for ever", sandbox,
		"case op.Kind == Remove && (f.Class == Permanent ||", "case op.Kind == Remove && (f.Class == NoImage ||", stories},

	// Users.
	{"take a removal for a stop", fold,
		"s.Goal = max(s.Goal, g)", "s.Goal = max(s.Goal, min(g, Down))", model},
	{"ignore force", fold,
		"s.Force = true\n", "s.Force = false\n", model},
	{"let a gentle stop go on under force", plan,
		"unwanted = s.Force && c.Op.Gentle", "unwanted = false", model},
	{"leave a grace under force", plan,
		"if !s.Force {\n\t\t\te.Grace", "if s.Goal != Up {\n\t\t\te.Grace", model},
	{"replace the stop reason", fold,
		"if s.Goal == Up {\n\t\twhy.At = at", "if s.Goal != Gone {\n\t\twhy.At = at", model},

	// Restarts.
	{"restart whatever the policy says", restart,
		"again := s.Goal == Up && whyNot == \"\"", "again := s.Goal == Up && policy != nil", model},
	{"wait for a restart on the way down", settle,
		"if s.Goal != Up {\n\t\t\tc.end(at)", "if s.Goal != Up && !c.awaitsRestart() {\n\t\t\tc.end(at)", model},
	{"never restart", restart,
		"again := s.Goal == Up && whyNot == \"\"", "again := at.IsZero()", model},
	{"restart sooner than the attempt period", restart,
		"case ran >= p.AttemptPeriod:", "case ran >= 0:", model},
	{"restart more often than the maximum", restart,
		"restarts >= p.MaxCount:", "restarts > p.MaxCount:", model},
	{"restart after an ignored exit code", restart,
		"case slices.Contains(p.IgnoredExitCodes, code):", "case code < 0:", model},
	{"forget a restart that is to come", states,
		"c.Abandoned = false // what", "c.Abandoned, c.RestartAt = false, time.Time{} // what", model},
	{"take the exit before a restart for the one after it", fold,
		"case c.awaitsRestart() && (seen.Presence == Created || seen.Presence == Exited && seen.StartedAt.Equal(c.StartedAt)):",
		"case c.awaitsRestart() && seen.Presence == Created:", rules},
	{"sleep through a restart", step,
		"consider(c.RestartAt)", "_ = c.RestartAt", model},
	{"no pause before a restart", restart,
		"c.RestartAt = at.Add(pause)", "c.RestartAt = at.Add(0 * pause)", rules},
	{"keep the health of the run before", restart,
		"c.Health = s.firstHealthState(at, i)", "if c.Restarts == 0 {\n\t\tc.Health = s.firstHealthState(at, i)\n\t}", rules},
	{"tell nothing of restarts", restart,
		"due := 2 * c.Restarts", "due := c.RestartsTold", rules},
	{"a restart moves the start timeout", depend,
		"return c.FirstStartedAt.Add(limit)", "return c.StartedAt.Add(limit)", rules},
	{"wait for ever for what does not start", depend,
		"if late && c.StartedAt.IsZero() {", "if late && at.IsZero() {", stories},

	// Watches.
	{"stop for any unhealthy container", watches,
		"if !def.Essential || c.Presence != Running {", "if c.Presence != Running {", rules},
	{"stop an unhealthy task unasked", watches,
		"if wanted.StopWhenUnhealthy && c", "if c", rules},
	{"watch dependencies unasked", watches,
		"if !wanted.WatchDependencies {", "if at.IsZero() {", rules},
	{"overlook a dependency that ends", watches,
		"case c.Ended:", "case c.Abandoned:", rules},
	{"probe a paused container", plan,
		"case c.Paused:", "case at.IsZero():", model},

	// Removals.
	{"a removal waits for ever for an inspection", fold,
		"if s.Goal == Gone && c.Retry.Persist >= removalAttempts {", "if at.IsZero() {", rules},
	{"a failed removal is tried for ever", sandbox,
		"b.Retry.Persist+1 >= removalAttempts", "at.IsZero()", rules},
	{"a removal that was given up leaves containers to themselves", sandbox,
		"s.Goal = Down\n\t\ts.resumeAbandoned()", "s.Goal = Down", rules},
	{"give up a container without a removal", fold,
		"if s.Goal == Gone && c.Retry", "if c.Retry", rules},

	// Images.
	{"tolerate no image failure", fold,
		"return s.Options.Pull == PullDefault || s.Options.Pull == PullPreferCached", "return false", rules},
	{"tolerate every image failure", fold,
		"return s.Options.Pull == PullDefault || s.Options.Pull == PullPreferCached", "return true", model},
	{"pull a lost image again and again", fold,
		"if d.Failure.Class == NoImage && !c.lostImage() {", "if d.Failure.Class == NoImage {", rules},

	// Health.
	{"count early failures", health,
		"if h.Status == HealthUnknown && at.Before(h.Since.Add(grace)) {", "if grace < 0 {", rules},
	{"never count an overrun", health,
		"if op.Kind != Probe || at.Before(op.Overdue) {", "if op.Kind != Halt {", rules},
	{"hear the answer of an overrun check", health,
		"case op.Overran || ev.Failure.Class == Canceled:", "case ev.Failure.Class == Canceled:", rules},
	{"unhealthy a check too late", health,
		"if h.Streak >= check.Retries {", "if h.Streak > check.Retries {", rules},
	{"count failures that are not in a row", health,
		"h.ExitCode, h.Output, h.Streak = 0, ev.Result.Probe.Output, 0", "h.ExitCode, h.Output = 0, ev.Result.Probe.Output", rules},

	// What is told, and values.
	{"RUNNING on the way down", record,
		"if s.Goal != Up {\n\t\treturn s.Reported\n\t}", "", model},
	{"no RUNNING for a task whose last container ends at once", record,
		"if wasUp && s.Reported < StatusRunning && s.haveRunTogether() {", "if at.IsZero() {", rules},
	{"RUNNING though an essential container had ended", record,
		"c.FinishedAt.Before(last)", "last.IsZero()", rules},
	{"STOPPED while the ports are held", record,
		"if s.allEnded() && s.Sandbox.Phase >= SandboxStopped {", "if s.allEnded() {", model},
	{"tell the digest of a pinned reference", record,
		"if c.Pinned || c.Digest == \"\" {", "if c.Digest == \"\" {", rules},
	{"tell everything again", record,
		"c.Reported = max(c.Reported, reached)", "_ = reached", model},
	{"change the input", step,
		"s = s.clone()\n", "", rules},
	{"share the history with older states", record,
		"append(s.History[:len(s.History):len(s.History)], t)", "append(s.History, t)", rules},

	// The queue.
	{"pull without a share", plan,
		"case !s.admitted():", "case at.IsZero():", model},
	{"keep the share of a task that has stopped", sandbox,
		"case b.Reservation != ReservationNone:\n\t\treturn", "case at.IsZero():\n\t\treturn", model},
	{"ask again only after a restart", sandbox,
		"b.Retry.NotUntil = at.Add(queuePace)", "b.Retry.NotUntil = at.AddDate(1, 0, 0)", rules},
	{"pass without a bound", queue,
		"earlier.Passed < b.Overtake &&", "b.Overtake > 0 &&", share},
	{"do not count who is passed", queue,
		"q.Entries[k].Passed++", "_ = k", share},
	{"take the port that another waits for", queue,
		"&& len(earlier.Need.meets(e.Need)) == 0:", "&& len(earlier.Need.Ports) >= 0:", share},
	{"wait behind the dead", queue,
		"case earlier.Held || !present(earlier.Task):", "case earlier.Held:", share},
	{"lend cpu twice", queue,
		"if cpu += h.Need.CPU; h.Need.CPU > 0 {", "if cpu = max(cpu, h.Need.CPU); h.Need.CPU > 0 {", share},

	// Services.
	{"make more copies than there may be", rolling,
		"n := min(s.DesiredCount-kept, most-s.Count(\"\").Present)", "n := min(s.DesiredCount-kept, most)", copies},
	{"do not wait after failures", rolling,
		"if n <= 0 || at.Before(s.Pace.NotUntil) {", "if n <= 0 {", copies},
	{"stop healthy copies before there are others", rolling,
		"!t.Healthy() || counts.Healthy > least", "!t.Healthy() || counts.Healthy > min(least, 0)", copies},
	{"never return to an earlier deployment", rolling,
		"p.FailedTasks < s.Threshold() {", "p.FailedTasks < 1000 {", copies},
	{"give up a deployment after one failure", rolling,
		"min(max((s.DesiredCount+1)/2, 3), 200)", "1", copies},
	{"stop a copy that is just being made", rolling,
		"(t.Phase == Wanted || t.Phase == Live) && t.op != busy", "t.Phase == Wanted || t.Phase == Live", copies},
	{"ignore the grace period", rolling,
		"!at.Before(t.Seen.Since.Add(s.Config.HealthCheckGracePeriod))", "!at.IsZero()", copies},
	{"take a copy for well at once", "pkg/service/state.go",
		"t.Seen.Health == Unchecked && !at.Before(t.Seen.Since.Add(monitor))", "t.Seen.Health == Unchecked", copies},
	{"forget that ports collide", "pkg/service/state.go",
		"if s.collides() {", "if s.collides() && s.DesiredCount < 0 {", copies},
	{"count a user's stop as a failure", "pkg/service/step.go",
		"if !asked && !seen.ByUser {", "if !asked {", copies},
	{"count failures together as many", "pkg/service/step.go",
		"s.Pace.Known = s.LastTask", "s.Pace.Known = 0", copies},
	{"keep a copy that is gone", "pkg/service/step.go",
		"t != nil && t.Phase != Wanted {", "t != nil && t.Phase == Stopping {", copies},

	// The store.
	{"no sync of the file", storeGo,
		"if err := f.Sync(); err != nil {", "if err := error(nil); err != nil {", power},
	{"no sync of the directory", storeGo,
		"err := s.fs.SyncDir(s.dir)", "var err error", power},
	{"no rename", storeGo,
		"tmp := s.tempPath(key)", "tmp := s.path(key)", power},
	{"believe the checksum", "pkg/state/record.go",
		"if string(fields[2]) != sumPrefix+hex.EncodeToString(sum[:]) {", "if hex.EncodeToString(sum[:]) == \"\" {", store},
	{"forget the doubt of a failed sync", storeGo,
		"s.doubt[key] = true", "delete(s.doubt, key)", store},
}
