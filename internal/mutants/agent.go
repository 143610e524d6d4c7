package main

// effects is the agent's tests of what it does with a decision of the core, and of what
// it leaves to others.
func effects(tests string) check { return check{"internal/agent", []string{"-run=^(" + tests + ")$"}} }

const (
	runGo       = "internal/owner/run.go"
	loopGo      = "internal/loop/loop.go"
	interpreter = "internal/effects/effects.go"
	sweepGo     = "internal/cleanup/orphans.go"
	pullGo      = "internal/imagestore/pull.go"
)

var agentMutants = []mutant{
	{"act before the record is written", loopGo,
		"if err := l.save(ctx, a, o.Record); err != nil {",
		"a.Act(ctx, d)\n\t\tif err := l.save(ctx, a, o.Record); err != nil {",
		effects("TestNothingIsDoneBeforeItIsRecorded")},
	{"go on though the disk is full", runGo,
		"return errors.Join(loop.ErrRetry, err)", "return nil",
		effects("TestFullDiskStopsNewWorkAndLosesNothing")},
	{"publish what an owner before has published", runGo,
		"o.all.Events.LastPublished(ctx, o.State()), driver.EncodeTask", "0, driver.EncodeTask",
		effects("TestEventsArePublishedOnceWhoeverOwnsTheTask")},
	{"keep the record of a removed task", runGo,
		"if err := r.all.Tasks.Store.Delete(r.owner.id); err != nil {", "if err := error(nil); err != nil {",
		effects("TestRemovalForgetsTheTask")},
	{"no sweep after a task that was erased in the making", runGo,
		"if d.RequestSweep {", "if d.RequestSweep && r.owner.id == \"\" {",
		effects("TestNextOwnerSweepsAfterATaskWasErasedInTheMaking")},
	{"sweep what an owner is about to make", sweepGo,
		"if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrBadKey) {\n\t\treturn false, nil",
		"if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrBadKey) {\n\t\treturn true, remove()",
		effects("TestSweepLeavesWhatAnOwnerIsAboutToMake")},
	{"sweep nothing", sweepGo,
		"if _, err := c.Tasks.Store.Get(id); !errors.Is(err, fs.ErrNotExist) {", "if _, err := c.Tasks.Store.Get(id); err != fs.ErrPermission {",
		effects("TestSweepRemovesPodsWithoutATask")},
	{"leave the name of a pod that is in the making", interpreter,
		"r.reservePodName(ctx, podman, s)\n\t}", "_ = r.reservePodName\n\t}",
		effects("TestRemovalTakesTheNameOfAPodInTheMaking")},
	{"give up a removal for a reason nobody knows", interpreter,
		"again.Class = libpod.Temporary", "_ = libpod.Temporary",
		effects("TestRemovalIsNotGivenUpForAReasonNobodyKnows")},
	{"keep the secrets of a stopped task", interpreter,
		"awaitRelease(ctx, s.Ports())\n\treturn r.Secrets.Remove(ctx, s)", "awaitRelease(ctx, s.Ports())\n\treturn nil",
		effects("TestSecretsLiveAsLongAsAContainerMayStart")},
	{"pull more at once than is allowed", pullGo,
		"n := p.Policy.PullsAtOnce", "n := 100",
		effects("TestNoMorePullsAtOnceThanAllowed")},
	{"take an image that was there for ours", pullGo,
		"m.Ours = !before || p.ours(id)", "m.Ours = true",
		effects("TestImageThatWasHereCountsForOnce|TestOnceCountsOnlyWhatPodtaskPulled|TestCleanup.*")},
}
